"""Sets of cells as integers: the cell in `row` and `column` is bit `row * columns + column`.

A step is a shift by an offset. The outermost cells of a room are walls, so what leaves a row lands in a wall and is
masked away with it; nothing has to look for the edge.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Room(NamedTuple):
    """A room and where everything in it stands."""

    rows: int
    columns: int
    floor: int
    """Every cell that is not a wall, whatever stands on it."""
    targets: int
    boxes: int
    player: int
    """The number of the player's cell, not a set."""

    @property
    def boxes_on_target(self) -> int:
        """How many there are."""
        return (self.boxes & self.targets).bit_count()

    def after(self, direction: int) -> "Room":
        """The room after a step up, down, left or right (0 to 3), which may push a box; the same if that is blocked."""
        offset, boxes = offsets(self.columns)[direction], self.boxes
        there, beyond = self.player + offset, self.player + 2 * offset
        if boxes >> there & 1:
            if not (self.floor & ~boxes) >> beyond & 1:
                return self
            boxes ^= 1 << there | 1 << beyond
        return self._replace(boxes=boxes, player=there) if self.floor >> there & 1 else self


def cells_of(cells: int) -> Iterator[int]:
    """The numbers of the cells in a set, in reading order."""
    while cells:
        lowest = cells & -cells
        yield lowest.bit_length() - 1
        cells ^= lowest


def set_of(numbers: Iterable[int]) -> int:
    """The set of the cells with these numbers."""
    return sum(1 << number for number in numbers)


def offsets(columns: int) -> tuple[int, int, int, int]:
    """What one step up, down, left and right adds to the number of a cell."""
    return -columns, columns, -1, 1


def shifted(cells: int, offset: int) -> int:
    """The set after a step of all its cells."""
    return cells << offset if offset > 0 else cells >> -offset


def waves(start: int, free: int, columns: int) -> Iterator[int]:
    """The cells of `free` that are 0, 1, 2 and so on steps away from the set `start`, as long as there are any."""
    wave = reached = start
    while wave:
        yield wave
        wave = (wave << 1 | wave >> 1 | wave << columns | wave >> columns) & free & ~reached
        reached |= wave


def distance(one: int, other: int, columns: int) -> int:
    """Between two cells, counted along rows and columns."""
    return abs(one // columns - other // columns) + abs(one % columns - other % columns)


def reachable(start: int, free: int, columns: int) -> int:
    """All cells of `free` that can be walked to from the set `start`."""
    while True:
        wider = (start | start << 1 | start >> 1 | start << columns | start >> columns) & free
        if wider == start:
            return start
        start = wider
