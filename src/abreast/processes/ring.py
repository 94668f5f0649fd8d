"""A ring of rows with one writer, whose readers never see half a row.

    row r stands at r % rows:      … │ r-2 │ r-1 │ (r) │ …
                                                  ▲ written: rows 0 … r-1 are whole

The writer fills the row, then moves the cursor; readers look at the cursor, then at rows below it. Fences keep the order
on every processor. Several lanes share one ring object, each with a cursor of its own.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.processes.memory import Layout, fence


def ring_layout(rows: int, lanes: int, fields: Layout) -> dict[str, Any]:
    """The arrays a ring needs."""
    layout: dict[str, Any] = {name: ((lanes, rows, *shape), dtype) for name, (shape, dtype) in fields.items()}
    return {**layout, "written": ((lanes,), np.int64)}


class Ring:
    """Rows in arrays of shape (lanes, rows, …), made by `ring_layout`, in private or in shared memory."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._cursors = arrays["written"]
        self.fields = {name: array for name, array in arrays.items() if name != "written"}
        self.lanes, self.rows = next(iter(self.fields.values())).shape[:2]

    def start(self, written: NDArray[np.int64] | int = 0) -> None:
        """Begin, or begin again, with this many rows in each lane; for the writer, while there are no readers."""
        self._cursors[:] = written

    def rewind(self, lane: int, written: int) -> None:
        """Go on with this row of a lane; for the writer, while no reader looks at the rows from there on."""
        self._cursors[lane] = written

    def write(self, lane: int, row: Mapping[str, Any]) -> None:
        """Add a row. It can be seen only when it is whole."""
        written = self._cursors.item(lane)
        at, fields = (lane, written % self.rows), self.fields
        for name, value in row.items():
            fields[name][at] = value
        fence()
        self._cursors[lane] = written + 1

    def write_all(self, lanes: Sequence[int], rows: Mapping[str, Sequence[Any]]) -> None:
        """Add a row to each of several lanes; `rows` has, of each field, a value for each lane. (16 rows: a fifth of the
        time of `write` for each.)
        """
        index = np.array(lanes)
        written = self._cursors[index]
        at, fields = (index, written % self.rows), self.fields
        for name, values in rows.items():
            fields[name][at] = values
        fence()
        self._cursors[index] = written + 1

    def write_block(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Add several rows to each of the first lanes; `rows` has, of each field, an array (lanes, count, …).

        They can be seen only when all of them are whole; of more than the ring holds, the newest stay.
        """
        lanes, count = next(iter(rows.values())).shape[:2]
        written = self._cursors[:lanes].copy()
        for these in _equal_runs(written):  # usually all lanes are, and each field is copied in one or two pieces
            end = written.item(these.start) + count
            for there, here in self._pieces(end - min(count, self.rows), end):
                for name, values in rows.items():
                    self.fields[name][these, there] = values[these, here.start - end + count : here.stop - end + count]
        fence()
        self._cursors[:lanes] = written + count

    def _pieces(self, first: int, end: int) -> list[tuple[slice, slice]]:
        """Where rows `first` to `end` stand, piece by piece: places in the ring, and numbers of rows."""
        pieces = []
        while first < end:
            at = first % self.rows
            step = min(end - first, self.rows - at)
            pieces.append((slice(at, at + step), slice(first, first + step)))
            first += step
        return pieces

    def rows_from(self, lanes: NDArray[np.int64], first: NDArray[np.int64]) -> "Rows":
        """Rows of these lanes, from row `first` of each on; of those that are overwritten by now, the newest."""
        written = self.written()[lanes]
        first = np.clip(first, written - self.rows, written)
        at = _places(lanes, first, written, self.rows)
        return Rows(first, written, {name: field[at] for name, field in self.fields.items()})

    def put_rows(self, lanes: NDArray[np.int64], rows: "Rows") -> None:
        """Have rows that stand in another ring of this kind, in the same lanes and places. All are seen at once."""
        at = _places(lanes, rows.first, rows.written, self.rows)
        for name, values in rows.fields.items():
            self.fields[name][at] = values
        fence()
        self._cursors[lanes] = rows.written

    def written(self) -> NDArray[np.int64]:
        """How many rows each lane has; all of them whole."""
        cursors = self._cursors.copy()
        fence()
        return cursors


class Rows(NamedTuple):
    """Rows of several lanes, lane after lane."""

    first: NDArray[np.int64]
    """By lane: the number of the first of them,"""
    written: NDArray[np.int64]
    """and how many the lane has in all."""
    fields: dict[str, NDArray[Any]]


def _places(
    lanes: NDArray[np.int64], first: NDArray[np.int64], end: NDArray[np.int64], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where rows `first` to `end` of each lane stand: lanes, and places in them."""
    numbers = [np.arange(*each) for each in zip(first, end, strict=True)]
    return np.repeat(lanes, end - first), np.concatenate(numbers) % rows


def _equal_runs(written: NDArray[np.int64]) -> list[slice]:
    """Neighbouring lanes that have the same number of rows."""
    borders = [0, *(np.flatnonzero(np.diff(written)) + 1).tolist(), len(written)]
    return [slice(first, last) for first, last in pairwise(borders)]
