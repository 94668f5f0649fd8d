"""What both sides of shared memory have of it where no memory can be shared: on different machines.

    here                            there
    ring: rows 0 … r-1 ──changes──▶ ring: the same rows, in the same places
    newest: version 7  ──changes──▶ newest: version 7

Each side has arrays of the same layout. What one side has written travels with the next message, and is there before the
message is read; so the code on both sides is the same as with shared memory.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abreast.processes.latest import NONE, Latest
from abreast.processes.memory import SharedBlock
from abreast.processes.ring import Ring, Rows

Versions = list[tuple[int, NDArray[np.uint8]]]


@dataclass(frozen=True)
class RowsShare:
    """Some lanes of a ring."""

    prefix: str
    lanes: range

    def open(self, block: SharedBlock) -> "CopiedRows":
        return CopiedRows(Ring(block.part(self.prefix)), self.lanes)


class CopiedRows:
    """One side of a ring, in the block of this side."""

    def __init__(self, ring: Ring, lanes: range) -> None:
        self._ring, self._lanes = ring, np.array(lanes)
        self._known = np.zeros(len(lanes), dtype=np.int64)
        """By lane: how many rows both sides have."""

    def first(self, is_read: bool) -> Rows:
        """What the other side has to have at the start, which reads from there, or writes there."""
        written = self._ring.written()[self._lanes]
        rows = self._ring.rows_from(self._lanes, np.zeros_like(written) if is_read else written)
        self._known = written
        return rows

    def changes(self) -> Rows | None:
        """What was written since the last call; None: nothing."""
        rows = self._ring.rows_from(self._lanes, self._known)
        is_same = np.array_equal(self._known, rows.written)
        self._known = rows.written
        return None if is_same else rows

    def apply(self, changes: Rows) -> None:
        """Write what the other side has written."""
        self._ring.put_rows(self._lanes, changes)
        self._known = changes.written


@dataclass(frozen=True)
class NewestShare:
    """A series of values, of which the newest are read."""

    prefix: str
    size: int | None = None
    """The bytes that are needed of each; None: all."""

    def open(self, block: SharedBlock) -> "CopiedNewest":
        return CopiedNewest(partial(Latest, block, self.prefix), self.size)


class CopiedNewest:
    """One side of such a series; the methods are those of `CopiedRows`."""

    def __init__(self, make: Callable[[], Latest], size: int | None) -> None:
        self._make, self._latest, self._size, self._known = make, make(), size, NONE

    def first(self, is_read: bool) -> Versions:
        return self.changes() or []

    def changes(self) -> Versions | None:
        values = []
        for version in self._latest.versions_after(self._known):
            with suppress(LookupError):  # it was overwritten meanwhile, so newer ones are there
                values.append((version, self._make().read(version, self._size).data))  # each with memory of its own
            self._known = version
        return values or None

    def apply(self, changes: Versions) -> None:
        for version, data in changes:
            self._latest.publish(version, data)
            self._known = version


Share = RowsShare | NewestShare
"""A part of shared memory that one side writes and the other reads."""
Copied = CopiedRows | CopiedNewest
"""One side of it."""
