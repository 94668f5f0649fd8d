"""Chapter 4: shared memory. Rows, rings, and a torn row.

python docs/guide/04_rows.py
"""

import time

import numpy as np

from abreast.processes.backend import ChildSpec
from abreast.processes.memory import SharedBlock
from abreast.processes.process import ProcessBackend
from abreast.processes.ring import Ring, ring_layout
from abreast.processes.team import RestartPolicy, Team

FIELDS = {"state": ((25,), np.int64), "action": ((), np.int64), "reward": ((), np.float64)}
ROWS = 4


class PausedRow(dict):
    """A row that describes itself: every field of row 7 holds 7. Between its fields the writer is held up.

    On a busy machine the operating system does that, at any line, for milliseconds. Here it happens every time.
    """

    def __init__(self, number, pause):
        super().__init__(state=number, action=number, reward=number)
        self.pause = pause

    def items(self):
        for name, value in super().items():
            yield name, value
            if name == "state":
                self.pause()


class HastyRing(Ring):
    """A ring as it is often written first: it moves the cursor, and then fills the row."""

    def write(self, lane, row):
        at = lane, self._cursors[lane] % self.rows
        self._cursors[lane] += 1
        for name, value in row.items():
            self.fields[name][at] = value


class Actor:
    """The work of a child: it writes rows of one agent."""

    def __init__(self, context, block, kind):
        self.context, self.block = context, block
        self.ring = kind(block.part("rows."))

    def obey(self, key, number):
        def pause():
            self.context.answer(key, "half", last=False)
            while not self.block["go"][0] > number:
                time.sleep(0.001)

        self.ring.write(0, PausedRow(number, pause))
        self.context.answer(key, "whole")

    def idle(self):
        return None

    def close(self):
        pass


def newest_row(ring):
    """What the learner sees: the newest row below the cursor, as (state, action, reward). None: there is no row."""
    written = int(ring.written()[0])
    if not written:
        return None
    row = {name: array[0, (written - 1) % ring.rows] for name, array in ring.fields.items()}
    return int(row["state"][0]), int(row["action"]), float(row["reward"])


def look_while_a_row_is_written(kind):
    """What a learner sees while the actor is in the middle of a row, and after it; for six rows in a ring of four."""
    layout = {f"rows.{name}": what for name, what in ring_layout(ROWS, 1, FIELDS).items()}
    block = SharedBlock({**layout, "go": ((1,), np.int64)})
    ring = kind(block.part("rows."))
    ring.start()
    team = Team(ProcessBackend(), lambda _: ChildSpec("actor", Actor, (block, kind)), 1, RestartPolicy(0, 60))
    team.start()
    seen = []
    for number in range(6):
        team.submit(0, number, number)
        wait_for(team, "half")
        seen.append(newest_row(ring))
        block["go"][0] = number + 1  # let the writer go on
        wait_for(team, "whole")
        assert newest_row(ring) == (number, number, number)
    team.stop()
    return seen


def wait_for(team, answer):
    while answer not in [event.value for event in team.events()]:
        team.wait(1.0)


def main():
    # The pitfall: the cursor says that the row is there, and half of it is: of nothing, or of the row four before it.
    seen = look_while_a_row_is_written(HastyRing)
    print("cursor first:", seen)
    assert all(len(set(row)) > 1 for row in seen), "no torn row"  # NaN and -1 are poison, 0 to 5 are rows
    assert seen[5] == (5, 1, 1.0)

    # Mended: the cursor moves when the row is whole. The learner sees the row before, or none.
    seen = look_while_a_row_is_written(Ring)
    print("row first:   ", seen)
    assert seen == [None, *((number, number, float(number)) for number in range(5))]


if __name__ == "__main__":
    main()
