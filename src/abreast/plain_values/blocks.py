"""Arrays and tensors as named arrays of types that every file can hold, with what else makes them what they are."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from abreast.errors import StateError

PLAIN_TYPES = frozenset(
    np.dtype(name)
    for name in (
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    )
)
"""Types that are written as they are; of others, the bytes."""
Tell = Callable[[object, str], tuple[str, object, str]]


class Blocks:
    """The arrays of a file, and which memory each of them came from."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._ranges: list[tuple[int, int, object, Tell]] = []

    def add(self, name: str, array: NDArray[Any], tell: Tell | None, owner: object = None) -> dict[str, Any]:
        """Write an array (the memory of `owner`) under this name; returns what is to be known of it."""
        if tell is not None and array.size:
            self._ranges.append((*byte_bounds(array), array if owner is None else owner, tell))
        node: dict[str, Any] = {"array": name}
        axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        if axes != list(range(array.ndim)) and not array.flags.c_contiguous:  # sums depend on the order in memory
            array = array.transpose(axes)
            node["axes"] = axes
        if array.dtype in PLAIN_TYPES and array.dtype.isnative:
            self.arrays[name] = np.array(array, order="C")
            return node
        self.arrays[name] = np.frombuffer(array.tobytes(), np.uint8).copy()
        return node | {"dtype": described_dtype(array.dtype), "shape": list(array.shape)}

    def add_tensor(self, torch: Any, name: str, tensor: Any, tell: Tell) -> dict[str, Any]:
        """Write a tensor; types that NumPy lacks, as whole numbers of the same size."""
        found: dict[str, Any] = {} if tensor.device.type == "cpu" else {"device": str(tensor.device)}
        local = tensor.detach().cpu()
        try:
            array = local.numpy()
        except TypeError:
            same = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
            array = local.view(same).numpy()
            found["dtype_of_tensor"] = str(tensor.dtype).removeprefix("torch.")
        return found | self.add(name, array, tell if tensor.device.type == "cpu" else None, tensor)

    def overlap(self) -> tuple[str, object, str] | None:
        """An array that lies in the memory of another: each would have memory of its own afterwards."""
        last: tuple[int, int, object, Tell] | None = None
        for start, end, array, tell in sorted(self._ranges, key=lambda each: each[:2]):
            if last is not None and start < last[1]:
                other = last[3](last[2], "")[0]
                return tell(array, f"it shares memory with {other}")
            last = (start, end, array, tell) if last is None or end > last[1] else last
        return None


def read_block(node: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """The array that was written, on memory of its own."""
    array = arrays.get(node["array"])
    if array is None:
        raise StateError(f"the array {node['array']} is missing.")
    if "dtype" in node:
        dtype = read_dtype(node["dtype"])
        if array.dtype != np.uint8 or array.ndim != 1:
            raise StateError(f"the array {node['array']} does not consist of bytes.")
        array = np.frombuffer(array.tobytes(), dtype).reshape(_shape(node["shape"]))
    array = np.array(array, order="C")
    return array.transpose(np.argsort(_shape(node["axes"]))) if "axes" in node else array


def described_dtype(dtype: np.dtype[Any]) -> Any:
    """A type of array as JSON."""
    return dtype.str if dtype.fields is None and dtype.subdtype is None else [_listed(each) for each in dtype.descr]


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, list | tuple) else value


def read_dtype(text: Any, objects: bool = False) -> np.dtype[Any]:
    """The type that was described; one that holds objects is refused unless it is the value itself."""
    dtype: np.dtype[Any] = np.dtype(_fields(text) if isinstance(text, list) else text)
    if dtype.hasobject and not objects:
        raise StateError("a type of objects is not kept as bytes.")
    return dtype


def _fields(described: list[Any]) -> list[Any]:
    return [
        (_named(name), _fields(kind) if isinstance(kind, list) else kind, *map(tuple, shape))
        for name, kind, *shape in described
    ]


def _named(name: Any) -> Any:
    return tuple(name) if isinstance(name, list) else name


def _shape(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise StateError("a shape is not a list of whole numbers.")
    return tuple(value)
