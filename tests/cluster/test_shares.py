"""What is copied of memory that cannot be shared: rows and versions, whole, in their places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abreast.processes.latest import Latest, latest_layout
from abreast.processes.memory import SharedBlock
from abreast.processes.ring import Ring, ring_layout
from abreast.processes.shares import NewestShare, RowsShare

ROWS, LANES = 7, 3
RING = {f"replay0.{name}": what for name, what in ring_layout(ROWS, LANES, {"value": ((2,), np.float32)}).items()}


@given(st.lists(st.tuples(st.integers(0, LANES - 1), st.integers(0, 2 * ROWS)), max_size=12), st.booleans())
def test_rows_are_the_same_in_the_same_places(writes, is_read):
    """Also where a ring goes round between two messages; other lanes are left alone."""
    here, there = (SharedBlock(RING) for _ in range(2))
    ring, copy = Ring(here.part("replay0.")), Ring(there.part("replay0."))
    ring.start()
    copy.start()
    share = RowsShare("replay0.", range(1, LANES))
    for lane in range(LANES):
        ring.write(lane, {"value": [lane, -1]})
    ours, theirs = share.open(here), share.open(there)
    theirs.apply(ours.first(is_read))
    for number, (lane, count) in enumerate(writes):
        for each in range(count):
            ring.write(lane, {"value": [number, each]})
        changes = ours.changes()
        assert (changes is not None) == (lane > 0 and count > 0)
        if changes is not None:
            theirs.apply(changes)
    assert copy.written()[0] == 0
    assert copy.written()[1:].tolist() == ring.written()[1:].tolist()
    for lane in range(1, LANES):
        written = int(ring.written()[lane])
        first = max(0 if is_read else 1, written - ROWS)
        at = [row % ROWS for row in range(first, written)]
        assert np.array_equal(ring.fields["value"][lane, at], copy.fields["value"][lane, at])


def test_a_rewound_lane_is_written_on_from_there():
    here, there = (SharedBlock(RING) for _ in range(2))
    ring, copy, share = Ring(here.part("replay0.")), Ring(there.part("replay0.")), RowsShare("replay0.", range(LANES))
    ring.start()
    ring.write(0, {"value": [1, 1]})
    ours, theirs = share.open(here), share.open(there)
    theirs.apply(ours.first(is_read=True))
    ring.write(0, {"value": [2, 2]})
    ring.rewind(0, 1)
    ring.write(0, {"value": [3, 3]})
    theirs.apply(ours.changes())
    assert copy.fields["value"][0, :2].tolist() == [[1, 1], [3, 3]]


def test_versions_arrive_in_order_as_far_as_they_are_needed():
    layout = latest_layout("model0.", 256)
    here, there = (SharedBlock(layout) for _ in range(2))
    ours, theirs = (NewestShare("model0.", 64).open(block) for block in (here, there))
    source, copy = Latest(here, "model0."), Latest(there, "model0.")
    for version in (1, 2):
        source.publish(version, np.full(200, version, np.uint8))
    theirs.apply(ours.first(is_read=True))
    assert copy.version == 2 and [copy.read(version).data.tolist() for version in (1, 2)] == [[1] * 64, [2] * 64]
    assert ours.changes() is None
    for version in range(3, 9):
        source.publish(version, np.full(200, version, np.uint8))
    theirs.apply(ours.changes())
    assert copy.version == 8 and copy.read(7).data.tolist() == [7] * 64
