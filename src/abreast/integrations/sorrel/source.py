"""What `abreast train sorrel:…` finds: an environment by the name of its class, with settings from the command line."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from abreast.checking import Verdict
from abreast.errors import ConfigError, GameError, short
from abreast.files import seen_from_here
from abreast.integrations.sorrel.building import build, is_environment, own_settings
from abreast.integrations.sorrel.experiment import SorrelExperiment, section_of, settings_for
from abreast.integrations.sorrel.model import SorrelModelConfig
from abreast.plugins import import_target, split_target
from abreast.settings import apply_overrides, merge, read_yaml
from abreast.training.config import Config, ExperimentConfig

OF_SORREL = frozenset({"epochs", "max_turns", "record_period"})
"""Settings of `experiment` that sorrel has too: they are given as it counts them."""
OURS = frozenset(ExperimentConfig.model_fields) - OF_SORREL
KEPT_ELSEWHERE = frozenset({"epochs", "record_period"})
"""Settings that may change when a run goes on: they are in the section `experiment` of its configuration alone."""


@dataclass(frozen=True)
class SorrelSource:
    """An environment that can be built: `make` is its class, or a function that returns one."""

    make: Any
    target: str
    module: ModuleType

    @property
    def name(self) -> str:
        return str(self.make.__name__).removesuffix("Env").lower()

    @property
    def summary(self) -> str:
        return ((self.make.__doc__ or "").strip().splitlines() or [self.make.__name__])[0]

    def configure(
        self, given: Path | Mapping[str, Any] | None = None, overrides: Iterable[str] = ()
    ) -> Config[Any, Any]:
        """The environment's own settings, then those given, then each `section.key=value`.

        Of `experiment`, what only abreast has (seed, checkpoints), and `multiprocessing`, are ours; all else is sorrel's.
        """
        sections = dict(read_yaml(given) if isinstance(given, Path) else given or {})
        world = sections.get("world")
        if isinstance(world, Mapping) and "sorrel" in world:  # of a run folder
            own = dict(world["sorrel"])
            ours = {name: sections.get(name) or {} for name in ("experiment", "multiprocessing")}
            counted = {name: ours["experiment"].pop(name) for name in OF_SORREL & ours["experiment"].keys()}
            counted["epochs"] = counted.get("epochs", 1) - 1
            own["experiment"] = {**dict(own.get("experiment") or {}), **counted}
        elif section_of(sections, "model").get("algorithm") == SorrelModelConfig().algorithm:
            raise ConfigError(
                f"a script made this run, and built {self.make.__name__} in its own way, which no file says: let the script"
                " go on with it (run_experiment with resume=…), and evaluate it there (abreast.training.evaluate)."
            )
        else:
            ours = {"experiment": {}, "multiprocessing": sections.pop("multiprocessing", None) or {}}
            sections.pop("game", None)
            own = merge(own_settings(self.module), sections)
        overrides = list(overrides)
        own = apply_overrides(own, [each for each in overrides if not _is_ours(each)])
        ours = apply_overrides(ours, [each for each in overrides if _is_ours(each)])
        experiment = own.get("experiment")
        if not isinstance(experiment, Mapping) or not {"epochs", "max_turns"} <= experiment.keys():
            raise ConfigError(
                f"nothing says how long {self.make.__name__} is to be played: give experiment.epochs=… and"
                " experiment.max_turns=…, or its configuration (--config)."
            )
        ours["experiment"] = {**{name: experiment[name] for name in OURS & experiment.keys()}, **ours["experiment"]}
        kept = {key: value for key, value in experiment.items() if key not in KEPT_ELSEWHERE | OURS}
        stored = {"sorrel": {**own, "experiment": kept}}
        return settings_for(own, {"game": self.target, **ours, "world": stored}, self.make.__name__)

    def build(self, config: Config[Any, Any]) -> SorrelExperiment:
        """A fresh environment, as an experiment."""
        env, wanted = self.make_environment(config), config.experiment
        if "num_agents" in wanted.model_fields_set and wanted.num_agents != len(env.agents):
            raise ConfigError(
                f"experiment.num_agents is {wanted.num_agents}, but {self.make.__name__} makes {len(env.agents)} agents: its"
                " own configuration says how many."
            )
        return SorrelExperiment(env, config)

    def make_environment(self, config: Config[Any, Any]) -> Any:
        """The environment itself, the same for the same settings."""
        settings = dict((config.world.model_extra or {})["sorrel"])
        counted = {"epochs": config.experiment.epochs - 1, "record_period": config.experiment.record_period}
        settings["experiment"] = {**settings.get("experiment", {}), **counted}
        return build(self.make, settings, config.experiment.seed)

    def check(self) -> Iterator[Verdict]:
        """Look whether runs of it can be repeated and resumed."""
        from abreast.integrations.sorrel.check import check_sorrel

        return check_sorrel(self)


def _is_ours(override: str) -> bool:
    section, _, key = override.partition("=")[0].strip().partition(".")
    return section == "multiprocessing" or (section == "experiment" and key.partition(".")[0] in OURS)


def find(target: str) -> SorrelSource:
    """The environment that `module:Class`, `file.py:Class` or `module:function` points to, a function that builds one."""
    found = import_target(target, "environment", GameError)
    if not is_environment(found) and (isinstance(found, type) or not callable(found)):
        raise GameError(
            f"sorrel:{target} is {short(found)}: expected MODULE:NAME of a class derived from sorrel's Environment, or of a"
            " function that returns a built one."
        )
    place, colon, name = split_target(target)
    module = import_target(place, "environment", GameError)
    seen = f"{seen_from_here(place)}{colon}{name}" if place.endswith(".py") else target
    return SorrelSource(found, f"sorrel:{seen}", module)
