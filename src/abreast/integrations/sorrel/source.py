"""What `abreast train sorrel:…` finds: an environment by the name of its class, with settings from the command line.

An example of sorrel's is a package with `env.py`, `world.py`, `entities.py` and a `main.py` that puts them together:

    world = TreasurehuntWorld(config=config, default_entity=EmptyEntity())
    env = TreasurehuntEnv(world, config)

The same is done here. What cannot be found out so is built by a function of the user's: `module:function`.
"""

import ast
import inspect
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from abreast.checking import Verdict
from abreast.errors import ConfigError, GameError, short
from abreast.files import seen_from_here
from abreast.integrations.sorrel.experiment import SorrelExperiment, SorrelLanes, section_of
from abreast.integrations.sorrel.model import OWN, OWN_MODELS
from abreast.models import algorithm
from abreast.plugins import import_target, split_target
from abreast.settings import apply_overrides, merge, read_yaml
from abreast.streams import seeded_globals
from abreast.training.config import Config, ExperimentConfig, parse_config
from abreast.training.experiment import Experiment

BUILDING = 10
"""The part of a seed's spawn key that stands for building."""
SETTINGS_FILES = ("configs/config.yaml", "config.yaml", "configs/config.yml", "config.yml")
"""Where an environment keeps its settings, seen from its module; else they are in the main.py beside it."""
EMPTY = "EmptyEntity"
"""What the default entity is called, of worlds that have none of their own."""
MISSING_KEYS = ("ConfigAttributeError", "ConfigKeyError", "MissingMandatoryValue", "InterpolationKeyError")
"""What OmegaConf raises where a key is missing."""
OURS = frozenset(ExperimentConfig.model_fields) - {"epochs", "max_turns", "record_period"}
"""Settings of `experiment` that sorrel has not."""
CHANGEABLE = frozenset({"epochs", "record_period"})
"""Settings that may change when a run goes on: they are in the section `experiment` of its configuration alone."""
DROPPED = object()


@dataclass(frozen=True)
class SorrelSource:
    """An environment that can be built: `make` is its class, or a function that returns one."""

    make: Any
    target: str
    module: ModuleType

    def __reduce__(self) -> Any:
        return find, (self.target.partition(":")[2],)  # to other processes it is sent by its text

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

        Of `experiment`, what only abreast has (seed, checkpoints), and `multiprocessing`, are ours; all else is sorrel's. If
        `model.algorithm` names a model of ours, its settings are ours, too, and those that both know count for both.
        """
        sections = read_yaml(given) if isinstance(given, Path) else dict(given or {})
        own = section_of(section_of(sections, "world"), "sorrel")
        if own:  # it is the configuration of a run
            names: tuple[str, ...] = ("experiment", "model", "multiprocessing")
            ours = {name: dict(sections[name]) for name in names if name in sections}
            if section_of(ours, "model").get("algorithm") == OWN:
                ours["experiment"]["epochs"] -= 1
                del ours["model"]
            values, known = merge(own, ours), section_of(own, "model").keys()
        else:
            values = merge(own_settings(self.module), {key: value for key, value in sections.items() if key != "game"})
            known = section_of(values, "model").keys()
            if section_of(sections, "model").get("algorithm") == OWN:
                raise ConfigError(
                    f"a script made this run, and built {self.make.__name__} in its own way, which no file says: let the"
                    " script go on with it (run_experiment with resume=…), and evaluate it there"
                    " (abreast.training.evaluate)."
                )
        values = apply_overrides(values, overrides)
        return self._split(values, {name for name in known if name != "algorithm"})

    def _split(self, values: Mapping[str, Any], known: set[str]) -> Config[Any, Any]:
        """All settings as a configuration of ours, which has those of sorrel's in `world.sorrel`. `known`: keys of `model`
        that its environment comes with.
        """
        experiment, model = dict(section_of(values, "experiment")), dict(section_of(values, "model"))
        if experiment.get("epochs") is None or experiment.get("max_turns") is None:
            raise ConfigError(
                f"nothing says how long {self.make.__name__} is to be played: give experiment.epochs=… and"
                " experiment.max_turns=…, or its configuration (--config)."
            )
        kept = {key: value for key, value in experiment.items() if key not in CHANGEABLE | OURS}
        stored = {key: value for key, value in values.items() if key not in ("multiprocessing", "model")}
        if model.setdefault("algorithm", OWN) == OWN:
            experiment["epochs"] += type(experiment["epochs"]) is int  # it plays one more
            ours, theirs = OWN_MODELS, {key: value for key, value in model.items() if key != "algorithm"}
        else:
            fields = algorithm(model["algorithm"]).Config.model_fields
            ours = {key: value for key, value in model.items() if key in fields or key not in known}
            theirs = {key: model[key] for key in known}
        return parse_config(
            {
                "game": self.target,
                "experiment": {key: experiment[key] for key in ExperimentConfig.model_fields if key in experiment},
                "model": ours,
                "world": {"sorrel": {**stored, "model": theirs, "experiment": kept}},
                "multiprocessing": values.get("multiprocessing"),
            }
        )

    def build(self, config: Config[Any, Any]) -> Experiment:
        """A fresh environment, as an experiment; several of them, if models of ours play."""
        if config.model.algorithm == OWN:
            return SorrelExperiment(self.make_environment(config), config)
        return SorrelLanes(self, config)

    def make_environment(self, config: Config[Any, Any]) -> Any:
        """The environment itself, the same for the same settings."""
        settings, wanted = dict((config.world.model_extra or {})["sorrel"]), config.experiment
        counted = {"epochs": wanted.epochs - (config.model.algorithm == OWN), "record_period": wanted.record_period}
        env = build(self.make, merge(settings, {"experiment": counted}), wanted.seed)
        if "num_agents" in wanted.model_fields_set and wanted.num_agents != len(env.agents):
            raise ConfigError(
                f"experiment.num_agents is {wanted.num_agents}, but {self.make.__name__} makes {len(env.agents)} agents: its"
                " own configuration says how many."
            )
        return env

    def check(self) -> Iterator[Verdict]:
        """Look whether runs of it can be repeated and resumed."""
        from abreast.integrations.sorrel.check import check_sorrel

        return check_sorrel(self)


def find(target: str) -> SorrelSource:
    """The environment that `module:Class`, `file.py:Class` or `module:function` points to, a function that builds one."""
    found = import_target(target, "environment", GameError)
    if not _is_environment(found) and (isinstance(found, type) or not callable(found)):
        raise GameError(
            f"sorrel:{target} is {short(found)}: expected MODULE:NAME of a class derived from sorrel's Environment, or of a"
            " function that returns a built one."
        )
    place, colon, name = split_target(target)
    module = import_target(place, "environment", GameError)
    seen = f"{seen_from_here(place)}{colon}{name}" if place.endswith(".py") else target
    return SorrelSource(found, f"sorrel:{seen}", module)


def _is_environment(thing: object) -> bool:
    return isinstance(thing, type) and all(hasattr(thing, name) for name in ("take_turn", "setup_agents", "reset"))


# ---- its own settings


def own_settings(module: ModuleType) -> dict[str, Any]:
    """The settings that an environment comes with: in a YAML file, or as `config = {…}` in the main.py beside its module or
    in the module itself. They are read, not run: values that are computed there (paths, dates) are left out.
    """
    file = Path(getattr(module, "__file__", None) or "")
    files = [file.parent / name for name in SETTINGS_FILES if file.name and (file.parent / name).is_file()]
    if files:
        return read_yaml(files[0])
    scripts = [each for each in (file.parent / "main.py", file) if each.is_file()]
    return next(filter(None, map(_config_in, scripts)), {})


def _config_in(script: Path) -> dict[str, Any]:
    """The last dictionary that a script calls `config`."""
    try:
        nodes = [*ast.walk(ast.parse(script.read_text(encoding="utf-8")))]
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return {}
    given = [each for each in nodes if isinstance(each, ast.Assign) and isinstance(each.value, ast.Dict)]
    found = [each.value for each in given if "config" in [ast.unparse(name).lower() for name in each.targets]]
    return _literal(found[-1]) if found else {}


def _literal(node: ast.expr) -> Any:
    """The value of an expression that needs no computing; what does is left out."""
    if isinstance(node, ast.Dict):
        pairs = ((_literal(key), _literal(each)) for key, each in zip(node.keys, node.values, strict=True) if key)
        return {key: value for key, value in pairs if key is not DROPPED and value is not DROPPED}
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return DROPPED


# ---- building


def build(make: Any, settings: Mapping[str, Any], seed: int) -> Any:
    """A built environment, the same for the same seed: `make` is its class, or a function that returns one. While it is
    built, `torch.random.seed()`, by which models of sorrel's are seeded from the clock, is decided by the seed, too.
    """
    try:
        from omegaconf import OmegaConf
    except ImportError:
        raise GameError("environments of sorrel's are configured by OmegaConf: pip install omegaconf.") from None
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(BUILDING, 1)))

    def draw() -> int:
        torch.manual_seed(value := int(rng.integers(2**62)))
        return value

    config, clocks = OmegaConf.create(dict(settings)), (torch.random.seed, torch.seed)
    with seeded_globals(np.random.SeedSequence(seed), BUILDING):
        torch.random.seed = torch.seed = draw
        try:
            if _is_environment(make):
                return make(_make_world(make, config), config)
            wanted = [each for each in inspect.signature(make).parameters.values() if each.default is each.empty]
            return make(*[config][: len(wanted)])
        except Exception as error:
            if type(error).__name__ not in MISSING_KEYS:
                raise
            told = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"{make.__name__} asks its configuration for what is not there ({told}): give it as section.key=value, or in"
                " a file (--config)."
            ) from error
        finally:
            torch.random.seed, torch.seed = clocks


def _make_world(kind: type, config: Any) -> Any:
    """The world of an environment, from what its constructor asks for by name. A default entity of its own is left to it."""
    by_function = f"write a function that builds the environment, and give sorrel:{kind.__module__}:FUNCTION."
    bases = [base for each in kind.__mro__ for base in vars(each).get("__orig_bases__", ())]
    worlds = [each for base in bases for each in typing.get_args(base) if isinstance(each, type)]
    if not worlds:
        raise GameError(
            f"{kind.__name__} does not say what its world is: derive it from Environment[ThatWorld], or {by_function}"
        )
    given, parameters = {"config": config}, inspect.signature(worlds[0]).parameters.values()
    given |= {key: value for name in ("env", "world") for key, value in section_of(config, name).items()}
    needed = [
        each.name for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    if "default_entity" in needed:
        given["default_entity"] = _empty_entity(kind, worlds[0], by_function)()
    for name in needed:
        if name not in given:
            raise GameError(
                f"{worlds[0].__name__} wants {name}, which is not in the section world of the configuration: give"
                f" world.{name}, or {by_function}"
            )
    return worlds[0](**{each.name: given[each.name] for each in parameters if each.name in given})


def _empty_entity(kind: type, world: type, otherwise: str) -> Any:
    """The default entity's class: in the environment's module or package, or in the framework."""
    package, root = kind.__module__.rpartition(".")[0], [each for each in kind.__mro__ if _is_environment(each)][-1]
    places = [kind.__module__, f"{package}.entities".lstrip("."), world.__module__]
    places += [f"{root.__module__.partition('.')[0]}.entities"]
    found = [getattr(sys.modules.get(place), EMPTY, None) for place in places]
    if not any(found):
        raise GameError(
            f"{world.__name__} wants a default entity, but there is no {EMPTY} in {', '.join(places[:3])}: {otherwise}"
        )
    return next(filter(None, found))
