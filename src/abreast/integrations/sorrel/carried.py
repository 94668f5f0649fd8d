"""A model of sorrel's as facts and arrays, all of it: networks, optimiser, memory, counters; and a copy that shares nothing.

The same form is published by a learner, taken over by the model that plays, and written to checkpoints.
"""

import json
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from abreast.attributes import pack, reachable, unpack
from abreast.errors import ModelError, StateError
from abreast.integrations.sorrel.fingerprint import fingerprint
from abreast.plain_values import Unwritable, decode_all, encode_all, user_modules
from abreast.state import Opaque, State

LOCKS = (type(threading.Lock()), type(threading.RLock()))
NOT_THE_USERS = frozenset({"abreast", "builtins", "torch", "numpy", "abc", "typing"})
NETWORK_PARTS = frozenset(vars(nn.Module()))
"""Attributes that torch keeps for itself in a module."""


def modules_of(things: Iterable[object]) -> frozenset[str]:
    """The modules whose classes may be written: the user's, and those of the packages that the classes of these things are
    derived from, sorrel's with them.
    """
    kept = list(things)
    roots = {kind.__module__.partition(".")[0] for each in kept for kind in type(each).__mro__}
    roots -= NOT_THE_USERS | sys.stdlib_module_names | {"__main__"}
    names = {name for name in list(sys.modules) if name.partition(".")[0] in roots}
    return user_modules(kept) | names


class Carried:
    """One model, told as a state and set from one."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._modules = frozenset(_modules_in(model))
        self._knows_all_modules = False
        self._locks = {f"lock{index}": each for index, each in enumerate(_locks_in(model))}

    def copy(self) -> "Carried":
        """Another model like this one, on memory of its own."""
        return self.packed().unpack()

    def packed(self) -> "Packed":
        """The whole model for another process."""
        kinds = [isinstance(each, LOCKS[1]) for each in self._locks.values()]
        try:
            return Packed(kinds, pack({"model": self.model}, self._locks | _shared()))
        except Exception as error:
            raise ModelError(f"it cannot be copied into another process ({str(error).rstrip('.')})") from error

    # ---- state

    def state(self, in_part: bool = False) -> State:
        """All of the model; the arrays may be views of what it is made of.

        What cannot be told is named in a `StateError`, or else (`in_part`) left out, with the fact `lost`.
        """
        try:
            return self._encoded({"model": self.model})
        except Unwritable as error:
            inside = error.path.removeprefix("model").lstrip(".")
            lost = (
                f"{type(self.model).__name__}.{inside} ({error.kind}) cannot be told to another process or a file, because"
                f" {error.reason}"
            )
        if not in_part:
            raise StateError(f"{lost}.")
        parts = dict(self._parts())
        while True:
            try:
                found = self._encoded(parts)
                return found._replace(facts={**found.facts, "lost": lost})
            except Unwritable as error:
                del parts[error.root]

    def take(self, state: State) -> None:
        """Become the model that told this state. What it is made of stays in place: agents may refer to parts of it."""
        facts = {name: fact for name, fact in state.facts.items() if name != "lost"}
        current = {"model": self.model, **dict(self._parts())}
        for name, value in decode_all(State(facts, state.arrays), current, self._locks, self._modules).items():
            if name != "model" and value is not current.get(name):
                vars(self.model)[name] = value

    def _encoded(self, values: Mapping[str, Any]) -> State:
        try:
            return encode_all(values, self._locks, self._modules)
        except Unwritable:
            if self._knows_all_modules:
                raise
        self._modules, self._knows_all_modules = modules_of([self.model, self.model.memory]), True
        return encode_all(values, self._locks, self._modules)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        """Its networks and attributes, one by one."""
        if isinstance(self.model, nn.Module):
            yield from self.model.named_children()
        yield from ((name, value) for name, value in vars(self.model).items() if name not in NETWORK_PARTS)

    # ---- what playing changes

    def digest(self) -> bytes:
        """Of the memory, which playing reads."""
        return fingerprint(vars(self.model.memory))

    def plain(self) -> dict[str, Any]:
        """Attributes that neither are nor hold networks and optimisers, and are not the memory."""
        return {
            name: value
            for name, value in vars(self.model).items()
            if name not in NETWORK_PARTS and value is not self.model.memory and not _is_machinery(value)
        }

    def marks(self) -> dict[str, object]:
        """What tells whether each of these attributes, and each tensor of its networks, was changed since."""
        found: dict[str, object] = {name: fingerprint(value) for name, value in self.plain().items()}
        networks = [each for each in self._networks if isinstance(each, nn.Module)]
        for network in networks:
            for name, tensor in (*network.named_parameters(), *network.named_buffers()):
                found[name] = id(tensor), tensor._version  # which counts what is written in place
        found["the training mode"] = [each.training for network in networks for each in network.modules()]
        return found

    @property
    def _networks(self) -> list[Any]:
        """The model itself, if it is a network, or those that its attributes are or hold."""
        if isinstance(self.model, nn.Module):
            return [self.model]
        attributes = [value for value in vars(self.model).values() if _is_machinery(value)]
        return [each for value in attributes for each in reachable(value)]


@dataclass
class Side:
    """A model that plays or learns, and how many rows it has lived through."""

    carried: Carried
    position: int = 0

    def follow(self, other: "Side") -> None:
        """Become what another side, in this process, is."""
        self.carried.take(other.carried.state())
        self.position = other.position

    def take(self, state: State) -> None:
        """Become the side that told this state."""
        self.carried.take(from_blocks(state))
        self.position = int(state.facts["position"])


class Packed(NamedTuple):
    """A model as bytes."""

    locks: list[bool]
    """One for each lock in it, of which each process has its own: whether it may be acquired twice."""
    data: bytes

    def unpack(self) -> Carried:
        """The model, in this process."""
        locks = {
            f"lock{index}": (threading.RLock if again else threading.Lock)() for index, again in enumerate(self.locks)
        }
        model = unpack(self.data, locks | _shared())["model"]
        for each in (each for each in reachable(model) if isinstance(each, nn.Module)):
            for tensor in (*each.parameters(False), *each.buffers(False)):
                tensor.data = tensor.data.clone()  # rounding depends on how memory is aligned, so it is torch's own
        return Carried(model)


def _modules_in(model: Any) -> Iterator[str]:
    """The modules of the classes that a model is made of. (Not all of its packages: they are looked through often.)"""
    for each in reachable(model):
        for kind in type(each).__mro__:
            if kind.__module__.partition(".")[0] not in NOT_THE_USERS | sys.stdlib_module_names:
                yield kind.__module__


def _shared() -> dict[str, Any]:
    """What each process has one of."""
    return {"torch.default_generator": torch.default_generator}


def _locks_in(model: Any) -> Iterator[Any]:
    return (each for each in reachable(model) if isinstance(each, LOCKS))


def _is_machinery(value: Any) -> bool:
    if isinstance(value, np.ndarray | int | float | str | torch.Tensor):
        return False
    return any(isinstance(each, nn.Module | torch.optim.Optimizer) for each in reachable(value))


# ---- as few arrays: a published state has a line for each in its header


def in_blocks(state: State) -> State:
    """The same state with one array for each element type, and its facts as bytes."""
    groups: dict[str, list[NDArray[Any]]] = {}
    index: dict[str, tuple[str, int, tuple[int, ...]]] = {}
    sizes: dict[str, int] = {}
    for name, array in state.arrays.items():
        kind = array.dtype.str
        index[name] = kind, sizes.get(kind, 0), array.shape
        sizes[kind] = sizes.get(kind, 0) + array.size
        groups.setdefault(kind, []).append(array.reshape(-1))
    blocks = {f"block.{kind}": np.concatenate(arrays) for kind, arrays in groups.items()}
    facts = json.dumps({"facts": state.facts, "index": index}).encode()
    return State({}, blocks, {"model": Opaque("json", facts)})


def from_blocks(state: State) -> State:
    """The state that `in_blocks` was given; its arrays are views."""
    told = json.loads(state.opaque["model"].data)
    arrays = {}
    for name, (kind, start, shape) in told["index"].items():
        size = int(np.prod(shape, dtype=np.int64))
        arrays[name] = state.arrays[f"block.{kind}"][start : start + size].reshape(shape)
    return State(told["facts"], arrays)
