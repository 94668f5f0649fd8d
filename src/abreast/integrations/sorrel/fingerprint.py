"""A digest of values that is the same for equal values in any process, whichever of them are one and the same object."""

import hashlib
import struct
from collections import deque
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from abreast.models.own import GENERATORS, stream_of

DEEPEST = 50
BY_TYPE = (type, FunctionType, MethodType, BuiltinFunctionType, ModuleType)


def fingerprint(value: Any) -> bytes:
    """16 bytes. What has neither attributes nor items (a function, a lock) counts by its type."""
    found = hashlib.blake2b(digest_size=16)
    _add(found, value, ())
    return found.digest()


def _add(found: Any, value: Any, above: tuple[int, ...]) -> None:
    found.update(type(value).__name__.encode())
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        found.update(f"{value.dtype.str}{value.shape}".encode())
        found.update(np.ascontiguousarray(value).data if value.size else b"")
    elif isinstance(value, float):
        found.update(struct.pack("<d", value))
    elif value is None or isinstance(value, bool | int | str | bytes):
        found.update(repr(value).encode())
    elif id(value) in above or len(above) > DEEPEST or value is torch.default_generator or isinstance(value, BY_TYPE):
        return
    elif isinstance(value, GENERATORS):
        _add(found, stream_of(value), (*above, id(value)))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            _add(found, key, (*above, id(value)))
            _add(found, each, (*above, id(value)))
    elif isinstance(value, list | tuple | deque | np.ndarray):
        found.update(str(len(value)).encode())
        for each in value:
            _add(found, each, (*above, id(value)))
    elif isinstance(value, set | frozenset):
        found.update(b"".join(sorted(map(fingerprint, value))))
    elif hasattr(value, "__dict__"):
        _add(found, vars(value), (*above, id(value)))
