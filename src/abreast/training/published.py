"""What a learner knows, published into shared memory: for actors, and for its own restart.

one value of a `Latest`:   │ header (JSON): facts, where each array is │ weights │ target, moments, random streams … │
                            └──────────────── read by actors ──────────────────┘
                            └────────────── read when a learner starts, and when a run ends ────────────────────────┘
"""

import copy
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import WorkerError
from abreast.models import BaseModel
from abreast.processes.latest import Latest, Mode, latest_layout
from abreast.processes.memory import SharedBlock, padded
from abreast.processes.shares import NewestShare
from abreast.state import State, join, part_of

HEADER_ROOM = 16_384
"""Bytes of facts beside four times what they are at the start: a count of each lane begins with one digit."""
GROWTH, ROOM = 8, 2**26
"""How much larger than at the start the attributes of a user's model may become, beside so many bytes.

Memory that is not written to takes no room.
"""


class Published:
    """Where the state of one agent's learner is published. Pickled into a child, it is the same place."""

    def __init__(
        self, prefix: str, state: State, chooses_with: Sequence[str] = (), mode: Mode = "snapshot", readers: int = 1
    ) -> None:
        """`chooses_with`: arrays that actors need, the first ones; none named: all, and their number and sizes may grow."""
        self._prefix, self._mode, self._readers, self._reader = prefix, mode, readers, 0
        self._header = padded(4 * len(_header_of(state, 0)) + HEADER_ROOM)
        sizes = sum(padded(array.nbytes) for array in state.arrays.values())
        self._size = self._header + (sizes if chooses_with else GROWTH * sizes + ROOM)
        needed = [padded(state.arrays[name].nbytes) for name in chooses_with]
        self._acting_size = self._header + sum(needed) if needed else self._size
        self._block: SharedBlock | None = None

    def layout(self) -> dict[str, Any]:
        """The arrays it needs in a shared block."""
        return latest_layout(self._prefix, self._size, self._readers)

    def for_reader(self, reader: int) -> "Published":
        """The same place through a handle of its own, as one of its readers (or as the writer)."""
        assert self._block is not None, "attach comes first"
        return copy.copy(self).attach(self._block, reader)

    def attach(self, block: SharedBlock, reader: int = 0) -> "Published":
        """Take its place in the block."""
        self._block, self._reader = block, reader
        self._latest = Latest(block, self._prefix, self._mode, reader)
        self._whole = Latest(block, self._prefix, "snapshot", reader)
        return self

    def publish(self, version: int, state: State) -> None:
        """Make this the newest state. An older version than the newest is refused: its writer was replaced."""
        if version <= self.version:
            raise WorkerError(f"version {version} was not published: version {self.version} is there already.")
        text = _header_of(state, self._header)
        size = sum(padded(array.nbytes) for array in state.arrays.values())
        if len(text) > self._header:
            raise WorkerError(
                f"the facts of a model, {len(text):,} bytes, have outgrown the {self._header:,} bytes of shared memory that"
                " they had room in: keep what grows in self.memory, or in arrays."
            )
        if self._header + size > self._size:
            raise WorkerError(
                f"the attributes of a model, {size:,} bytes, have outgrown the {self._size - self._header:,} bytes of shared"
                " memory that they had room in. Does one, such as a list of losses, grow without end?"
            )
        start = np.zeros(self._header, dtype=np.uint8)
        start[: len(text)] = np.frombuffer(text, np.uint8)
        self._latest.publish(version, start, *state.arrays.values())

    def share(self, whole: bool) -> NewestShare:
        """What a worker has of it that has no shared memory: all, or what choosing needs."""
        return NewestShare(self._prefix, None if whole else self._acting_size)

    @property
    def version(self) -> int:
        """The newest version; -1 before the first."""
        return self._whole.version

    def read(self, version: int | None = None, whole: bool = False) -> tuple[int, State]:
        """What choosing needs, or all of it, of the newest version or of a given one; valid until the next call."""
        value = self._whole.read(version) if whole else self._latest.read(version, self._acting_size)
        return value.version, _parsed(value.data, self._header)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_latest", "_whole")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._block is not None:
            self.attach(self._block, self._reader)


def _header_of(state: State, start: int) -> bytes:
    """The facts, and where each array is, of which the first begins at `start`."""
    arrays = []
    for name, array in state.arrays.items():
        arrays.append((name, array.dtype.str, array.shape, start))
        start += padded(array.nbytes)
    return json.dumps({"facts": state.facts, "arrays": arrays}).encode()


def _parsed(data: NDArray[np.uint8], header_size: int) -> State:
    """The state in the bytes of a slot, as far as they go."""
    header = json.loads(data[:header_size].tobytes().rstrip(b"\0"))
    arrays = {}
    for name, kind, shape, start in header["arrays"]:
        dtype = np.dtype(kind)
        end = start + int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if end <= len(data):
            arrays[name] = data[start:end].view(dtype).reshape(shape)
    return State(header["facts"], arrays)


def create_shared_models(models: Sequence[BaseModel], mode: Mode = "snapshot", readers: int = 1) -> list[Published]:
    """A place for what each model learns; their `layout`s go into one shared block, which they then `attach`."""
    return [
        Published(
            f"model{index}.",
            join(model=model.learning_state()),
            [f"model.{name}" for name in model.CHOOSES_WITH if model.is_ours],  # of others, all may be needed
            mode,
            readers,
        )
        for index, model in enumerate(models)
    ]


def publish_model(model: BaseModel, published: Published, version: int, **facts: Any) -> None:
    """Publish all that a model has learned, and what else is to be known about it."""
    published.publish(version, join(model=model.learning_state(), learner=State(facts)))


def adopt_published(model: BaseModel, published: Published, version: int | None) -> tuple[int, State]:
    """Let a model choose with a published version, or the newest; returns its number and the learner's facts."""
    found, state = published.read(version)
    model.adopt(part_of(state, "model"))
    return found, part_of(state, "learner")


def restore_published(model: BaseModel, published: Published) -> tuple[int, State]:
    """Let a model learn on from the newest version; returns its number and the learner's facts."""
    version, state = published.read(whole=True)
    model.set_learning_state(part_of(state, "model"))
    return version, part_of(state, "learner")
