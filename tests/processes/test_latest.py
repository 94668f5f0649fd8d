"""Newest values are whole: self-describing values across real processes, none torn, none older than the one before.

The test has a broken twin that must fail, as proof that the check can. `make chaos` runs it at full length.
"""

import os
import time

import numpy as np
import pytest

from abreast.processes.latest import Latest, latest_layout
from abreast.processes.memory import SharedBlock
from processes.workers import start_writing

PUBLISHES = 100_000 if os.environ.get("ABREAST_CHAOS") else 4_000


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
    """Every element of version v holds v, and how many there are follows from v."""
    latest = kind(block, "latest.")
    value = np.empty(20_000, dtype=np.int64)
    for version in range(count):
        value[:] = version
        latest.publish(version, value[: length_of(version)])


def length_of(version):
    return 8 * (2500 - version % 5)


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
        torn += len(numbers) != length_of(version) or not (numbers == version).all()
        back += version < last
        different += version != last
        last = version
    child.kill()
    return torn, back, different, last


@pytest.mark.parametrize("mode", ["snapshot", "double_buffer"])
def test_values_are_whole_and_never_go_back(mode):
    torn, back, different, last = read_values(mode, Latest, PUBLISHES)
    assert (torn, back, last) == (0, 0, PUBLISHES - 1)
    assert different > 1  # on a busy machine the reader does not run for long


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


@pytest.mark.parametrize("mode", ["snapshot", "double_buffer"])
def test_no_more_is_read_than_was_published_whatever_room_there_is(mode):
    block = SharedBlock(latest_layout("x.", 4096))
    writer, reader = Latest(block, "x."), Latest(block, "x.", mode)
    writer.publish(0, np.zeros(64))
    writer.publish(1, np.ones(8), np.ones(3))
    assert len(reader.read().data) == 128
    assert len(reader.read(0).data) == 512
    assert len(reader.read(0, 64).data) == 64
    assert len(reader.read(1, 4096).data) == 128


class _Interrupted:
    """The lengths of the slots, as a reader sees them whose core is taken away just before or after it looks."""

    def __init__(self, lengths, publish):
        self._lengths, self._publish, self.looks = lengths, publish, 0

    def __getitem__(self, slot):
        self.looks += 1
        if self.looks % 3 == 1:
            self._publish()
        length = self._lengths[slot]
        if self.looks % 3 == 2:
            self._publish()
        return length


class LengthFirst(Latest):
    """Looks at the length before it knows which version is there."""

    def _snapshot(self, slot, size):
        return super()._snapshot(slot, self._size(slot, size))

    def _pin(self, slot, size):
        return super()._pin(slot, self._size(slot, size))


def odd_lengths(mode, kind):
    """How many of some values had another length than their version, with a writer that publishes whenever it hurts."""
    block = SharedBlock(latest_layout("x.", 4096))
    writer, reader, versions = Latest(block, "x."), kind(block, "x.", mode), iter(range(1000))

    def publish():
        for version in (next(versions) for _ in range(4)):  # every slot that is not held
            writer.publish(version, np.full(8 * (1 + version % 7), float(version)))

    publish()
    reader._lengths = _Interrupted(writer._lengths, publish)
    values = [(read.version, read.data.view(np.float64).copy()) for read in (reader.read() for _ in range(20))]
    assert reader._lengths.looks >= 20
    return sum(len(data) != 8 * (1 + version % 7) or (data != version).any() for version, data in values)


@pytest.mark.parametrize("mode", ["snapshot", "double_buffer"])
def test_a_length_is_that_of_the_version_that_was_read(mode):
    assert odd_lengths(mode, Latest) == 0
    assert odd_lengths(mode, LengthFirst) > 0  # the check can fail


def test_half_a_value_of_a_writer_that_died_is_never_read():
    block = SharedBlock(latest_layout("x.", 64))
    writer, reader = Latest(block, "x."), Latest(block, "x.")
    writer.publish(0, np.zeros(8))
    slot = writer._claim_slot()  # and dies here, in the middle of writing
    writer._slots[slot] = 255
    assert reader.read().version == 0 and (reader.read().data == 0).all()
    Latest(block, "x.").publish(1, np.ones(8))  # its successor
    assert (reader.read().data.view(np.float64)[:8] == 1).all()
