"""What `abreast train sorrel:…` finds: an environment by the name of its class, with settings from the command line.

An example of sorrel's is a package with `env.py`, `world.py`, `entities.py` and a `main.py` that puts them together:

    world = TreasurehuntWorld(config=config, default_entity=EmptyEntity())
    env = TreasurehuntEnv(world, config)

The same is done here. What cannot be found out so is built by a function of the user's: `module:function`.
"""

import ast
import inspect
import random
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from abreast.checking import Verdict
from abreast.errors import ConfigError, GameError
from abreast.integrations.adapted.experiment import ForeignGame
from abreast.integrations.adapted.making import check_arguments, first_line
from abreast.integrations.sorrel.experiment import OWN_MODELS, SorrelExperiment, SorrelLanes, section_of
from abreast.models import algorithm
from abreast.settings import apply_overrides, merge, read_yaml
from abreast.streams import seeded_globals
from abreast.training.config import Config, ExperimentConfig, parse_config
from abreast.training.experiment import Experiment

BUILDING = 10
"""The part of a seed's spawn key that stands for building."""
SETTINGS_FILES = ("configs/config.yaml", "config.yaml")
"""Where an environment keeps its settings, seen from its module; else they are in the main.py beside it."""
OWN = OWN_MODELS["algorithm"]
EMPTY = "EmptyEntity"
"""What the default entity is called, of worlds that have none of their own."""
BY_FUNCTION = "write a function that builds the environment, and give sorrel:MODULE:FUNCTION."
DRAW = "draw from random, numpy.random or torch, which are seeded for each lane, not from the clock or an unseeded generator"


class SorrelSource(ForeignGame):
    """An environment that can be built, by its class or by a function that returns one."""

    library = "sorrel"

    @property
    def name(self) -> str:
        return str(self.function.__name__).removesuffix("Env").lower()

    @property
    def summary(self) -> str:
        return first_line(self.function) or str(self.function.__name__)

    def configure(
        self, given: Path | Mapping[str, Any] | None = None, overrides: Iterable[str] = ()
    ) -> Config[Any, Any]:
        """The environment's own settings, then those given, then each `section.key=value`.

        Of `experiment`, what abreast has too, and `multiprocessing`, are ours; all else is sorrel's. If `model.algorithm`
        names a model of ours, its settings are ours, too, and those that both know count for both.
        """
        sections = read_yaml(given) if isinstance(given, Path) else dict(given or {})
        own, changed = section_of(section_of(sections, "world"), "sorrel"), {}
        is_own = section_of(sections, "model").get("algorithm") == OWN
        if own:  # it is the configuration of a run
            changed = {key: dict(section) for key, section in sections.items() if key not in ("game", "world")}
            if is_own:
                changed["experiment"]["epochs"] -= 1
                del changed["model"]
        elif is_own:
            raise ConfigError(
                f"a script made this run, and built {self.function.__name__} in its own way, which no file says: let the"
                " script go on with it (run_experiment with resume=…), and evaluate it there (abreast.training.evaluate)."
            )
        else:
            own = merge(
                own_settings(Path(inspect.getfile(self.function))),
                {key: value for key, value in sections.items() if key != "game"},
            )
        values = apply_overrides(merge(own, changed), overrides)
        return self._split(values, section_of(own, "model").keys() - {"algorithm"})

    def _split(self, values: Mapping[str, Any], known: set[str]) -> Config[Any, Any]:
        """All settings as a configuration of ours, which has those of sorrel's in `world.sorrel`. `known`: keys of `model`
        that its environment comes with.
        """
        experiment, model = section_of(values, "experiment"), {"algorithm": OWN, **section_of(values, "model")}
        if experiment.get("epochs") is None or experiment.get("max_turns") is None:
            raise ConfigError(
                f"nothing says how long {self.function.__name__} is to be played: give experiment.epochs=… and"
                " experiment.max_turns=…, or its configuration (--config)."
            )
        shared = {key: experiment[key] for key in ExperimentConfig.model_fields if key in experiment}
        if model["algorithm"] == OWN:
            shared["epochs"] += type(shared["epochs"]) is int  # it plays one more
            ours, known = OWN_MODELS, model.keys() - {"algorithm"}
        else:
            fields = algorithm(model["algorithm"]).Config.model_fields
            ours = {key: value for key, value in model.items() if key in fields or key not in known}
        theirs = {
            **{key: value for key, value in values.items() if key != "multiprocessing"},
            "experiment": {key: value for key, value in experiment.items() if key not in shared},
            "model": {key: model[key] for key in sorted(known)},
        }
        sections = {"experiment": shared, "model": ours, "multiprocessing": values.get("multiprocessing")}
        return parse_config({"game": self.target, "world": {"sorrel": theirs}, **sections})

    def build(self, config: Config[Any, Any]) -> Experiment:
        """A fresh environment, as an experiment; several of them, if models of ours play."""
        if config.model.algorithm == OWN:
            return SorrelExperiment(self.make_environment(config), config)
        return SorrelLanes(self, config)

    def make_environment(self, config: Config[Any, Any]) -> Any:
        """The environment itself, the same for the same settings."""
        wanted, theirs = config.experiment, (config.world.model_extra or {})["sorrel"]
        shared = {
            "epochs": wanted.epochs - (config.model.algorithm == OWN),
            "max_turns": wanted.max_turns,
            "record_period": wanted.record_period,
        }
        return build(self.function, merge(theirs, {"experiment": shared}), wanted.seed)

    def check(self, overrides: Sequence[str] = ()) -> Iterator[Verdict]:
        """Look whether runs of it, with models of ours, can be repeated, resumed and shared out."""
        from abreast.training.check.game import CAN_PLAY, PLAYED, GameTrial, check_played

        return check_played(GameTrial(self, DRAW, ["model.algorithm=dqn", *overrides]), (CAN_PLAY, *PLAYED))


find = SorrelSource.find
"""The environment that `module:Class`, `file.py:Class` or `module:function` points to, a function that builds one."""


# ---- its own settings


def own_settings(file: Path) -> dict[str, Any]:
    """The settings that an environment comes with: in a YAML file, or as `config = {…}` in the main.py beside its file or
    in the file itself. They are read, not run: values that are computed there (paths, dates) are left out.
    """
    for path in (file.parent / name for name in SETTINGS_FILES):
        if path.is_file():
            return read_yaml(path)
    for script in (file.parent / "main.py", file):
        nodes = ast.walk(ast.parse(script.read_bytes())) if script.is_file() else ()
        given = {
            ast.unparse(node.targets[0]).lower(): node.value
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        }
        if "config" in given:
            return _literals_in(given["config"])
    return {}


def _literals_in(given: ast.Dict) -> dict[str, Any]:
    """The entries of a dictionary that need no computing, in its sections too."""
    found: dict[str, Any] = {}
    for key, value in zip(given.keys, given.values, strict=True):
        with suppress(ValueError):  # it is computed; or there is no key, because it is `**other`
            found[ast.literal_eval(key)] = (  # type: ignore[arg-type]
                _literals_in(value) if isinstance(value, ast.Dict) else ast.literal_eval(value)
            )
    return found


# ---- building


def build(make: Any, settings: Mapping[str, Any], seed: int) -> Any:
    """A built environment, the same for the same seed: `make` is its class, or a function that returns one. While it is
    built, `torch.random.seed()`, by which models of sorrel's are seeded from the clock, is decided by the seed, too.
    """
    from omegaconf import OmegaConf, errors

    config, clocks = OmegaConf.create(dict(settings)), (torch.random.seed, torch.seed)
    with seeded_globals(np.random.SeedSequence(seed), BUILDING):
        torch.random.seed = torch.seed = lambda: torch.manual_seed(random.getrandbits(62)).initial_seed()
        try:
            if isinstance(make, type):
                return make(_make_world(make, config), config)
            wanted = [each for each in inspect.signature(make).parameters.values() if each.default is each.empty]
            return make(*[config][: len(wanted)])
        except errors.OmegaConfBaseException as error:
            told = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"{make.__name__} asks its configuration for what is not there ({told}): give it as section.key=value, or in"
                " a file (--config)."
            ) from error
        finally:
            torch.random.seed, torch.seed = clocks


def _make_world(kind: type, config: Any) -> Any:
    """The world of an environment, from what its constructor asks for by name. A default entity of its own is left to it."""
    bases = [base for each in kind.__mro__ for base in vars(each).get("__orig_bases__", ())]
    worlds = [each for base in bases for each in typing.get_args(base) if isinstance(each, type)]
    if not worlds:
        raise GameError(
            f"{kind.__name__} is no environment that says what its world is: derive it from sorrel's Environment[ThatWorld],"
            f" or {BY_FUNCTION}"
        )
    world, parameters = worlds[0], inspect.signature(worlds[0]).parameters
    given = {"config": config, **section_of(config, "world")}
    if "default_entity" in parameters and parameters["default_entity"].default is inspect.Parameter.empty:
        given["default_entity"] = _empty_entity(kind, world)()
    arguments = {name: given[name] for name in parameters if name in given}
    check_arguments(world, arguments, world.__name__)
    return world(**arguments)


def _empty_entity(kind: type, world: type) -> Any:
    """The default entity's class: in the environment's module or package, beside its world, or in the framework."""
    package = kind.__module__.rpartition(".")[0]
    for place in (kind.__module__, f"{package}.entities", world.__module__, "sorrel.entities"):
        if hasattr(sys.modules.get(place), EMPTY):
            return getattr(sys.modules[place], EMPTY)
    raise GameError(
        f"{world.__name__} wants a default entity, but there is no {EMPTY} in {kind.__module__}: {BY_FUNCTION}"
    )
