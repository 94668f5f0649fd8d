"""A state in one safetensors file: its arrays as tensors, its facts as JSON under the metadata key `abreast`.

8 bytes: length of the header | header: JSON with type, shape and place of each tensor, padded to 8 bytes | data

The format is read and written here, not by the safetensors package: that one reads metadata only from a path (the file
would be opened twice and could change between), and joins a copy of all arrays before it writes the first. Other readers
of safetensors read these files. Arrays of types that they do not know (complex numbers, times, text, foreign byte orders)
are stored as bytes; their type and shape are in the facts.
"""

import io
import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from abreast.errors import StateFileError, short
from abreast.state import State

LONGEST_HEADER = 100_000_000
"""Bytes; the limit of the safetensors package."""
DEEPEST = 200
"""Levels of lists and dictionaries within each other in facts."""
AS_BYTES = "__arrays__"
"""The fact that says which arrays are stored as bytes."""
METADATA, KEY = "__metadata__", "abreast"

TENSORS = {
    "|b1": "BOOL", "|i1": "I8", "|u1": "U8", "<i2": "I16", "<u2": "U16", "<f2": "F16", "<i4": "I32", "<u4": "U32",
    "<f4": "F32", "<i8": "I64", "<u8": "U64", "<f8": "F64",
}  # fmt: skip
DTYPES = {tensor: np.dtype(name) for name, tensor in TENSORS.items()}
KINDS = "biufcSUVMm"
"""Kinds of arrays that are nothing but bytes."""
DTYPE = re.compile(rf"[<>|][{KINDS}][0-9]{{1,9}}(\[[0-9A-Za-zμ/]{{1,20}}\])?")


class Source(Protocol):
    """Where a file is read from, once and in order."""

    def readinto(self, place: memoryview, /) -> int | None: ...


def dumps(state: State) -> bytes:
    """The bytes of a file with this state; `loads` returns an equal one. Tuples in facts become lists."""
    return b"".join(pieces(state))


def pieces(state: State) -> Iterator[memoryview | bytes]:
    """The bytes of a file with this state, in pieces that are views of its arrays where possible."""
    if AS_BYTES in state.facts:
        raise StateFileError(f"a fact is called {AS_BYTES}, which the file needs itself: give it another name.")
    as_bytes: dict[str, Any] = {}
    header: dict[str, Any] = {METADATA: {}}
    end = 0
    # Large items first, so that every array is aligned; names in order, so that equal states are equal files.
    arrays = {_checked_name(name): _checked(name, array) for name, array in state.arrays.items()}
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.alignment, name))
    for name in order:
        array = arrays[name]
        tensor, shape = TENSORS.get(array.dtype.str), list(array.shape)
        if tensor is None:
            as_bytes[name] = [array.dtype.str, shape]
            tensor, shape = "U8", [array.nbytes]
        header[name] = {"dtype": tensor, "shape": shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    facts = state.facts | {AS_BYTES: as_bytes} if as_bytes else state.facts
    header[METADATA][KEY] = json_of(facts)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise StateFileError(f"its facts take {len(text):,} bytes, at most {LONGEST_HEADER:,} fit: use arrays instead.")
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        yield _bytes_of(arrays[name])


def loads(data: bytes) -> State:
    """The state in the bytes of a file. Its arrays are copies."""
    return read(io.BytesIO(data), len(data))


def read(file: Source, size: int) -> State:
    """The state in a file of this many bytes, read once and in order. Nothing is read before it is known to fit."""
    try:
        header_size = int.from_bytes(_next(file, 8), "little") if size >= 8 else LONGEST_HEADER + 1
        if header_size > min(size - 8, LONGEST_HEADER):
            raise StateFileError("it is not a safetensors file, or its beginning is damaged.")
        header = parse_json(bytes(_next(file, header_size)), "its header")
        facts, tensors = _layout(header, size - 8 - header_size)
        arrays = {}
        for tensor in tensors:
            array = np.ndarray(tensor.shape, tensor.dtype, _next(file, tensor.size))
            _check_values(tensor.name, array)
            arrays[tensor.name] = array
        return State(facts, arrays)
    except MemoryError:
        raise StateFileError(f"its {size:,} bytes do not fit into memory.") from None
    except (ValueError, RecursionError) as error:  # of an empty array with a side of 2**60, or of a value to be shown
        raise StateFileError(f"it cannot be read: {error}.") from None


def json_of(facts: Any) -> str:
    """Facts as strict JSON; what JSON does not have is refused by its path."""
    try:
        _check(facts, "", 0)
        return json.dumps(facts, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise StateFileError(f"its facts cannot be written as JSON: {error}.") from None


def parse_json(data: bytes, what: str) -> Any:
    """The value in strict JSON: no constants or numbers that are not finite, no key twice, nothing too deep."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise StateFileError(f"{what} is not valid JSON ({error}).") from None


class _Tensor(NamedTuple):
    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    size: int


def _layout(header: Any, room: int) -> tuple[dict[str, Any], list[_Tensor]]:
    """The facts, and the arrays in the order of their bytes, which fill the room without gap or overlap."""
    about = header.get(METADATA) if isinstance(header, dict) else None
    if not isinstance(about, dict) or not isinstance(about.get(KEY), str):
        raise StateFileError(f"it holds no facts of abreast: its metadata has no text {KEY!r}.")
    facts = parse_json(about[KEY].encode("utf-8", "surrogatepass"), "its facts")
    as_bytes = facts.pop(AS_BYTES, {}) if isinstance(facts, dict) else None
    if not isinstance(as_bytes, dict) or not as_bytes.keys() <= header.keys() - {METADATA}:
        raise StateFileError("its facts are not those of a state.")
    tensors = [_tensor(name, entry) for name, entry in header.items() if name != METADATA]
    tensors.sort(key=lambda tensor: (tensor.start, tensor.size))
    end = 0
    for tensor in tensors:
        if tensor.start != end:
            raise StateFileError(f"its tensor {short(tensor.name)} is not where the one before ends.")
        end += tensor.size
    if end != room:
        raise StateFileError(f"its tensors take {end:,} bytes, but {room:,} are there: it was cut or added to.")
    return facts, [_typed(tensor, as_bytes.get(tensor.name)) for tensor in tensors]


def _tensor(name: str, entry: Any) -> _Tensor:
    """An entry of the header, looked at."""
    try:
        dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
        start, end = entry["data_offsets"]
        fits = _is_shape(shape) and _is_shape([start, end]) and end - start == math.prod(shape) * dtype.itemsize
    except (TypeError, KeyError, ValueError):
        fits = False
    if not fits:
        raise StateFileError(f"its tensor {short(name)} has type, shape or place {short(entry)}, which cannot be.")
    return _Tensor(name, dtype, tuple(shape), start, end - start)


def _typed(tensor: _Tensor, stored: Any) -> _Tensor:
    """The tensor as it was before it was stored as bytes, if it was."""
    if stored is None:
        return tensor
    try:
        name, shape = stored
        dtype = np.dtype(name if DTYPE.fullmatch(name) else "O")
        fits = not dtype.hasobject and _is_shape(shape) and math.prod(shape) * dtype.itemsize == tensor.size
        fits = fits and tensor.dtype == np.uint8
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise StateFileError(f"its array {short(tensor.name)} is said to be {short(stored)}, which cannot be.")
    return tensor._replace(dtype=dtype, shape=tuple(shape))


def _is_shape(value: Any) -> bool:
    return type(value) is list and len(value) <= 64 and all(type(each) is int and 0 <= each < 2**62 for each in value)


def _next(file: Source, size: int) -> NDArray[np.uint8]:
    """The next bytes of a file, in memory of their own."""
    place = np.empty(size, np.uint8)
    done = 0
    while done < size:
        count = file.readinto(place.data[done:])
        if not count:
            raise StateFileError(f"it ends {size - done:,} bytes too early.")
        done += count
    return place


def _check_values(name: str, array: NDArray[Any]) -> None:
    """Refuse values that no array of this type can hold, on which NumPy would fail or guess later."""
    flat = array.reshape(-1)
    if array.dtype.kind == "b" and array.size and flat.view(np.uint8).max() > 1:
        raise StateFileError(f"its array {short(name)} holds truth values that are neither true nor false.")
    codes = flat.view(f"{array.dtype.str[0]}u4") if array.dtype.kind == "U" and array.nbytes else None
    if codes is not None and codes.max() > 0x10FFFF:
        raise StateFileError(f"its array {short(name)} holds characters that do not exist.")


def _checked_name(name: Any) -> str:
    if type(name) is not str or name == METADATA or not _is_text(name):
        raise StateFileError(f"an array is called {short(name)}: a file needs a text, and not {METADATA}.")
    return name


def _is_text(name: str) -> bool:
    """Whether a name is Unicode; Python's halves of characters are not, and other readers refuse the whole file."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _checked(name: str, array: Any) -> NDArray[Any]:
    """The array, if it is nothing but bytes. (One with a mask, say, is more.)"""
    is_plain = type(array) in (np.ndarray, np.memmap)
    if not is_plain or array.dtype.kind not in KINDS or array.dtype.names or array.dtype.subdtype:
        told = array.dtype if is_plain else type(array).__name__
        raise StateFileError(f"the array {name} is of type {told}, which has no plain form in a file.")
    return array  # type: ignore[no-any-return]


def _bytes_of(array: NDArray[Any]) -> memoryview | bytes:
    """The bytes of an array in the order of C; a copy only where it is laid out otherwise."""
    return np.asarray(array, order="C").reshape(-1).view(np.uint8).data if array.nbytes else b""


def _check(value: Any, path: str, depth: int) -> None:
    """Refuse what would not come back from JSON as it was."""
    kind = type(value)
    if kind in (str, int, bool, type(None)) or (kind is float and math.isfinite(value)):
        return
    if depth > DEEPEST:
        raise StateFileError(f"the fact {short(path)} is more than {DEEPEST} levels deep.")
    if isinstance(value, dict):
        for key, each in value.items():
            if type(key) is not str:
                raise StateFileError(
                    f"the fact {path or 'facts'} has the key {short(key)}: JSON knows only text there."
                )
            _check(each, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            _check(each, f"{path}[{number}]", depth + 1)
    else:
        raise StateFileError(f"the fact {path} is {short(value)} ({kind.__name__}), which JSON does not have.")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large")
    return value
