"""Rows and values are whole: self-describing data across real processes, none torn, none lost, none twice.

Each test has a broken twin that must fail, as proof that the check can. `make chaos` runs them at full length.
"""

import os
import time

import numpy as np
import pytest

from abreast.processes.backend import ChildSpec
from abreast.processes.latest import Latest, latest_layout
from abreast.processes.memory import SharedBlock
from abreast.processes.process import ProcessBackend
from abreast.processes.ring import Ring, ring_layout

FULL = bool(os.environ.get("ABREAST_CHAOS"))
ROWS = 5_000_000 if FULL else 60_000
PUBLISHES = 100_000 if FULL else 4_000
WIDTH = 64


class Writer:
    """A child that writes when it is told to."""

    def __init__(self, context, write, *arguments):
        self._context, self._write, self._arguments = context, write, arguments

    def obey(self, key, order):
        self._write(*self._arguments)
        self._context.answer(key, "written")

    def idle(self):
        return None

    def close(self):
        pass


def start_writing(*arguments):
    child = ProcessBackend().start(0, ChildSpec("writer", Writer, arguments), lambda: None)
    child.send(("all", None))
    return child


# ---- rows


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


# ---- newest values


class HastyLatest(Latest):
    """Writes over the newest value: what training in place while the actor reads amounts to. It is interrupted, too."""

    def _claim_slot(self):
        return max(int(self._newest[0]), 0)

    def publish(self, version, value):
        if version % 100 == 99:
            self._slots[max(int(self._newest[0]), 0)][:1000] = 0  # half of it
            time.sleep(0.0005)
        super().publish(version, value)


def publish_values(block, kind, count):
    """Every element of version v holds v."""
    latest = kind(block, "latest.")
    value = np.empty(20_000, dtype=np.int64)
    for version in range(count):
        value[:] = version
        latest.publish(version, value)


def read_values(mode, kind, count):
    """Read newest values as they come; returns (torn, gone back, how many different ones were seen, the last one)."""
    block = SharedBlock(latest_layout("latest.", 160_000))
    latest = Latest(block, "latest.", mode)
    child = start_writing(publish_values, block, kind, count)
    torn = back = different = 0
    last = -1
    messages = []
    while not (len(messages) == 2 and last == latest.version):  # ready, written
        messages += child.receive()
        assert child.is_alive, child.cause_of_death()
        if latest.version < 0:
            continue
        version, data = latest.read()
        numbers = data.view(np.int64)
        torn += not (numbers == version).all()
        back += version < last
        different += version != last
        last = version
    child.kill()
    return torn, back, different, last


@pytest.mark.parametrize("mode", ["snapshot", "double_buffer"])
def test_values_are_whole_and_never_go_back(mode):
    torn, back, different, last = read_values(mode, Latest, PUBLISHES)
    assert (torn, back, last) == (0, 0, PUBLISHES - 1)
    assert different > 10


@pytest.mark.parametrize("mode", ["snapshot", "double_buffer"])
def test_writing_over_the_newest_value_is_caught(mode):
    for _ in range(5):
        torn, *_ = read_values(mode, HastyLatest, 3_000)
        if torn:
            return
    pytest.fail("the check did not see the torn values of a writer that writes over the newest one")


def test_a_pinned_slot_is_left_alone_however_much_is_published():
    block = SharedBlock(latest_layout("x.", 64))
    writer, reader = Latest(block, "x."), Latest(block, "x.", "double_buffer")
    writer.publish(0, np.zeros(8))
    held = reader.read()
    for version in range(1, 50):
        writer.publish(version, np.full(8, float(version)))
    assert (held.data.view(np.float64)[:8] == 0).all()
    assert reader.read().version == 49


def test_the_two_newest_versions_can_be_asked_for():
    block = SharedBlock(latest_layout("x.", 64))
    writer, reader = Latest(block, "x."), Latest(block, "x.", "double_buffer")
    for version in range(20):
        writer.publish(version, np.full(8, float(version)))
        for wanted in {version, max(version - 1, 0)}:
            assert reader.read(wanted).data.view(np.float64)[0] == wanted
    with pytest.raises(LookupError, match="version 3 is not there"):
        reader.read(3)


def test_half_a_value_of_a_writer_that_died_is_never_read():
    block = SharedBlock(latest_layout("x.", 64))
    writer, reader = Latest(block, "x."), Latest(block, "x.")
    writer.publish(0, np.zeros(8))
    slot = writer._claim_slot()  # and dies here, in the middle of writing
    writer._slots[slot] = 255
    assert reader.read().version == 0 and (reader.read().data == 0).all()
    Latest(block, "x.").publish(1, np.ones(8))  # its successor
    assert (reader.read().data.view(np.float64)[:8] == 1).all()
