"""Values of users' attributes as JSON and arrays, for files: numbers, text, containers, tensors, modules, generators.

arrays = {}
facts = encode(value, "own.network", arrays)       what is written
value = decode(facts, arrays, current)             modules, optimisers, tensors and generators are changed in place
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


class Unwritable(Exception):
    """There is no way to write, or to restore, such a value."""


PLAIN = (bool, int, float, str, type(None))
KIND, VALUE = "kind", "value"


def encode(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    """A value as JSON, with its arrays apart."""

    def inner(each: Any, key: object) -> Any:
        return encode(each, f"{path}.{key}", arrays)

    def array(each: Any) -> str:
        arrays[path] = np.array(each)  # a copy: the file's own
        return path

    if type(value) in PLAIN:
        return value
    if type(value) is list:
        return [inner(each, number) for number, each in enumerate(value)]
    if type(value) is tuple:
        return {KIND: "tuple", VALUE: [inner(each, number) for number, each in enumerate(value)]}
    if type(value) is set:
        return {KIND: "set", VALUE: [inner(each, number) for number, each in enumerate(sorted(value, key=repr))]}
    if type(value) is deque:
        return {KIND: "deque", VALUE: [inner(each, number) for number, each in enumerate(value)], "most": value.maxlen}
    if isinstance(value, dict):
        pairs = [[inner(key, f"key{number}"), inner(each, number)] for number, (key, each) in enumerate(value.items())]
        return {KIND: "dict", VALUE: pairs}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return {KIND: "array" if isinstance(value, np.ndarray) else "scalar", VALUE: array(value)}
    if isinstance(value, torch.Tensor) and value.grad_fn is None and value.dtype != torch.bfloat16:
        return {KIND: "tensor", VALUE: array(value.detach().cpu().numpy())}
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return {KIND: "state_dict", VALUE: inner(dict(value.state_dict()), "state")}
    if isinstance(value, np.random.Generator):
        return {KIND: "generator", VALUE: _plain(value.bit_generator.state)}
    if isinstance(value, torch.Generator):
        return {KIND: "torch_generator", VALUE: array(value.get_state().numpy())}
    if isinstance(value, random.Random):
        return {KIND: "random", VALUE: inner(value.getstate(), "state")}
    raise Unwritable(type(value).__name__)


def _plain(state: Any) -> Any:
    """The state of a NumPy generator as JSON."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def decode(encoded: Any, arrays: dict[str, Any], current: Any) -> Any:
    """The value that was encoded; modules, optimisers, tensors and generators are changed in place."""
    if isinstance(encoded, list):
        now = current if isinstance(current, list) and len(current) == len(encoded) else [None] * len(encoded)
        return [decode(each, arrays, old) for each, old in zip(encoded, now, strict=True)]
    if not isinstance(encoded, dict):
        return encoded
    return DECODERS[encoded[KIND]](encoded, arrays, current)


def _decode_dict(encoded: Any, arrays: Any, current: Any) -> Any:
    pairs = [(decode(key, arrays, None), value) for key, value in encoded[VALUE]]
    now = current if isinstance(current, dict) else {}
    decoded = {key: decode(value, arrays, now.get(key)) for key, value in pairs}
    if type(now) is dict:
        return decoded
    now.clear()  # a defaultdict, say, which stays one
    now.update(decoded)
    return now


def _decode_tensor(encoded: Any, arrays: Any, current: Any) -> Any:
    tensor = torch.from_numpy(arrays[encoded[VALUE]].copy())
    if not isinstance(current, torch.Tensor) or current.shape != tensor.shape or current.dtype != tensor.dtype:
        return tensor
    with torch.no_grad():
        current.copy_(tensor)
    return current


def _decode_sequence(encoded: Any, arrays: Any, current: Any) -> list[Any]:
    return decode(encoded[VALUE], arrays, list(current) if isinstance(current, tuple | deque) else None)  # type: ignore[no-any-return]


def _there(current: Any, attribute: str, what: str) -> None:
    """Refuse to restore what is changed in place where there is none."""
    if not hasattr(current, attribute):
        raise Unwritable(f"it holds {what}")


def _decode_state_dict(encoded: Any, arrays: Any, current: Any) -> Any:
    _there(current, "load_state_dict", "a module or optimiser")
    current.load_state_dict(decode(encoded[VALUE], arrays, None))
    return current


def _decode_generator(encoded: Any, arrays: Any, current: Any) -> Any:
    _there(current, "bit_generator", "a generator")
    current.bit_generator.state = encoded[VALUE]
    return current


def _decode_torch_generator(encoded: Any, arrays: Any, current: Any) -> Any:
    _there(current, "set_state", "a generator")
    current.set_state(torch.from_numpy(arrays[encoded[VALUE]].copy()))
    return current


def _decode_random(encoded: Any, arrays: Any, current: Any) -> Any:
    _there(current, "setstate", "a generator")
    current.setstate(decode(encoded[VALUE], arrays, None))
    return current


DECODERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tuple": lambda encoded, arrays, current: tuple(_decode_sequence(encoded, arrays, current)),
    "set": lambda encoded, arrays, current: set(decode(encoded[VALUE], arrays, None)),
    "deque": lambda encoded, arrays, current: deque(_decode_sequence(encoded, arrays, current), encoded["most"]),
    "dict": _decode_dict,
    "array": lambda encoded, arrays, current: arrays[encoded[VALUE]],
    "scalar": lambda encoded, arrays, current: arrays[encoded[VALUE]][()],
    "tensor": _decode_tensor,
    "state_dict": _decode_state_dict,
    "generator": _decode_generator,
    "torch_generator": _decode_torch_generator,
    "random": _decode_random,
}
