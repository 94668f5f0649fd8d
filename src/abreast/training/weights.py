"""What a learner has learned, published into shared memory: for the one who acts, and for its own restart.

one value of a `Latest`:   │ facts (JSON) │ weights │ target, Adam's moments, random generator … │
                            └── read by whoever acts ──┘
                            └────────── read when a learner starts, and when a run ends ──────────┘
"""

import copy
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.errors import WorkerError
from abreast.models import BaseModel
from abreast.processes.latest import Latest, Mode, latest_layout
from abreast.processes.memory import SharedBlock

FACTS_BYTES = 16_384
GROWTH = 4
"""How much larger than at the start the pickle of a foreign model may become."""


class Learned(NamedTuple):
    """A whole published state."""

    version: int
    facts: dict[str, Any]
    arrays: list[NDArray[Any]]


class SharedModel:
    """Where the learned state of one agent's model is published. Pickled into a child, it is the same place."""

    def __init__(self, prefix: str, arrays: Sequence[NDArray[Any]], mode: Mode, readers: int = 1) -> None:
        self._prefix, self._mode, self._readers = prefix, mode, readers
        # A single array of bytes is a pickle, which may grow.
        self._kinds = [(array.shape, array.dtype) for array in arrays]
        if len(arrays) == 1:
            self._kinds = [((GROWTH * arrays[0].size + 1_000_000,), arrays[0].dtype)]
        self._starts = [FACTS_BYTES]
        for shape, dtype in self._kinds:
            size = int(np.prod(shape)) * dtype.itemsize
            self._starts.append(self._starts[-1] + -(-size // 64) * 64)

    def layout(self) -> dict[str, Any]:
        """The arrays it needs in a shared block."""
        return latest_layout(self._prefix, self._starts[-1], self._readers)

    def attach(self, block: SharedBlock, reader: int = 0) -> "SharedModel":
        """Take its place in the block, as one of its readers (or as the writer)."""
        self._block, self._reader = block, reader
        self._latest = Latest(block, self._prefix, self._mode, reader)
        self._whole = Latest(block, self._prefix, "snapshot", reader)
        return self

    def for_reader(self, reader: int) -> "SharedModel":
        """The same place, for another reader."""
        return copy.copy(self).attach(self._block, reader)

    def publish(self, version: int, facts: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
        """Make this the newest state."""
        text = json.dumps(facts).encode()
        if len(text) > FACTS_BYTES or sum(array.nbytes for array in arrays) > self._starts[-1] - FACTS_BYTES:
            raise WorkerError(
                f"the state of a model has outgrown its shared memory: {len(text)} bytes of facts and"
                f" {sum(array.nbytes for array in arrays)} of arrays do not fit into {self._starts[-1]}."
            )
        header = np.zeros(FACTS_BYTES, dtype=np.uint8)
        header[: len(text)] = np.frombuffer(text, np.uint8)
        self._latest.publish(version, header, *arrays)

    def weights(self, version: int | None = None) -> tuple[int, dict[str, Any], NDArray[Any]]:
        """Version, facts and what choosing needs, of the newest state or a given version; valid until the next call."""
        value = self._latest.read(version, self._starts[1])
        return value.version, _facts(value.data), self._array(value.data, 0)

    @property
    def version(self) -> int:
        """The newest version."""
        return self._whole.version

    def facts(self) -> dict[str, Any]:
        """The facts of the newest state."""
        return _facts(self._whole.read(size=FACTS_BYTES).data)

    def whole(self) -> Learned:
        """Everything, copied."""
        value = self._whole.read()
        return Learned(value.version, _facts(value.data), [self._array(value.data, i) for i in range(len(self._kinds))])

    def _array(self, data: NDArray[np.uint8], index: int) -> NDArray[Any]:
        shape, dtype = self._kinds[index]
        size = int(np.prod(shape)) * dtype.itemsize
        start = self._starts[index]
        return data[start : start + size].view(dtype).reshape(shape)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_latest", "_whole")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.attach(self._block, self._reader)


def create_shared_models(models: Sequence[BaseModel], mode: Mode, readers: int = 1) -> list[SharedModel]:
    """A place for what each model learns; their `layout`s go into one shared block, which they then `attach`."""
    return [SharedModel(f"model{index}.", model.learned()[1], mode, readers) for index, model in enumerate(models)]


def publish_model(model: BaseModel, shared: SharedModel, version: int, **facts: Any) -> None:
    """Publish all that a model has learned, and what else is to be known about it."""
    learned, arrays = model.learned()
    shared.publish(version, {**learned, **facts}, arrays)


def _facts(data: NDArray[np.uint8]) -> dict[str, Any]:
    text = data[:FACTS_BYTES].tobytes().rstrip(b"\0")
    facts: dict[str, Any] = json.loads(text)
    return facts
