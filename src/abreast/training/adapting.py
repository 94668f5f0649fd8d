"""Environments of other frameworks, given where an experiment of ours is expected."""

from typing import TYPE_CHECKING, Any

from abreast.errors import ConfigError, short
from abreast.plugins import import_target

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment

ADAPTERS = ("abreast.integrations.sorrel:experiment_of",)
"""Functions that make an experiment of an environment and of parallel settings, or return None. They are found by name,
because integrations stand on training."""


def adapted(env: Any, config: object) -> "Experiment":
    """The experiment that an environment of another framework is."""
    for name in ADAPTERS:
        found: Experiment | None = import_target(name, "adapter", ConfigError)(env, config)
        if found is not None:
            return found
    raise ConfigError(f"the environment is {short(env)}: expected an abreast.Environment, or one of sorrel's.")
