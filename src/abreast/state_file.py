"""A state in one safetensors file: its arrays as tensors, its facts as JSON under the metadata key `abreast`.

8 bytes: length of the header | header: JSON with type, shape and place of each tensor, padded to 8 bytes | data

Files are read by the safetensors package, which checks the header, and written here, because of memory and of rights: for a
state of 500 MB `safetensors.numpy.save` takes 950 MB more (measured), and `save_file`, which takes none, makes files that
only their owner may read. Arrays of types that safetensors does not have (complex numbers, times, text) are refused by name;
users' values of any type are bytes in the one codec.
"""

import io
import json
import math
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import safetensors.numpy

from abreast.errors import StateFileError, short
from abreast.state import State

LONGEST_HEADER = 100_000_000
"""Bytes; the limit of the safetensors package."""
DEEPEST = 200
"""Levels of lists and dictionaries within each other in facts."""
METADATA, KEY = "__metadata__", "abreast"

TENSORS = {
    "|b1": "BOOL", "|i1": "I8", "|u1": "U8", "<i2": "I16", "<u2": "U16", "<f2": "F16", "<i4": "I32", "<u4": "U32",
    "<f4": "F32", "<i8": "I64", "<u8": "U64", "<f8": "F64",
}  # fmt: skip
"""What safetensors calls the types of NumPy."""
UNICODE = re.compile("[^\ud800-\udfff]*")
"""Names without Python's halves of characters, for which other readers refuse the whole file."""


# ---- writing


def dumps(state: State) -> bytes:
    """The bytes of a file with this state; `loads` returns an equal one. Tuples in facts become lists."""
    return b"".join(pieces(state))


def pieces(state: State) -> Iterator[memoryview | bytes]:
    """The bytes of a file with this state, in pieces that are views of its arrays where possible."""
    for name, array in state.arrays.items():
        _check_array(name, array)
    # Large items first, so that every array is aligned; names in order, so that equal states are equal files.
    arrays = dict(sorted(state.arrays.items(), key=lambda each: (-each[1].dtype.alignment, each[0])))
    header: dict[str, Any] = {METADATA: {KEY: json_of(state.facts)}}
    end = 0
    for name, array in arrays.items():
        offsets = [end, end := end + array.nbytes]
        header[name] = {"dtype": TENSORS[array.dtype.str], "shape": list(array.shape), "data_offsets": offsets}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise StateFileError(f"its facts take {len(text):,} bytes, at most {LONGEST_HEADER:,} fit: use arrays instead.")
    yield len(text).to_bytes(8, "little") + text
    for array in arrays.values():  # in the order of C; a copy only of one that is laid out otherwise
        yield np.asarray(array, order="C").reshape(-1).view(np.uint8).data if array.nbytes else b""


def json_of(facts: dict[str, Any]) -> str:
    """Facts as strict JSON; one that would not come back as it was is refused by its name."""
    for name, value in facts.items():
        if type(name) is not str or not _is_json(value, 0):
            raise StateFileError(f"the fact {short(name)} is {short(value)}, which does not fit into JSON.")
    try:
        return json.dumps(facts, allow_nan=False, separators=(",", ":"))
    except ValueError as error:  # an integer of thousands of digits
        raise StateFileError(f"its facts cannot be written as JSON: {error}.") from None


def _check_array(name: Any, array: Any) -> None:
    """Refuse an array that is more than bytes (one with a mask, say), or whose name no reader would take."""
    if type(name) is not str or name == METADATA or not UNICODE.fullmatch(name):
        raise StateFileError(f"an array is called {short(name)}: a file needs a text, and not {METADATA}.")
    if type(array) not in (np.ndarray, np.memmap) or array.dtype.str not in TENSORS:
        kind = getattr(array, "dtype", type(array).__name__)
        raise StateFileError(
            f"the array {name} is of type {kind}: a file holds whole numbers, floats and truth values."
        )


def _is_json(value: Any, depth: int) -> bool:
    """Whether a value comes back from JSON as it was, tuples as lists."""
    if isinstance(value, dict):
        return depth < DEEPEST and all(type(key) is str and _is_json(value[key], depth + 1) for key in value)
    if isinstance(value, list | tuple):
        return depth < DEEPEST and all(_is_json(each, depth + 1) for each in value)
    return type(value) in (str, int, bool, type(None)) or (type(value) is float and math.isfinite(value))


# ---- reading


def loads(data: bytes) -> State:
    """The state in the bytes of a file. Its arrays are copies."""
    about = read_header(io.BytesIO(data), len(data)).get(METADATA)
    if not isinstance(about, dict) or not isinstance(about.get(KEY), str):
        raise StateFileError(f"it holds no facts of abreast: its metadata has no text {KEY!r}.")
    facts = parse_json(about[KEY].encode("utf-8", "surrogatepass"), "the text of its facts")
    try:
        np.empty(len(data), np.uint8)  # where memory runs out, the package panics
        arrays = safetensors.numpy.load(data)
    except MemoryError:
        raise StateFileError(f"its {len(data):,} bytes do not fit into memory.") from None
    except (safetensors.SafetensorError, ValueError, KeyError) as error:  # KeyError: a type that NumPy does not have
        raise StateFileError(f"it is not a safetensors file, or damaged: {short(str(error))}.") from None
    if not isinstance(facts, dict):
        raise StateFileError("its facts are not those of a state.")
    return State(facts, arrays)


def read_header(file: BinaryIO, size: int) -> dict[str, Any]:
    """The header of a file of this many bytes; one that its tensors do not fill need not be read any further."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, LONGEST_HEADER):
        raise StateFileError("it is not a safetensors file, or its beginning is damaged.")
    header = parse_json(file.read(length), "its header")
    try:
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != METADATA]
        is_filled = 8 + length + max(ends, default=0) == size
    except (AttributeError, TypeError, LookupError):
        raise StateFileError("its header is not that of a safetensors file.") from None
    if not is_filled:
        raise StateFileError(f"it has {size:,} bytes, and its header speaks of another number: it was cut or added to.")
    return dict(header)


def parse_json(data: bytes, what: str) -> Any:
    """The value in JSON that a file holds."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        raise StateFileError(f"{what} is not valid JSON ({error}).") from None
