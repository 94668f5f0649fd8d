"""Classes, functions and modules by name: only those that are loaded and belong to the user's game, or to ours."""

import functools
import sys
import sysconfig
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from abreast.errors import StateError

Places = Mapping[str, object]
"""Objects that stay where they are, by name; the receiver has its own of the same names."""
OURS = (
    "abreast.agents.",
    "abreast.games.",
    "abreast.models.",
    "abreast.settings",
    "abreast.training.",
    "abreast.worlds.",
)
"""Where those classes of ours are that users' attributes may hold."""
BUILTIN_TYPES = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, list, dict, set, frozenset, tuple, object, type(None))
}
"""Types that a value may be or be made of (the factory of a defaultdict, say), wherever it comes from."""
HELD = frozenset({object, list, dict, set, deque, OrderedDict, defaultdict, Counter, np.ndarray})
"""Types of things that are known by the variable that holds them; classes and functions have names of their own."""
LIBRARIES = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
DEPENDENCIES = frozenset(
    {"abreast", "cloudpickle", "gymnasium", "numpy", "omegaconf", "pettingzoo", "PIL", "pydantic", "pydantic_core"}
    | {"rapidfuzz", "rich", "safetensors", "sorrel", "torch", "typer", "yaml"}
)
"""Packages that are libraries wherever they lie: found through a .pth file or PYTHONPATH, they are in no folder of the
interpreter's own."""


def name_of(thing: Any) -> str:
    """MODULE:NAME of a class, a function or a module."""
    if isinstance(thing, ModuleType):
        return f"{thing.__name__}:"
    return f"{getattr(thing, '__module__', None)}:{getattr(thing, '__qualname__', getattr(thing, '__name__', ''))}"


def is_allowed(name: str, modules: Collection[str]) -> bool:
    """Whether the module of a name is the user's, or one of ours whose classes users' attributes may hold."""
    module = name.partition(":")[0]
    return module in modules or f"{module}.".startswith(OURS)


def find(name: str, modules: Collection[str]) -> Any:
    """What has this name, in modules that are loaded and allowed; raises `LookupError`."""
    module, _, path = name.partition(":")
    if module == "builtins" and path in BUILTIN_TYPES:
        return BUILTIN_TYPES[path]
    if module == "numpy" and isinstance(kind := vars(np).get(path), type) and issubclass(kind, np.generic):
        return kind
    if not is_allowed(name, modules) or module not in sys.modules:
        raise LookupError(name)
    found: Any = sys.modules[module]
    for number, part in enumerate(path.split(".") if path else ()):
        if (number and not isinstance(found, type)) or part not in vars(found):  # what a module imports is not its own
            raise LookupError(name)
        found = vars(found)[part]
        found = found.__func__ if isinstance(found, staticmethod) else found
    if not path or name_of(found) == name or type(found) in HELD or is_allowed(name_of(type(found)), modules):
        return found
    raise LookupError(name)


def is_found(thing: Any, modules: Collection[str]) -> bool:
    """Whether `find` finds it by its name."""
    try:
        return find(name_of(thing), modules) is thing
    except LookupError:
        return False


def find_class(name: object, modules: Collection[str], current: object) -> type[Any]:
    """A class by name; one that was made in a function is known by an object of it alone."""
    if type(name) is not str:
        raise StateError("the name of a class is missing.")
    if is_allowed(name, modules):
        for kind in (type(current), current):
            if isinstance(kind, type) and name_of(kind) == name:
                return kind
    try:
        found = find(name, modules)
    except LookupError:
        found = None
    if not isinstance(found, type) or name_of(found) != name:
        raise StateError(f"the class {name} is not one of this game's.")
    return found


def user_modules(objects: Iterable[object]) -> frozenset[str]:
    """The modules that a user has written: those of the classes of these objects, with their packages, and what these
    import from the user's own files.
    """
    classes = (kind for each in objects for kind in type(each).__mro__)
    first = {kind.__module__ for kind in classes if not _is_of_library(kind.__module__)}
    packages = tuple({f"{name.partition('.')[0]}." for name in first})
    left, found = {*first, *(name for name in list(sys.modules) if name.startswith(packages))}, set[str]()
    while left:
        name = left.pop()
        found.add(name)
        for value in list(vars(sys.modules[name]).values()) if name in sys.modules else ():
            other = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if type(other) is str and other not in found and not _is_of_library(other):
                left.add(other)
    return frozenset(found)


def _is_of_library(module: str) -> bool:
    """Whether a module is ours, Python's or an installed one."""
    if module == "__main__":
        return False
    package = module.partition(".")[0]
    if package in DEPENDENCIES or package in sys.stdlib_module_names or module not in sys.modules:
        return True
    file = getattr(sys.modules[module], "__file__", None)
    return file is None or _is_in_library(file)


@functools.cache
def _is_in_library(file: str) -> bool:
    path = Path(file).resolve()
    return str(path).startswith(LIBRARIES) or not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def user_globals(modules: Collection[str]) -> dict[int, str]:
    """Names of all that modules and their classes hold as attributes of their own, by identity."""
    found: dict[int, str] = {}
    for name in sorted(modules):
        for key, value in list(vars(sys.modules[name]).items()) if name in sys.modules else ():
            if isinstance(value, type):
                if value.__module__ == name:
                    inside = ((f"{name}:{value.__qualname__}.{each}", held) for each, held in list(vars(value).items()))
                    found |= {id(held): path for path, held in inside if not path.rpartition(".")[2].startswith("__")}
            elif not isinstance(value, ModuleType | FunctionType) and not key.startswith("__"):
                found[id(value)] = f"{name}:{key}"
    return found
