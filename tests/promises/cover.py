"""Which rows of a table of tests are run: a cover of all pairs; all of them with `ABREAST_CHAOS=1` (`make chaos`)."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

IS_FULL = bool(os.environ.get("ABREAST_CHAOS"))
"""Whether every table is run in full."""

Row = tuple[Any, ...]


def rows(
    factors: Mapping[str, Iterable[Any]], is_valid: Callable[..., bool] = lambda **row: True, together: int = 2
) -> list[Row]:
    """Rows in which any two values of two factors meet, if a valid row has both. `together=1`: each value is in one row."""
    every = [row for row in product(*factors.values()) if is_valid(**dict(zip(factors, row, strict=True)))]
    return every if IS_FULL else cover(every, together)


def cover(every: Sequence[Row], together: int = 2) -> list[Row]:
    """A few of these rows, in their order, that have all the pairs which occur: always the row with most of what is left."""
    groups = {row: _groups(row, together) for row in every}
    left, chosen = set[Any]().union(*groups.values()), set()
    while left:
        best = max(every, key=lambda row: len(groups[row] & left))
        left -= groups[best]
        chosen.add(best)
    return [row for row in every if row in chosen]


def _groups(row: Row, together: int) -> set[tuple[tuple[int, Any], ...]]:
    return set(combinations(enumerate(row), together))


def each_nth(values: Sequence[Any], nth: int, first: int = 0) -> list[Any]:
    """Every nth of these values, from one of the first on; all of them in the full run."""
    return list(values) if IS_FULL else list(values[first % nth :: nth])
