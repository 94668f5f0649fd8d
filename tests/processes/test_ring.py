"""Rows are whole: self-describing rows across real processes, none torn, none lost, none twice.

The test has a broken twin that must fail, as proof that the check can. `make chaos` runs it at full length.
"""

import os
import time

import numpy as np
import pytest

from abreast.processes.memory import SharedBlock
from abreast.processes.ring import Ring, ring_layout
from processes.workers import start_writing

ROWS = 5_000_000 if os.environ.get("ABREAST_CHAOS") else 60_000
WIDTH = 64


class HastyRing(Ring):
    """Moves the cursor before the row is written: what the published attempt did. Now and then it is interrupted there."""

    def write(self, lane, row):
        written = self._cursors.item(lane)
        at = (lane, written % self.rows)
        self._cursors[lane] = written + 1
        if written % 100 == 99:
            time.sleep(0.0005)
        for name, value in row.items():
            self.fields[name][at] = value


def write_rows(block, kind, count):
    """Every element of row r holds r. The writer keeps half a ring ahead of the reader at most."""
    ring, consumed = kind(block.part("ring.")), block["consumed"]
    row = np.empty(WIDTH, dtype=np.int64)
    for number in range(count):
        while number - consumed[0] >= ring.rows // 2:
            time.sleep(0)
        row[:] = number
        ring.write(0, {"data": row, "check": -number})


def read_rows(kind, count):
    """Read all rows as they come; returns how many were torn, and whether all came once and in order."""
    layout = ring_layout(1024, 1, {"data": ((WIDTH,), np.int64), "check": ((), np.int64)})
    block = SharedBlock({f"ring.{name}": what for name, what in layout.items()} | {"consumed": ((1,), np.int64)})
    block["consumed"][0] = 0
    ring = Ring(block.part("ring."))
    ring.start()
    child = start_writing(write_rows, block, kind, count)
    seen = torn = 0
    while seen < count:
        assert child.is_alive, child.cause_of_death()
        written = int(ring.written()[0])
        for number in reversed(range(seen, written)):  # the newest first: it is the one that may not be whole
            at = number % ring.rows
            whole = (ring.fields["data"][0, at] == number).all() and ring.fields["check"][0, at] == -number
            torn += not whole
        seen = written
        block["consumed"][0] = seen
    child.kill()
    return torn, seen


def test_rows_are_whole_and_complete():
    assert read_rows(Ring, ROWS) == (0, ROWS)


def test_a_ring_that_moves_its_cursor_first_is_caught():
    for _ in range(5):  # a torn row is likely in one go, and all but certain in five
        torn, _ = read_rows(HastyRing, 60_000)
        if torn:
            return
    pytest.fail("the check did not see the torn rows of a ring that moves its cursor first")


def test_a_block_is_seen_only_when_all_of_it_is_there():
    ring = Ring({name: np.zeros(shape, dtype) for name, (shape, dtype) in ring_layout(4, 2, {"x": ((), int)}).items()})
    ring.start(3)
    seen = []

    class Told(dict):
        def items(self):
            for item in super().items():
                seen.append(ring.written().tolist())
                yield item

    ring.write_block(Told(x=np.arange(6).reshape(2, 3)))
    assert seen == [[3, 3]] * 2  # in two pieces, on both sides of the end of the ring
    assert ring.written().tolist() == [6, 6]
    assert ring.fields["x"].tolist() == [[1, 2, 0, 0], [4, 5, 0, 3]]
