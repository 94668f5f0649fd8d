"""Attributes that a user's class adds to one of ours: sent, compared and copied without being named by the user.

What our own classes hold is described by their `state`. A subclass may add anything: torch modules and optimisers,
generators, lists, functions. All of it is sent as one pickle, so that two attributes that share an object share it on the
other side too. Objects that each side has of its own (the model itself, its memory) are named `places` and not sent.
In files nothing is pickled: see `plain_values`.
"""

import copy
import gc
import hashlib
import io
import logging
import random
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from abreast.errors import AttributeStateError, StateError, short
from abreast.plain_values import Places, Unwritable, decode_all, encode_all, user_modules
from abreast.plain_values.encoding import enclosed_by
from abreast.processes.pickling import Pickler, loads_with
from abreast.state import Opaque, State

IMMUTABLE = (
    bool, int, float, complex, str, bytes, range, type(None), type(Ellipsis), type, ModuleType, Enum, np.generic, np.dtype,
    logging.Logger,
)  # fmt: skip
"""What may be shared: it never changes, or (a logger) is one and the same thing everywhere."""


CHANGEABLE = (
    list, dict, set, tuple, deque, bytearray, int, float, str, np.ndarray, np.random.Generator, random.Random,
)  # fmt: skip
"""Attributes of a class that play may change."""


def pack(values: Mapping[str, Any], places: Places) -> bytes:
    """Attributes as bytes; one that cannot be sent is named in an `AttributeStateError`."""
    try:
        return _dumps(dict(values), places)
    except Exception:
        for name, value in values.items():  # which one was it?
            if (reason := why_not_sent(value, places)) is not None:
                raise AttributeStateError(name, value, reason) from None
        raise


def unpack(data: bytes, places: Places) -> dict[str, Any]:
    """The attributes that `pack` was given, with this side's objects in their places."""
    values: dict[str, Any] = loads_with(data, dict(places).__getitem__)
    return values


def why_not_sent(value: object, places: Places) -> str | None:
    """Why an attribute cannot be sent to another process; None if it can."""
    try:
        unpack(_dumps({"value": value}, places), places)
    except Exception as error:
        return f"{type(error).__name__}: {error}".rstrip(".") if not isinstance(error, _Refused) else str(error)
    return None


def digest(value: object, places: Places) -> bytes | None:
    """A digest that changes when the value does; None for what cannot be compared."""
    try:
        return hashlib.blake2b(_dumps({"value": value}, places, _DigestPacker), digest_size=16).digest()
    except Exception:
        return None


class Deleted(Enum):
    """Stands for an attribute that is there no more."""

    DELETED = "deleted"


DELETED = Deleted.DELETED


class OwnAttributes:
    """The attributes that a user's class added to an object of ours, and how they changed since the last look."""

    def __init__(self, owner: object, known: Collection[str], places: Callable[[], Places]) -> None:
        """`known`: attributes of our own classes."""
        self._owner, self._known, self._places = owner, known, places
        self._seen: dict[str, bytes | None] = {}

    @property
    def added(self) -> list[str]:
        """Attributes that are not ours."""
        return [name for name in vars(self._owner) if name not in self._known]

    @property
    def watched(self) -> list[str]:
        """Attributes whose changes are of interest."""
        return self.added

    def look(self, names: Iterable[str] | None = None) -> None:
        """Take attributes as they are now for unchanged."""
        places = self._places()
        for name in self.watched if names is None else names:
            self._seen[name] = digest(vars(self._owner).get(name, DELETED), places)

    def changed(self) -> set[str]:
        """Attributes that are new or have changed since the last look, which this is."""
        before, names = dict(self._seen), [*self.watched, *(self._seen.keys() - set(self.watched))]
        self.look(names)
        return {name for name in names if name not in before or before[name] != self._seen[name]}

    def pack(self, names: Iterable[str]) -> bytes:
        """These attributes as bytes."""
        return pack({name: vars(self._owner).get(name, DELETED) for name in sorted(names)}, self._places())

    def take(self, data: bytes, but: Collection[str] = ()) -> set[str]:
        """Take attributes over, but for some; returns their names."""
        values = {name: value for name, value in unpack(data, self._places()).items() if name not in but}
        for name, value in values.items():
            if value is DELETED:
                vars(self._owner).pop(name, None)
            else:
                vars(self._owner)[name] = value
        self.look(values)
        return set(values)


class AddedAttributes:
    """All that users have added to several objects of ours, which may refer to each other, as a state."""

    def __init__(self, owners: Callable[[], Mapping[str, Any]], places: Callable[[], Places]) -> None:
        """`owners`, which may be others after a reset, have a `KNOWN` set of the attributes of our own classes."""
        self._all_owners, self._places = owners, places
        self._not_sent: set[str] = set()
        """What cannot be sent to another process. (Found once: to find it again for every state takes time.)"""

    def state(self) -> State:
        while True:
            values = {path: value for path, value in self._items() if path not in self._not_sent}
            try:
                data = pack(values, self._places()) if values else b""
            except AttributeStateError as error:
                self._not_sent.add(error.name)
                continue
            opaque = {"values": Opaque("pickle", data)} if values else {}
            lost = (path for path in self._not_sent if path.partition(".")[2] not in KEPT_IF_FOREIGN)
            return State({"not_sent": sorted(lost)}, opaque=opaque)

    def file_state(self) -> State:
        """The same for a file, in which nothing is pickled; what cannot be written so is named in a `StateError`."""
        values, owners = dict(self._items()), self._owners
        try:
            return encode_all(values, self._places(), self._modules) if values else State()
        except Unwritable as error:
            key, _, name = error.root.partition(".")
            inside = error.path.removeprefix(error.root)
            raise StateError(
                f"{type(owners[key]).__name__}.{name}{inside} ({error.kind}) cannot be kept in a file, because"
                f" {error.reason}: {REMEDY}."
            ) from None

    def set_state(self, state: State) -> None:
        """Take over what `state` or `file_state` returned."""
        if "objects" in state.facts or not (state.facts or state.opaque):
            self._set_file_state(state)
            return
        if state.facts["not_sent"]:
            raise StateError(
                f"{', '.join(state.facts['not_sent'])} cannot be sent to another process, so what an actor that died had"
                " there is lost, and another cannot play on from it."
            )
        owners, here = self._owners, dict(self._items())
        values = unpack(state.opaque["values"].data, self._places()) if "values" in state.opaque else {}
        for path in {**here, **values}:
            key, _, name = path.partition(".")
            if path in values:
                vars(owners[key])[name] = values[path]
            elif name not in owners[key].KNOWN:
                del vars(owners[key])[name]

    def _set_file_state(self, state: State) -> None:
        now, owners = dict(self._items()), self._owners
        values = decode_all(state, now, self._places(), self._modules) if state.facts else {}
        for path in {**now, **values}:
            key, _, name = path.partition(".")
            if key not in owners or (name in owners[key].KNOWN - LEFT_BY_RESET and path not in now):
                raise StateError(f"{path} is in the file, but there is no such attribute of a user's here.")
            if path in values:
                vars(owners[key])[name] = values[path]
            elif name not in owners[key].KNOWN:
                del vars(owners[key])[name]

    @property
    def _owners(self) -> dict[str, Any]:
        owners = self._all_owners()
        if not any(map(is_foreign, owners.values())):
            return {key: owner for key, owner in owners.items() if _lists_its_own(owner)}
        return dict(owners)

    @property
    def _modules(self) -> frozenset[str]:
        return user_modules([*self._owners.values(), *self._places().values()])

    def _items(self) -> Iterator[tuple[str, Any]]:
        owners = self._owners
        has_foreign = any(map(is_foreign, owners.values()))
        for key, owner in owners.items():
            is_users = is_foreign(owner) or _lists_its_own(owner)
            for name, value in vars(owner).items():
                if name not in owner.KNOWN:
                    is_kept = is_users
                else:
                    is_kept = has_foreign and name in LEFT_BY_RESET
                    is_kept |= is_users and name in KEPT_IF_FOREIGN and is_foreign(value)
                if is_kept:
                    yield f"{key}.{name}", value


REMEDY = (
    "make it of plain values, arrays and objects of your own classes, or give its class state_dict and load_state_dict"
)
KEPT_IF_FOREIGN = frozenset({"default_entity", "observation_spec", "action_spec"})
"""Attributes of ours that may hold an object of a user's class, which may change."""
LEFT_BY_RESET = frozenset(
    {"turn", "total_reward", "is_done", "height", "width", "layers", "default_entity"}
    | {"score", "_pending_reward", "location", "facing", "action_spec"}
)
"""Attributes of ours that a `reset` of a user's may leave as they were, or change for good."""


def _lists_its_own(owner: Any) -> bool:
    """Whether the class of an object, which is ours, lists all of its attributes: any other was set by a user."""
    return "KNOWN" in vars(type(owner))


def is_foreign(thing: object) -> bool:
    """Whether an object is of a class that a user has written."""
    return not type(thing).__module__.startswith("abreast.")


def replaced_method(thing: object) -> str | None:
    """The first method of its class that an object has another of, if there is one."""
    return next((name for name in vars(thing) if callable(getattr(type(thing), name, None))), None)


def first_change(before: Mapping[str, bytes | None], now: Mapping[str, bytes | None]) -> str | None:
    """The first name whose digest has changed, or that is new or gone; None if there is none."""
    return next((name for name in {**before, **now} if now.get(name, b"") != before.get(name, b"")), None)


class ClassAttributes:
    """Lists, arrays and the like of users' classes, which all objects of a class share: have they changed?"""

    def __init__(self, objects: Iterable[object]) -> None:
        kinds = {type(each) for each in objects}
        classes = {each for kind in kinds for each in kind.__mro__ if not each.__module__.startswith("abreast.")}
        self._classes = sorted(classes - {object}, key=lambda kind: kind.__qualname__)
        self._digests = self._look()

    def changed(self) -> str | None:
        """The name of one that has changed."""
        return first_change(self._digests, self._look())

    def _look(self) -> dict[str, bytes | None]:
        return {
            f"{kind.__qualname__}.{name}": digest(value, {})
            for kind in self._classes
            for name, value in list(vars(kind).items())
            if isinstance(value, CHANGEABLE) and not name.startswith(("__", "_abc_"))
        }


# ---- copies


def true_copy(value: Any, memo: dict[int, Any]) -> Any:
    """A copy that shares nothing that can change with its original; raises `ValueError` if there is no such copy."""
    try:
        twin = copy.deepcopy(value, memo)
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}".rstrip(".")) from error
    shared = {id(each) for each in reachable(value)}
    for each in reachable(twin):
        if id(each) in shared:
            raise ValueError(f"its copy would share {_described(each)} with it")
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
            left += enclosed_by(value).values()
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


def _described(value: object) -> str:
    return f"a {type(value).__name__} ({short(value)})"


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
    if isinstance(one, IMMUTABLE) or not is_foreign(one) or not hasattr(one, "__dict__"):
        return False
    known: frozenset[str] = getattr(one, "KNOWN", frozenset())
    mine, others = ({name: value for name, value in vars(each).items() if name not in known} for each in (one, two))
    return differs(mine, others, seen)


# ---- inside


class _Refused(Exception):
    """Could be pickled, but would not be the same afterwards."""


class _Packer(Pickler):
    """Pickles tensors as arrays, and places by name."""

    def __init__(self, file: io.BytesIO, places: Places) -> None:
        super().__init__(file)
        self._names = {id(value): name for name, value in places.items()}
        self._torch = sys.modules.get("torch")

    def persistent_id(self, value: object) -> str | None:
        return self._names.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        if self._torch is not None and isinstance(value, self._torch.Tensor):
            if value.grad_fn is not None:
                raise _Refused(
                    "it holds a tensor with the graph of its gradient, which exists in one process only: compute it again"
                    " in train_step"
                )
            if value._backward_hooks or vars(value):
                raise _Refused(
                    "it holds a tensor with a hook or an attribute of its own, which would be lost: register hooks and keep"
                    " such values in train_step"
                )
            if value.device.type == "cpu" and value.dtype != self._torch.bfloat16 and not value.is_sparse:
                return _rebuilt, (type(value), value.detach().numpy(), value.requires_grad, value.grad)
        if getattr(value, "_optimizer_step_pre_hooks", None) or getattr(value, "_optimizer_step_post_hooks", None):
            raise _Refused("it holds an optimiser with hooks, which would be lost: do what they do in train_step")
        return super().reducer_override(value)


class _DigestPacker(_Packer):
    """Leaves out whether a torch module is in training mode: both sides set it as they need it."""

    def reducer_override(self, value: Any) -> Any:
        if self._torch is not None and isinstance(value, self._torch.nn.Module):
            make, arguments, state, *more = value.__reduce_ex__(2)
            return make, arguments, {name: each for name, each in state.items() if name != "training"}, *more
        return super().reducer_override(value)


def _rebuilt(kind: type, array: Any, requires_grad: bool, grad: Any) -> Any:
    """A tensor on memory of its own."""
    torch: Any = sys.modules.get("torch") or __import__("torch")
    tensor = torch.from_numpy(array.copy())
    tensor = (
        kind(tensor, requires_grad) if issubclass(kind, torch.nn.Parameter) else tensor.requires_grad_(requires_grad)
    )
    tensor.grad = grad
    return tensor


def _dumps(value: Any, places: Places, packer: "type[_Packer]" = _Packer) -> bytes:
    file = io.BytesIO()
    packer(file, places).dump(value)
    return file.getvalue()
