"""Copies of users' values that share nothing with their originals, what values share, and what a class forgot to make."""

import copy
import gc
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from abreast.codec import Places, attributes_of
from abreast.errors import ConfigError, short

IMMUTABLE = (
    bool, int, float, complex, str, bytes, range, type(None), type(Ellipsis), type, ModuleType, Enum, np.generic, np.dtype,
    logging.Logger,
)  # fmt: skip
"""What may be shared: it never changes, or (a logger) is one and the same thing everywhere."""


# ---- parts that are not whole

Made = tuple[tuple[str, str], ...]
"""Attributes, each with the method that makes it."""


def check_made(part: object) -> None:
    """Refuse a part of a user's class that replaces a method of ours, which makes attributes, and does not call it.

    `MADE_BY` of our classes has one such attribute and its method, or several.
    """
    for attribute, method in getattr(part, "MADE_BY", ()):
        if not hasattr(part, attribute):
            owner = next(kind for kind in type(part).__mro__ if method in vars(kind)).__name__
            raise ConfigError(f"{owner}.{method} does not call super().{method}(…): add that call, as its first line.")


# ---- copies


def true_copy(value: Any, memo: dict[int, Any]) -> Any:
    """A copy that shares nothing that can change with its original, but for what `memo` maps to itself; raises `ValueError`
    if there is no such copy.
    """
    places = {str(key): each for key, each in memo.items() if key == id(each)}
    try:
        twin = copy.deepcopy(value, memo)
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}".rstrip(".")) from error
    shared = {id(each) for each in reachable(value, places)}
    for each in reachable(twin, places):
        if id(each) in shared:
            raise ValueError(f"its copy would share a {type(each).__name__} ({short(each)}) with it")
    return twin


def reachable(start: object, places: Places = MappingProxyType({})) -> Iterator[object]:
    """What can change among all that an object refers to, the object itself included; places are passed over."""
    seen = {id(place) for place in places.values()}
    left = [start]
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, IMMUTABLE):
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):  # its globals are the module's own business
            for cell in value.__closure__ or ():
                with suppress(ValueError):  # not set yet
                    left.append(cell.cell_contents)
            left += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        elif isinstance(value, MethodType | BuiltinFunctionType):  # of a list, say
            left.append(value.__self__)
        elif isinstance(value, np.ndarray):
            left += list(value.flat) if value.dtype.hasobject else []
            yield value
        elif isinstance(value, tuple | frozenset):
            left += value
        else:
            left += gc.get_referents(value)
            yield value


def shared_memory(values: Mapping[str, Any], places: Places) -> str | None:
    """Names of two attributes of which one is a view into the memory of the other: a copy of them would be apart."""
    torch = sys.modules.get("torch")
    blocks: dict[tuple[int, int], tuple[int, str]] = {}
    """By first and last byte: the first array or tensor found there, and the attribute it belongs to."""

    def memory_of(each: Any) -> tuple[int, int]:
        if isinstance(each, np.ndarray):
            while isinstance(each.base, np.ndarray):
                each = each.base
            start, size = each.__array_interface__["data"][0], each.nbytes
        elif torch is not None and isinstance(each, torch.Tensor) and each.device.type == "cpu":
            start, size = each.untyped_storage().data_ptr(), each.untyped_storage().nbytes()
        else:
            start, size = 0, 0
        return start, start + size

    for name, place in places.items():
        blocks.setdefault(memory_of(place), (id(place), f"the model's {name}"))
    for name, value in values.items():
        for each in reachable(value, places):
            start, end = memory_of(each)
            for (first, last), (thing, other) in blocks.items():
                if start < last and first < end and thing != id(each):
                    return f"{other} and {name}"
            blocks.setdefault((start, end), (id(each), name))
    return None


def differs(one: object, two: object, seen: frozenset[int] = frozenset()) -> bool:
    """Whether two values of the same name are made of plain values that differ."""
    if type(one) is not type(two):
        return True
    if id(one) in seen:
        return False
    seen = seen | {id(one)}
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.shape != two.shape or one.dtype != two.dtype or one.tobytes() != two.tobytes()
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) != len(two) or any(differs(mine, other, seen) for mine, other in zip(one, two, strict=True))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() != two.keys() or any(differs(value, two[key], seen) for key, value in one.items())
    if isinstance(one, bool | int | float | complex | str | bytes):
        return repr(one) != repr(two)
    if isinstance(one, IMMUTABLE) or not hasattr(one, "__dict__") or type(one).__module__.startswith("abreast."):
        return False
    mine, others = (attributes_of(each) if hasattr(each, "KNOWN") else vars(each) for each in (one, two))
    return differs(mine, others, seen)
