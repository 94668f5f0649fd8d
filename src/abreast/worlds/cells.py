"""A set of cells one can draw from at random in constant time."""

from collections.abc import Iterator

import numpy as np

from abreast.worlds.entity import Location


class CellPool:
    """The cells that hold one kind of entity.

    Additions and removals cost the same whatever the size of the map, and so does a draw. The order inside depends only
    on the history of additions and removals, so equal seeds draw equal cells.
    """

    def __init__(self) -> None:
        self._cells: list[Location] = []
        self._index: dict[Location, int] = {}

    def add(self, cell: Location) -> None:
        if cell not in self._index:
            self._index[cell] = len(self._cells)
            self._cells.append(cell)

    def discard(self, cell: Location) -> None:
        index = self._index.pop(cell, None)
        if index is not None:
            last = self._cells.pop()
            if last != cell:
                self._cells[index] = last
                self._index[last] = index

    def draw(self, rng: np.random.Generator, count: int) -> list[Location]:
        """`count` different cells, each set of them equally likely; they stay in the pool."""
        cells = self._cells
        for end in range(len(cells), len(cells) - count, -1):
            a, b = int(rng.integers(end)), end - 1
            cells[a], cells[b] = cells[b], cells[a]
            self._index[cells[a]], self._index[cells[b]] = a, b
        return cells[len(cells) - count :]

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Location]:
        return iter(self._cells)

    def __contains__(self, cell: object) -> bool:
        return cell in self._index
