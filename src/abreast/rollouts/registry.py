"""Finding environments: every package in `envs`, every entry point of the group `abreast.envs`, every `register`ed one.

A package exposes `KIND`, an `EnvKind`. An installed package adds its own with

    [project.entry-points."abreast.envs"]
    myenv = "my_package.myenv:KIND"
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.errors import RolloutError
from abreast.plugins import Plugins
from abreast.rollouts.config import EnvConfig

KINDS = Plugins("environment type", "abreast.rollouts.envs", "KIND", "abreast.envs", RolloutError)

Solver = Callable[[Any, Sequence[Mapping[str, Any]]], list[str]]
"""Called with an environment's configuration and the history of its episode; returns the actions of the next turn."""


@dataclass(frozen=True)
class EnvKind:
    """A type of environment, known by name."""

    name: str
    summary: str
    """One sentence for `abreast envs`."""
    env: Callable[[Any], Any]
    """Makes the environment from its configuration: a class, usually."""
    config: type[EnvConfig]
    instruction: str
    """What a language model is told to do."""
    solver: Solver | None = None
    """A policy that plays well from what it sees alone, if there is one."""
