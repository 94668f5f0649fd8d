"""From values to facts and arrays."""

import copy
import dataclasses
import functools
import itertools
import logging
import math
import random
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from abreast.errors import StateError
from abreast.plain_values.blocks import Blocks, described_dtype
from abreast.plain_values.names import Places, is_allowed, is_found, name_of, user_globals
from abreast.state import State

FORMAT = 3
LONGEST_INT = 1024
"""Bits of a whole number that is written in decimal; Python reads only so many digits."""
HOOKS = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__getnewargs__", "__getnewargs_ex__")
"""Methods with which a class says by itself how it is pickled: what it holds is then not all in its attributes."""
CHANGEABLE = frozenset({"list", "dict", "set", "deque", "OrderedDict", "defaultdict", "Counter", "object", "array"})
"""Kinds that a module may hold too, and whose contents are then put back there."""
CONTAINERS = (list, dict, set, frozenset, tuple, deque, OrderedDict, defaultdict, Counter)
SHARED_GENERATORS: dict[str, Any] = {
    "random": random._inst,
    "numpy.random": np.random.mtrand._rand,
}
"""Generators of the whole process, which are seeded anew wherever users' code runs."""
Path = tuple[Any, str]
"""The path of what holds a value, and what the value is called there."""


class Unwritable(StateError):
    """A value cannot be written to a file such that exactly the same can be read."""

    def __init__(self, path: str, value: object, reason: str) -> None:
        super().__init__(f"{path} ({type(value).__name__}) cannot be written to a file: {reason}")
        self.path, self.kind, self.reason = path, type(value).__name__, reason
        self.root = ""
        """The attribute through which it was reached."""


def encode_all(values: Mapping[str, Any], places: Places, modules: Collection[str]) -> State:
    """Values by name, with all that they refer to. `places` are written by name; objects may be of classes in `modules`."""
    return _Encoder(places, modules).encode(values)


def own_hooks(kind: type) -> list[str]:
    """Methods with which a class, and not Python, says how it is pickled."""
    pydantic = sys.modules.get("pydantic")
    bases: tuple[type, ...] = (object, *CONTAINERS, *([pydantic.BaseModel] if pydantic is not None else ()))
    found = []
    for name in HOOKS:
        hook = getattr(kind, name, None)
        if hook is None or getattr(hook, "__module__", None) == dataclasses.__name__:  # of a dataclass with slots
            continue
        if not any(issubclass(kind, base) and hook is getattr(base, name, None) for base in bases):
            found.append(name)
    return found


def slots_of(kind: type) -> dict[str, Any]:
    """The descriptors of a class's slots, by name."""
    return {
        name: slot
        for each in reversed(kind.__mro__)
        for name, slot in vars(each).items()
        if isinstance(slot, MemberDescriptorType) and slot.__objclass__ is each and each.__module__ != "builtins"
    }


class _Encoder:
    def __init__(self, places: Places, modules: Collection[str]) -> None:
        self._modules = modules
        self._places = {id(value): name for name, value in places.items()}
        self._by_id = {id(value): value for value in places.values()}
        self._globals = user_globals(modules)
        self._objects: list[dict[str, Any]] = []
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []
        """All that has a number: another object could have its identity otherwise."""
        self._left: list[tuple[int, Any, Path]] = []
        self._torch: Any = sys.modules.get("torch")
        self._blocks = Blocks()

    def encode(self, values: Mapping[str, Any]) -> State:
        found = {}
        for name, value in values.items():
            try:
                found[name] = self._value(value, (None, name))
                while self._left:
                    number, each, path = self._left.pop()
                    self._path = path
                    node = self._node(each, path, f"{name}.{number}")
                    if node["kind"] in CHANGEABLE and id(each) in self._globals:
                        node["at"] = self._globals[id(each)]
                    self._objects[number] |= node
            except Unwritable as error:
                error.root = name
                raise
            except RecursionError:
                raise self._refused(value, "it is nested too deeply") from None
        if (shared := self._blocks.overlap()) is not None:
            refused = Unwritable(*shared)
            refused.root = max((name for name in values if refused.path.startswith(name)), key=len)
            raise refused
        facts = {"format": FORMAT, "values": found, "objects": self._objects}
        return State(facts, self._blocks.arrays)

    def _refused(self, value: object, reason: str) -> Unwritable:
        path: Any = self._path
        parts = []
        while path is not None:
            path, part = path
            parts.append(part)
        return Unwritable("".join(reversed(parts)), value, reason)

    # ---- values and references

    def _value(self, value: Any, path: Path) -> Any:
        kind = type(value)
        if value is None or kind is str or kind is bool:
            return value
        if kind is int:
            return value if value.bit_length() <= LONGEST_INT else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._objects)
            self._objects.append({})
            self._alive.append(value)
            self._left.append((number, value, path))
        return [number]

    def _items(self, values: Iterable[Any], path: Path) -> list[Any]:
        return [self._value(each, (path, f"[{number}]")) for number, each in enumerate(values)]

    def _named(self, values: Mapping[str, Any], path: Path) -> dict[str, Any]:
        for name in values:
            if type(name) is not str:
                raise self._refused(name, "it is the name of an attribute, which is text usually")
        return {name: self._value(each, (path, f".{name}")) for name, each in values.items()}

    # ---- one object

    def _node(self, value: Any, path: Path, block: str) -> dict[str, Any]:
        if id(value) in self._places:
            return {"kind": "place", "name": self._places[id(value)]}
        for name, shared in SHARED_GENERATORS.items():
            if value is shared:
                return {"kind": "shared", "name": name}
        encode = PLAIN.get(type(value))
        if encode is not None:
            return encode(self, value, path)
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value, path, block)
        if self._torch is not None and (node := self._of_torch(value, path, block)) is not None:
            return node
        if isinstance(value, type | ModuleType):
            return {"kind": "name", "name": name_of(value)}
        if isinstance(value, Enum):
            return {
                "kind": "enum",
                "class": self._class(value),
                "name": value.name,
                "value": self._value(value.value, path),
            }
        if isinstance(value, FunctionType | MethodType | BuiltinFunctionType) or type(value).__name__ in CALLABLES:
            return self._function(value, path)
        if isinstance(value, np.dtype):
            return {"kind": "dtype", "dtype": described_dtype(value)}
        if isinstance(value, PurePath):
            return {"kind": "path", "of": type(value).__name__, "text": str(value)}
        if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
            return {"kind": "state_dict", "items": self._value(self._state_dict(value), (path, ".state_dict()"))}
        if isinstance(value, np.random.BitGenerator):
            return self._bits(value, path)
        return self._object(value, path)

    def _state_dict(self, value: Any) -> Any:
        """What it says of itself, on memory of its own: it may be a view of what another attribute holds too."""
        try:
            return copy.deepcopy(value.state_dict(), {place: self._by_id[place] for place in self._places})
        except Exception as error:
            raise self._refused(value, f"what its state_dict returns cannot be copied ({error})") from None

    def _class(self, value: object) -> str:
        """The class of an object by name."""
        kind, name = type(value), name_of(type(value))
        if not is_allowed(name, self._modules):
            raise self._refused(value, f"its class belongs to {kind.__module__}, not to this game")
        if not is_found(kind, self._modules) and "<locals>" not in name:
            raise self._refused(value, f"there is no class {kind.__qualname__} in {kind.__module__}, or another one")
        return name

    def _object(self, value: Any, path: Path) -> dict[str, Any]:
        """An object of a user's class, by its attributes."""
        kind = type(value)
        if kind is object and id(value) in self._globals:
            return {"kind": "name", "name": self._globals[id(value)]}
        base: Any = next((each for each in reversed(CONTAINERS) if isinstance(value, each)), None)
        if base in (OrderedDict, defaultdict, Counter):
            raise self._refused(value, f"a class of one's own that is derived from {base.__name__} is not kept")
        name = self._class(value)
        if (hooks := own_hooks(kind)) and not (
            base is tuple and hooks == ["__getnewargs__"] and hasattr(kind, "_fields")
        ):
            raise self._refused(value, f"its class says by {hooks[0]} what it is made of, and offers no state_dict")
        slots = slots_of(kind)
        if base is None and not slots and not hasattr(value, "__dict__"):
            raise self._refused(value, "it has no attributes that could be read")
        if base is None and not dataclasses.is_dataclass(kind) and not hasattr(kind, "__pydantic_validator__"):
            try:
                object.__reduce_ex__(value, 2)
            except TypeError as error:
                raise self._refused(value, str(error)) from None
        node = PLAIN[base](self, value, path) if base is not None else {"kind": "object"}
        there = {each: slot.__get__(value) for each, slot in slots.items() if _is_set(slot, value)}
        node |= {"class": name, "attributes": self._named(getattr(value, "__dict__", {}), path)}
        return node | ({"slots": self._named(there, path)} if there else {})

    # ---- functions

    def _function(self, value: Any, path: Path) -> dict[str, Any]:
        """By name; of one that has none, what it encloses is written too."""
        if isinstance(value, MethodType):
            node = {
                "kind": "method",
                "name": value.__func__.__name__,
                "of": self._value(value.__self__, (path, ".__self__")),
            }
            if getattr(type(value.__self__), value.__func__.__name__, None) is not value.__func__:
                node["function"] = self._value(value.__func__, (path, ".__func__"))
            return node
        owner = getattr(value, "__self__", None)
        if isinstance(value, BuiltinFunctionType) and owner is not None and not isinstance(owner, ModuleType):
            return {"kind": "method", "name": value.__name__, "of": self._value(owner, (path, ".__self__"))}
        node = {"kind": "name", "name": name_of(value)}
        if not isinstance(value, FunctionType) or is_found(value, self._modules):
            return node
        node |= {"kind": "function", "line": value.__code__.co_firstlineno}
        cells = list(enclosed_by(value).values())
        if len(cells) < len(value.__closure__ or ()):
            raise self._refused(value, "it encloses a name that has no value yet")
        inside = {"cells": cells, "defaults": value.__defaults__, "keywords": value.__kwdefaults__, "own": vars(value)}
        names = value.__code__.co_freevars
        for name, held in inside.items():
            if held and name == "cells":
                node[name] = [self._value(each, (path, f" enclosing {names[i]}")) for i, each in enumerate(cells)]
            elif held:
                node[name] = self._value(held, (path, f".__{name}__"))
        return node

    # ---- arrays and generators

    def _array(self, value: Any, path: Path, block: str) -> dict[str, Any]:
        if type(value) is not np.ndarray and not isinstance(value, np.generic):
            raise self._refused(value, "a class of one's own that is derived from an array is not kept")
        if isinstance(value, np.ndarray) and value.dtype == object:
            items = self._items(value.ravel().tolist(), path)
            return {"kind": "objects", "shape": list(value.shape), "items": items}
        if value.dtype.hasobject:
            raise self._refused(value, "it has fields of objects")
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        node = {"kind": kind, **self._blocks.add(block, np.asarray(value), self._told() if kind == "array" else None)}
        return node if kind == "scalar" or value.flags.writeable else node | {"fixed": True}

    def _told(self) -> Callable[[object, str], tuple[str, object, str]]:
        """How to say, later, that what is encoded now is refused."""
        path = self._path

        def tell(value: object, reason: str) -> tuple[str, object, str]:
            self._path = path
            return self._refused(value, reason).path, value, reason

        return tell

    def _bits(self, value: Any, path: Path) -> dict[str, Any]:
        """Where a bit generator is, and what it spawns from."""
        name = type(value).__name__
        if getattr(np.random, name, None) is not type(value):
            raise self._refused(value, "it is none of NumPy's generators")
        seed = value.seed_seq if isinstance(value.seed_seq, np.random.SeedSequence) else None
        return {
            "kind": "bits",
            "of": name,
            "state": _plain(value.state),
            "seed": self._value(seed, (path, ".seed_seq")),
        }

    def _of_torch(self, value: Any, path: Path, block: str) -> dict[str, Any] | None:
        torch = self._torch
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path, block)
        if isinstance(value, torch.nn.Module):
            return self._network(value, path)
        if isinstance(value, torch.Generator):
            if value is torch.default_generator:
                return {"kind": "shared", "name": "torch"}
            node = self._blocks.add(block, value.get_state().numpy(), None)
            return {"kind": "torch_generator", "device": str(value.device), **node}
        if isinstance(value, torch.dtype | torch.device):
            return {"kind": "torch", "of": type(value).__name__, "text": str(value)}
        if isinstance(value, torch.Size):
            return {"kind": "torch", "of": "Size", "items": list(value)}
        return None

    def _tensor(self, value: Any, path: Path, block: str) -> dict[str, Any]:
        torch = self._torch
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided or value.is_quantized:
            raise self._refused(value, "of tensors, only plain ones and parameters are kept")
        if value.grad_fn is not None:
            raise self._refused(value, "it has the graph of its gradient")
        if value._backward_hooks or vars(value):
            raise self._refused(value, "it has a hook or an attribute of its own")
        node = {"kind": "tensor", **self._blocks.add_tensor(torch, block, value, self._told())}
        if isinstance(value, torch.nn.Parameter):
            node["parameter"] = True
        if value.requires_grad:
            node["learns"] = True
        if value.grad is not None:
            node["grad"] = self._value(value.grad, (path, ".grad"))
        return node

    def _network(self, value: Any, path: Path) -> dict[str, Any]:
        """A torch module: its parameters and buffers, its parts and the plain attributes, all to be set in place."""
        held = vars(value)
        tensors, parts = {**held["_parameters"], **held["_buffers"]}, held["_modules"]
        own = {name: each for name, each in held.items() if name not in MODULE_PARTS}
        if type(value).get_extra_state is not self._torch.nn.Module.get_extra_state:
            raise self._refused(value, "it has extra state of its own")
        return {
            "kind": "network",
            "class": name_of(type(value)),
            "tensors": self._named(tensors, path),
            "parts": self._named(parts, path),
            "attributes": self._named(own, path),
            "hooks": count_hooks(value),
        }


def count_hooks(network: Any) -> int:
    """Hooks of a torch module; what they do cannot be written, but one that is missing is noticed."""
    return sum(len(each) for name, each in vars(network).items() if "hook" in name and isinstance(each, dict))


MODULE_PARTS = frozenset(
    {"_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_backward_pre_hooks", "_backward_hooks"}
    | {"_is_full_backward_hook", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"}
    | {"_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks"}
    | {"_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"}
)
"""Attributes of a torch module that torch keeps for itself."""
CALLABLES = frozenset(
    {"ufunc", "_ArrayFunctionDispatcher", "method_descriptor", "wrapper_descriptor", "_lru_cache_wrapper"}
)
"""Types of what can be called and is known by its name."""


def _is_set(slot: Any, value: object) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


def enclosed_by(function: FunctionType) -> dict[str, Any]:
    """The variables of the functions around it that a function uses, by name; those that are not set yet are left out."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not set yet
            found[name] = cell.cell_contents
    return found


def _plain(state: Any) -> Any:
    """The state of a NumPy generator as JSON."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def _in_order(values: Collection[Any]) -> list[Any]:
    """The elements of a set as they come, because they shall come so again; text, whose hashes differ between processes,
    in an order of its own.
    """
    return sorted(values) if values and all(type(each) is str for each in values) else list(values)


Encode = Callable[[Any, Any, Path], dict[str, Any]]
PLAIN: dict[type, Encode] = {
    list: lambda to, value, path: {"kind": "list", "items": to._items(list.__iter__(value), path)},
    tuple: lambda to, value, path: {"kind": "tuple", "items": to._items(tuple.__iter__(value), path)},
    set: lambda to, value, path: {"kind": "set", "items": to._items(_in_order(value), path)},
    frozenset: lambda to, value, path: {"kind": "frozenset", "items": to._items(_in_order(value), path)},
    deque: lambda to, value, path: {
        "kind": "deque",
        "items": to._items(deque.__iter__(value), path),
        "most": value.maxlen,
    },
    dict: lambda to, value, path: _pairs("dict", to, value, path),
    OrderedDict: lambda to, value, path: _pairs("OrderedDict", to, value, path),
    Counter: lambda to, value, path: _pairs("Counter", to, value, path),
    defaultdict: lambda to, value, path: {
        **_pairs("defaultdict", to, value, path),
        "factory": to._value(value.default_factory, (path, ".default_factory")),
    },
    MappingProxyType: lambda to, value, path: {"kind": "mappingproxy", "of": to._value(dict(value), path)},
    bytes: lambda to, value, path: {"kind": "bytes", "hex": value.hex()},
    bytearray: lambda to, value, path: {"kind": "bytearray", "hex": value.hex()},
    complex: lambda to, value, path: {"kind": "complex", "items": to._items((value.real, value.imag), path)},
    range: lambda to, value, path: {"kind": "range", "items": to._items((value.start, value.stop, value.step), path)},
    slice: lambda to, value, path: {"kind": "slice", "items": to._items((value.start, value.stop, value.step), path)},
    type(Ellipsis): lambda to, value, path: {"kind": "ellipsis"},
    itertools.count: lambda to, value, path: {"kind": "count", "items": to._items(value.__reduce__()[1], path)},
    functools.partial: lambda to, value, path: {
        "kind": "partial",
        "items": to._items((value.func, value.args, value.keywords), path),
    },
    logging.Logger: lambda to, value, path: {"kind": "logger", "name": value.name},
    np.random.Generator: lambda to, value, path: {
        "kind": "generator",
        "bits": to._value(value.bit_generator, (path, ".bit_generator")),
    },
    np.random.RandomState: lambda to, value, path: {
        "kind": "random_state",
        "state": _plain(value.get_state(legacy=False)),
    },
    np.random.SeedSequence: lambda to, value, path: {
        "kind": "seed_sequence",
        "items": to._items((value.entropy, tuple(value.spawn_key), value.pool_size, value.n_children_spawned), path),
    },
    random.Random: lambda to, value, path: {"kind": "random", "items": to._items(value.getstate(), path)},
}
"""Kinds by exact type."""


def _pairs(kind: str, to: Any, value: Any, path: Path) -> dict[str, Any]:
    keys = list(dict.keys(value))
    items = [
        to._value(each, (path, f"[{key!r}]" if type(key) in (str, int) else "[…]")) for key, each in dict.items(value)
    ]
    return {"kind": kind, "keys": to._items(keys, (path, " key ")), "items": items}
