"""The newest of a series of values, from one writer to readers who never see a mix of two.

    slots      ┌ version 7 ┐ ┌ version 5 ┐ ┌ version 6 ┐
    newest ─────────▲              ▲ the next publish goes into the slot with the oldest version

One slot holds the newest value, one may be held by each reader, one is free: so a publish never waits. The two
modes differ in how a value is read: `snapshot` copies it and looks afterwards whether it was whole; `double_buffer` pins
its slot, which the writer then leaves alone, and reads in place. There are no locks, so a process that is
killed cannot hold one: half a value written by a writer that died is never the newest.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.processes.memory import SharedBlock, fence, padded

Mode = Literal["snapshot", "double_buffer"]
NONE = -1
BEING_WRITTEN = -2


class Value(NamedTuple):
    """A whole value and its version."""

    version: int
    data: NDArray[np.uint8]


def latest_layout(prefix: str, size: int, readers: int = 1) -> dict[str, Any]:
    """The arrays of a `Latest` for values of `size` bytes. Fresh integers are -1: no version, no newest, no pin."""
    slots = readers + 2
    return {
        f"{prefix}slots": ((slots, padded(size)), np.uint8),
        f"{prefix}versions": ((slots,), np.int64),
        f"{prefix}lengths": ((slots,), np.int64),
        f"{prefix}newest": ((1,), np.int64),
        f"{prefix}pinned": ((readers,), np.int64),
    }


class Latest:
    """One side of it; the writer and each reader (numbered from 0) make their own over the same block."""

    def __init__(self, block: SharedBlock, prefix: str, mode: Mode = "snapshot", reader: int = 0) -> None:
        arrays = block.part(prefix)
        self._slots, self._versions, self._lengths = arrays["slots"], arrays["versions"], arrays["lengths"]
        self._newest, self._pinned = arrays["newest"], arrays["pinned"]
        self._mode, self._reader = mode, reader
        self._copy: NDArray[np.uint8] | None = None

    @property
    def version(self) -> int:
        """The version of the newest value; -1 when there is none yet."""
        newest = int(self._newest[0])
        fence()
        return int(self._versions[newest]) if newest >= 0 else -1

    def versions_after(self, version: int) -> list[int]:
        """Versions in its slots that are newer than this one, the oldest first."""
        fence()
        return sorted(each for each in self._versions.tolist() if each > version)

    def publish(self, version: int, *parts: NDArray[Any]) -> None:
        """Make a new value the newest: the bytes of `parts`, each at a multiple of 64."""
        slot = self._claim_slot()
        offset, target = 0, self._slots[slot]
        for part in parts:
            data = part.reshape(-1).view(np.uint8)
            target[offset : offset + len(data)] = data
            offset += padded(len(data))
        self._lengths[slot] = offset
        fence()
        self._versions[slot] = version
        fence()
        self._newest[0] = slot

    def read(self, version: int | None = None, size: int | None = None) -> Value:
        """The first `size` bytes (all that were published unless given) of the newest value, or of a version among the two
        published last.

        The data is valid until the next read. Reading before the first publish, or a version that is gone, is an error
        in the caller's schedule, not something to wait for.
        """
        while True:
            slot = int(self._newest[0]) if version is None else self._slot_of(version)
            if slot < 0:
                raise LookupError(f"version {version} is not there: the slots hold {self._versions.tolist()}")
            value = self._pin(slot, size) if self._mode == "double_buffer" else self._snapshot(slot, size)
            if value is not None and version in (None, value.version):
                return value

    def _slot_of(self, version: int) -> int:
        fence()
        found = np.flatnonzero(self._versions == version)
        return int(found[0]) if len(found) else NONE

    def _claim_slot(self) -> int:
        """The slot with the oldest version that is neither the newest nor held by a reader, marked as being written.

        A reader marks (pins) a slot and then looks whether the writer has marked it; the writer marks it and then looks
        whether a reader has. With a fence between the two steps on both sides, at least one of them sees the other.
        """
        while True:
            taken = {int(self._newest[0]), *self._pinned.tolist()}
            free = (slot for slot in range(len(self._versions)) if slot not in taken)
            slot = min(free, key=lambda slot: int(self._versions[slot]))
            version = int(self._versions[slot])
            self._versions[slot] = BEING_WRITTEN
            fence()
            if slot not in self._pinned:
                return slot
            self._versions[slot] = version  # a reader was faster, and may have it

    def _snapshot(self, slot: int, size: int | None) -> Value | None:
        before = int(self._versions[slot])
        fence()
        if self._copy is None:
            self._copy = _aligned(self._slots.shape[1])
        size = self._size(slot, size)
        np.copyto(self._copy[:size], self._slots[slot, :size])
        fence()
        whole = before >= 0 and int(self._versions[slot]) == before
        return Value(before, self._copy[:size]) if whole else None

    def _pin(self, slot: int, size: int | None) -> Value | None:
        """Hold a slot. The pin counts only if the slot still has its version once the pin can be seen."""
        before = int(self._versions[slot])
        self._pinned[self._reader] = slot
        fence()
        whole = before >= 0 and int(self._versions[slot]) == before
        return Value(before, self._slots[slot, : self._size(slot, size)]) if whole else None

    def _size(self, slot: int, wanted: int | None) -> int:
        """Bytes to read: a slot may have room for far more than was published, which would be copied for nothing."""
        length = int(self._lengths[slot])
        return length if wanted is None else min(wanted, length)


def _aligned(size: int) -> NDArray[np.uint8]:
    raw = np.empty(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]
