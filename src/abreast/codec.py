"""Users' values as bytes, and back: one form for pipes, shared memory, restarts, copies and files.

    data = encode({"log": [1, 2], "rng": generator}, places, names)
    values = decode(data, places, names)

It is pickle, protocol 5: what is shared stays shared, cycles are allowed. Objects that each side has of its own (the model,
its memory, the configuration) are `places`, which are written by name. A pickle calls what it names, so it may name only
what `Names` finds: the constructors listed here, one by one, and classes that the game's own modules define. Reading a file
therefore runs no code but that of the game's own classes. The same list holds for writing: what could not be read is
refused by name.
"""

import functools
import hashlib
import io
import itertools
import pathlib
import pickle
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import AttributeStateError, StateError, short

Places = Mapping[str, object]
"""Objects that are not written, by name; the reader has its own of the same names."""
LIBRARIES = frozenset(
    {"cloudpickle", "gymnasium", "numpy", "omegaconf", "pettingzoo", "PIL", "pydantic", "rich", "torch", "yaml"}
)
"""Packages that are never a game's own, wherever they lie."""
PUBLIC = frozenset({"abreast.worlds", "abreast.agents"})
"""Packages of ours whose public classes users' values may be of."""
PLAIN = (
    object, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice, deque,
    defaultdict, OrderedDict, Counter, SimpleNamespace, functools.partial, itertools.count, random.Random, date, datetime,
    timedelta, pathlib.PosixPath, pathlib.PurePosixPath, pathlib.WindowsPath, pathlib.PureWindowsPath,
)  # fmt: skip
FUNCTIONS = (
    "celu", "cross_entropy", "elu", "gelu", "hardtanh", "huber_loss", "leaky_relu", "log_softmax", "mish", "mse_loss",
    "relu", "relu6", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax", "softplus", "tanh",
)  # fmt: skip
"""Of torch and torch.nn.functional: activations and losses that networks keep as attributes."""


class Names:
    """The classes that a file of this game may name. (Not functions: a pickle can call what it names.)"""

    def __init__(self, objects: Iterable[object]) -> None:
        """`objects`: the game's own, whose classes, and what is defined beside them, may be named."""
        modules = {kind.__module__ for each in objects for kind in type(each).__mro__}
        self._homes = {_home(module) for module in modules} - {None}

    def find(self, module: str, name: str) -> Any:
        """What has this name; a `StateError` if it is not one of those."""
        found = _listed("torch" in sys.modules).get((module, name)) or _public(module, name)
        if found is None and module in sys.modules and _home(module) in self._homes:
            found = _defined(sys.modules[module], name.split("."))
            is_its_own = getattr(found, "__module__", None) == module and getattr(found, "__qualname__", "") == name
            found = found if is_its_own else None
        if found is None:
            own = "none of this game's own classes, nor of those that files may name"
            raise StateError(
                f"{module}.{name} is {own if self._homes else 'none of the kinds that are sent between processes'}"
            )
        return found


NO_CLASSES = Names(())
"""What a message may hold: no user's classes, only what is listed here."""


def _defined(found: Any, path: Sequence[str]) -> Any:
    """The class that a module, or a class in it, has under this name. (What a module imports is not its own.)"""
    for part in path:
        found = vars(found).get(part)
        if not isinstance(found, type):
            return None
    return found


def _home(module: str) -> str | None:
    """Where a game lives that defines something in this module: modules with the same home belong to it."""
    top = module.partition(".")[0]
    if top == "abreast":
        return ".".join(module.split(".")[:3]) if module.startswith("abreast.games.") else None
    if top in LIBRARIES or (top in sys.stdlib_module_names and top != "__main__"):
        return None
    file = getattr(sys.modules.get(top), "__file__", None)
    if top == "__main__" or file is None:
        return top
    path = pathlib.Path(file)
    folder = path.parent.parent if path.name == "__init__.py" else path.parent
    return top if folder.name in ("site-packages", "dist-packages") else str(folder)


def _public(module: str, name: str) -> type | None:
    """A public class of our worlds and agents."""
    package = ".".join(module.split(".")[:2])
    found = vars(sys.modules[package]).get(name) if package in PUBLIC and package in sys.modules else None
    return found if isinstance(found, type) and found.__module__ == module else None


@functools.cache
def _listed(has_torch: bool) -> dict[tuple[str, str], Any]:
    """Constructors by the names under which pickle finds them."""
    numpys = np.random.default_rng(), np.random.RandomState(), np.random.SeedSequence()
    grid = np.zeros((2, 2))
    listed: list[Any] = [
        *PLAIN,
        *(each.__reduce__()[0] for each in (*numpys, numpys[0].bit_generator, grid, np.float64())),
        *(grid.__reduce_ex__(5)[0], np.ndarray, np.dtype, np.random.SeedSequence, np.random.Philox),
        *(np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.SFC64),
        *_kinds_in(np, np.generic),
        *OURS,
    ]
    dtypes = {}
    if has_torch:
        torch = sys.modules["torch"]
        listed += _kinds_in(torch.nn, torch.nn.Module | torch.nn.Parameter) + _kinds_in(torch.optim, object)
        listed += [torch.Tensor, torch.Size, torch.device]
        functional = [getattr(torch.nn.functional, name) for name in FUNCTIONS]
        listed += [each for each in functional if isinstance(each, FunctionType)]
        dtypes = {("torch", name): each for name, each in vars(torch).items() if isinstance(each, torch.dtype)}
    return {(each.__module__, each.__qualname__): each for each in listed} | dtypes


def _kinds_in(module: ModuleType, base: Any) -> list[type]:
    return [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, base)]


class Unchanged:
    """Stands for a function that is an attribute: the reader has the same, or the values do not fit."""

    def __init__(self, name: str) -> None:
        self.name = name

    @staticmethod
    def name_of(function: Any) -> str:
        line = function.__code__.co_firstlineno if isinstance(function, FunctionType) else 0
        return f"{getattr(function, '__module__', None)}:{function.__name__}:{line}"


def encode(values: Mapping[str, Any], places: Places, names: Names) -> bytes:
    """Values as bytes; one that could not be read again is named in an `AttributeStateError`."""
    written = {name: _without_function(value) for name, value in values.items()}
    try:
        return _dumps(written, places, names)
    except Exception:
        for name, value in written.items():  # which one was it?
            try:
                _dumps({name: value}, places, names)
            except Exception as error:
                raise AttributeStateError(name, values[name], _reason(error)) from None
        raise


def encode_possible(
    values: Mapping[str, Any], places: Places, names: Names
) -> tuple[NDArray[np.uint8], dict[str, AttributeStateError]]:
    """Values as an array of bytes, and what was left out because it could not be read again."""
    left_out: dict[str, AttributeStateError] = {}
    while True:
        try:
            kept = {name: value for name, value in values.items() if name not in left_out}
            return np.frombuffer(encode(kept, places, names), np.uint8), left_out
        except AttributeStateError as error:
            left_out[error.name] = error


def decode(data: bytes | NDArray[np.uint8], places: Places, names: Names, current: Mapping[str, Any]) -> dict[str, Any]:
    """The values that `encode` was given, whatever the bytes are; `current` has the functions that are not written."""
    try:
        values = _Decoder(data, places, names).load()
        if type(values) is not dict or any(type(name) is not str for name in values):
            raise StateError(f"they are {short(values)}")
    except Exception as error:
        raise StateError(f"values of users' attributes cannot be read: {_reason(error)}.") from None
    for name, value in values.items():
        if isinstance(value, Unchanged):
            values[name] = current.get(name)
            if not callable(values[name]) or Unchanged.name_of(values[name]) != value.name:
                raise StateError(f"{name} was the function {short(value.name)}, and is {short(values[name])} here.")
    return values


def encode_message(value: Any) -> bytes:
    """A value as bytes, for a process that reads it with `decode_message`; a `StateError` names what it would not read."""
    data = io.BytesIO()
    try:
        _PlainEncoder(data, NO_CLASSES).dump(value)
    except Exception as error:
        raise StateError(_reason(error)) from None
    return data.getvalue()


def decode_message(data: bytes) -> Any:
    """The value that `encode_message` was given, whatever the bytes are; a `StateError` if they name anything else."""
    try:
        return _Decoder(data, {}, NO_CLASSES).load()
    except Exception as error:
        raise StateError(f"it cannot be read: {_reason(error)}") from None


def digest(value: object, places: Places, is_copied: bool = False) -> bytes | None:
    """A digest that changes when the value does; None for what cannot be compared.

    `is_copied`: to compare copies with their originals. Which equal parts are one and the same object is then left out, and
    what refers to itself cannot be compared.
    """
    data = io.BytesIO()
    encoder = _Encoder(data, places, None)
    encoder.fast = is_copied
    try:
        encoder.dump(_without_function(value))
    except Exception:
        return None
    return hashlib.blake2b(data.getbuffer(), digest_size=16).digest()


def attributes_of(owner: Any) -> dict[str, Any]:
    """The attributes that a user has added to an object of ours: all that its class of ours does not name in `KNOWN`."""
    slots = [name for kind in type(owner).__mro__ for name in _slots_of(kind)]
    found = {**getattr(owner, "__dict__", {}), **{name: getattr(owner, name) for name in slots if hasattr(owner, name)}}
    return {name: value for name, value in found.items() if name not in owner.KNOWN}


def _slots_of(kind: type) -> tuple[str, ...]:
    slots: Any = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


# ---- inside


def _dumps(values: Mapping[str, Any], places: Places, names: Names) -> bytes:
    data = io.BytesIO()
    _Encoder(data, places, names).dump(values)
    return data.getvalue()


def _reason(error: Exception) -> str:
    told = str(error) if isinstance(error, StateError) else f"{type(error).__name__}: {error}"
    return " ".join(told.split()).rstrip(".")


def _without_function(value: Any) -> Any:
    """A function that encloses nothing has no state: the reader's own takes its place."""
    is_plain = isinstance(value, FunctionType) and not value.__closure__
    is_builtin = isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | type | None)
    return Unchanged(Unchanged.name_of(value)) if is_plain or is_builtin or isinstance(value, np.ufunc) else value


class _PlainEncoder(pickle.Pickler):
    """Refuses what `names` does not find; without names, whatever can be pickled is written (for a digest)."""

    def __init__(self, file: io.BytesIO, names: Names | None) -> None:
        super().__init__(file, protocol=5)
        self._names, self._torch = names, sys.modules.get("torch")

    def reducer_override(self, value: Any) -> Any:
        torch = self._torch
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            return self._named(value)
        if type(value) is np.ndarray and not (value.flags.c_contiguous or value.flags.f_contiguous):
            axes = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))  # sums depend on their order
            return _transposed, (np.ascontiguousarray(value.transpose(axes)), axes)
        is_plain = type(value) is np.ndarray and value.dtype.kind in "biufcSUmM"
        if is_plain and value.dtype is not _dtype(value.dtype.str):
            return value.view(_dtype(value.dtype.str)).__reduce_ex__(5)  # a loaded array has a copy of its dtype
        if torch is None:
            return NotImplemented
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, torch.Generator):
            return _generator, (str(value.device), value.get_state().numpy())
        if getattr(value, "_optimizer_step_pre_hooks", None) or getattr(value, "_optimizer_step_post_hooks", None):
            raise StateError("it holds an optimiser with hooks, which would be lost: do what they do in train_step")
        if self._names is None and isinstance(value, torch.nn.Module):  # each side sets the mode as it needs it
            make, arguments, state, *more = value.__reduce_ex__(2)
            return make, arguments, {name: each for name, each in state.items() if name != "training"}, *more
        return NotImplemented

    def _named(self, value: Any) -> Any:
        """A class or function, by name."""
        name = value.__name__
        if isinstance(value, BuiltinFunctionType) and name in FUNCTIONS and getattr(self._torch, name, None) is value:
            return _function, (name,)
        if self._names is not None:
            found = self._names.find(value.__module__ or "builtins", value.__qualname__)
            if found is not value:
                raise StateError(f"{value.__qualname__} is not the one that its module has under this name")
        return NotImplemented

    def _tensor(self, value: Any) -> Any:
        if value.grad_fn is not None:
            raise StateError(
                "it holds a tensor with the graph of its gradient, which exists in one process only: compute it again in"
                " train_step"
            )
        if value._backward_hooks or vars(value):
            raise StateError(
                "it holds a tensor with a hook or an attribute of its own, which would be lost: register hooks and keep such"
                " values in train_step"
            )
        local = value.detach().cpu()
        bits = {2: self._torch.int16, 1: self._torch.uint8}.get(value.element_size())  # type: ignore[union-attr]
        array = (local.view(bits) if value.dtype == self._torch.bfloat16 else local).numpy()  # type: ignore[union-attr]
        return _tensor, (type(value), array, value.dtype, str(value.device), value.requires_grad, value.grad)


class _Encoder(_PlainEncoder):
    """With `places`. (That is a question for every object, which makes it many times slower.)"""

    def __init__(self, file: io.BytesIO, places: Places, names: Names | None) -> None:
        super().__init__(file, names)
        self._place_names = {id(value): name for name, value in places.items()}
        self._texts: dict[str, bytes] = {}

    def persistent_id(self, value: object) -> str | bytes | None:
        if type(value) is str:  # equal texts are written as one: whether they are one object says nothing
            return self._texts.get(value) or self._texts.setdefault(value, value.encode(errors="surrogatepass"))
        return self._place_names.get(id(value))


class _Decoder(pickle.Unpickler):
    def __init__(self, data: bytes | NDArray[np.uint8], places: Places, names: Names) -> None:
        super().__init__(io.BytesIO(bytes(data)))
        self._places, self._names = places, names

    def persistent_load(self, name: Any) -> Any:
        return sys.intern(name.decode(errors="surrogatepass")) if type(name) is bytes else self._places[name]

    def find_class(self, module: str, name: str) -> Any:
        return self._names.find(module, name)


@functools.cache
def _dtype(text: str) -> np.dtype[Any]:
    """Return the dtype of a name, always the same object."""
    return np.dtype(text)


def _transposed(array: NDArray[Any], axes: list[int]) -> NDArray[Any]:
    return array.transpose(np.argsort(axes))


def _tensor(kind: type, array: NDArray[Any], dtype: Any, device: str, requires_grad: bool, grad: Any) -> Any:
    """A tensor on memory of its own."""
    torch = sys.modules["torch"]
    tensor = torch.from_numpy(array).clone().view(dtype).to(device)  # memory of torch's own: aligned, as rounding needs
    is_parameter = issubclass(kind, torch.nn.Parameter)
    tensor = kind(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)
    tensor.grad = grad
    return tensor


def _generator(device: str, state: NDArray[np.uint8]) -> Any:
    torch = sys.modules["torch"]
    generator = torch.Generator(device)
    generator.set_state(torch.from_numpy(state.copy()))
    return generator


def _function(name: str) -> Any:
    if name not in FUNCTIONS:
        raise StateError(f"torch.{name} is no function that files may name")
    return getattr(sys.modules["torch"], name)


OURS = (Unchanged, _transposed, _tensor, _generator, _function)
"""Constructors of this module."""
