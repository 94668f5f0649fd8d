"""From `module:Class` to an environment of sorrel's: where its settings are, what its world is, and how both are made.

An example of sorrel's is a package with `env.py`, `world.py`, `entities.py` and a `main.py` that puts them together:

    world = TreasurehuntWorld(config=config, default_entity=EmptyEntity())
    env = TreasurehuntEnv(world, config)

The same is done here. What cannot be found out so is built by a function of the user's: `module:function`.
"""

import ast
import importlib
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from abreast.errors import ConfigError, GameError
from abreast.integrations.sorrel.experiment import section_of
from abreast.settings import read_yaml
from abreast.streams import seeded_globals

BUILDING = 10
"""The part of a seed's spawn key that stands for building."""
SETTINGS_FILES = ("configs/config.yaml", "config.yaml", "configs/config.yml", "config.yml")
"""Where an environment keeps its settings, seen from its module; else they are in the main.py beside it."""
EMPTY = "EmptyEntity"
"""What the default entity is called."""
DROPPED = object()


def is_environment(thing: object) -> bool:
    """Whether something is a class of environments, by its methods."""
    return isinstance(thing, type) and all(hasattr(thing, name) for name in ("take_turn", "setup_agents", "reset"))


# ---- settings


def own_settings(module: ModuleType) -> dict[str, Any]:
    """The settings that an environment comes with: in a YAML file, or as `config = {…}` in the main.py beside its module or
    in the module itself. They are read, not run: values that are computed there (paths, dates) are left out.
    """
    file = getattr(module, "__file__", None)
    if file is None:
        return {}
    folder = Path(file).parent
    for name in SETTINGS_FILES:
        if (folder / name).is_file():
            return read_yaml(folder / name)
    for script in (folder / "main.py", Path(file)):
        if script.is_file() and (found := _config_in(script)):
            return found
    return {}


def _config_in(script: Path) -> dict[str, Any]:
    """The last dictionary that a script calls `config`."""
    found: Any = {}
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return {}
    for node in ast.walk(tree):
        names = [name.id for name in node.targets if isinstance(name, ast.Name)] if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and "config" in map(str.lower, names):
            found = _literal(node.value)
    return dict(found)


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
    """A built environment, the same for the same seed: `make` is its class, or a function that returns one."""
    config = as_config(settings)
    with seeded_globals(np.random.SeedSequence(seed), BUILDING), seeds_drawn_from(seed):
        try:
            if is_environment(make):
                return make(_make_world(make, config), config)
            return make(config) if _wants_config(make) else make()
        except Exception as error:
            if type(error).__name__ in MISSING_KEYS:
                told = " ".join(str(error).split())[:200]
                raise ConfigError(
                    f"{make.__name__} asks its configuration for what is not there ({told}): give it as section.key=value,"
                    " or in a file (--config)."
                ) from error
            raise


MISSING_KEYS = ("ConfigAttributeError", "ConfigKeyError", "MissingMandatoryValue", "InterpolationKeyError")
"""What OmegaConf raises where a key is missing."""


def as_config(settings: Mapping[str, Any]) -> Any:
    """Settings as environments of sorrel's expect them."""
    try:
        from omegaconf import OmegaConf
    except ImportError:
        raise GameError("environments of sorrel's are configured by OmegaConf: pip install omegaconf.") from None
    return OmegaConf.create(dict(settings))


@contextmanager
def seeds_drawn_from(seed: int) -> Iterator[None]:
    """Inside, `torch.random.seed()`, by which models of sorrel's are seeded from the clock, is decided by a seed."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(BUILDING, 1)))

    def draw() -> int:
        value = int(rng.integers(2**62))
        torch.manual_seed(value)
        return value

    before = torch.random.seed, torch.seed
    torch.random.seed = torch.seed = draw
    try:
        yield
    finally:
        torch.random.seed, torch.seed = before


def _wants_config(make: Callable[..., Any]) -> bool:
    wanted = [each for each in inspect.signature(make).parameters.values() if each.default is each.empty]
    return bool([each for each in wanted if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)])


def _make_world(kind: type, config: Any) -> Any:
    """The world of an environment, from what its constructor asks for by name."""
    world, arguments = _world_of(kind), {}
    for name, parameter in inspect.signature(world).parameters.items():
        sections = [section_of(config, section) for section in ("world", "env")]
        given = [section[name] for section in sections if name in section]
        if name == "config":
            arguments[name] = config
        elif name == "default_entity":
            arguments[name] = _empty_entity(kind, world)()
        elif given:
            arguments[name] = given[0]
        elif parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            raise GameError(
                f"{world.__name__} wants {name}, which is not in the section world of the configuration: give world.{name},"
                f" or write a function that builds the environment, and give sorrel:{kind.__module__}:FUNCTION."
            )
    return world(**arguments)


def _world_of(kind: type) -> type:
    """The class of its world: `Environment[ThatWorld]`, or the type of the argument `world`."""
    for each in kind.__mro__:
        for base in vars(each).get("__orig_bases__", ()):
            for argument in typing.get_args(base):
                if isinstance(argument, type):
                    return argument
    try:
        found = typing.get_type_hints(kind.__init__).get("world")  # type: ignore[misc]
    except (NameError, TypeError, AttributeError):
        found = None
    if isinstance(found, type):
        return found
    raise GameError(
        f"{kind.__name__} does not say what its world is: derive it from Environment[ThatWorld], or write a function that"
        f" builds the environment, and give sorrel:{kind.__module__}:FUNCTION."
    )


def _empty_entity(kind: type, world: type) -> Any:
    """The default entity's class: in the environment's module or package, or in the framework."""
    package, root = kind.__module__.rpartition(".")[0], [each for each in kind.__mro__ if is_environment(each)][-1]
    framework = root.__module__.partition(".")[0]
    places = [kind.__module__, f"{package}.entities" if package else "entities", world.__module__]
    places += [f"{framework}.entities.basic_entities", f"{framework}.entities"]
    for place in places:
        try:
            module = importlib.import_module(place)
        except ImportError:
            continue
        if isinstance(found := getattr(module, EMPTY, None), type):
            return found
    raise GameError(
        f"{world.__name__} wants a default entity, but there is no {EMPTY} in {', '.join(places[:3])}: write a function that"
        f" builds the environment, and give sorrel:{kind.__module__}:FUNCTION."
    )
