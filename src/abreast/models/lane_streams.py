"""Random numbers for choosing, and which lanes choose together: neither depends on how many actors share the lanes."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import StateError, short

LANES_TOGETHER = 8
"""Lanes whose actions are evaluated in one product: those with the same number divided by this.

The rounding of a product's row depends on how many rows there are, so actors that each play whole groups of lanes choose as
one actor with all of them would. (An action in a product of 8 rows takes 1.2 times as long as in one of 16, of 4 rows 2
times.)
"""
ALL_LANES = 2**62
"""Stands for all lanes together; no lane has this number."""
VECTORS = 2**61
"""Added to the number of a lane for the numbers of continuous actions."""
BLOCK = 64
"""Numbers are drawn so many actions ahead."""


class LaneStreams:
    """The random numbers by which one agent chooses. They follow from its seed, the pass and the lane, and nothing else.

    So nothing of them outlives a pass. (A generator is made in 9 µs, for each lane of a pass.)
    """

    lanes_per_actor = ALL_LANES
    """How many lanes each actor has, where `num_actors` is set: lanes of two actors never choose together, in a sequential
    run either.
    """

    is_of_one_pass = False
    """Whether the seed is that of a single pass, whatever its number."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self.key: list[int] = seed.generate_state(2, np.uint64).tolist()
        """What tells these streams from those of other seeds."""
        self.begin(0)

    def set_key(self, key: Any) -> None:
        """Draw from the streams of another seed."""
        is_key = isinstance(key, list) and len(key) == 2
        if not is_key or any(type(part) is not int or not 0 <= part < 2**64 for part in key):
            raise StateError(f"the key of the streams of choices is {short(key)}, expected two whole numbers.")
        self.key = key

    def group_of(self, lane: int) -> tuple[int, int]:
        """Lanes with the same group are evaluated together."""
        return lane // self.lanes_per_actor, lane // LANES_TOGETHER

    def together(self, rows: Sequence[int], lanes: Sequence[int]) -> list[Sequence[int]]:
        """The rows, in groups that are evaluated together; `lanes` says the lane of each row, in ascending order."""
        if self.group_of(lanes[0]) == self.group_of(lanes[-1]):
            return [rows] if rows else []
        groups: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            groups.setdefault(self.group_of(lanes[row]), []).append(row)
        return list(groups.values())

    def begin(self, epoch: int) -> None:
        """A pass begins, whose first epoch has this number."""
        self._epoch = 0 if self.is_of_one_pass else epoch
        self._of_lane: dict[Hashable, Iterator[list[float]]] = {}

    def draw(self, lanes: Sequence[int]) -> list[list[float]]:
        """Two numbers from 0 to 1 for each of these lanes."""
        streams = self._of_lane
        for lane in lanes:
            if lane not in streams:
                streams[lane] = self._stream(lane)
        return [next(streams[lane]) for lane in lanes]

    def vectors(self, lanes: Sequence[int], size: int, is_normal: bool = True) -> NDArray[np.float32]:
        """So many numbers for each of these lanes: standard normal, or from -1 to 1."""
        streams = self._of_lane
        keys = [(lane, size, is_normal) for lane in lanes]
        for key in keys:
            if key not in streams:
                streams[key] = self._vector_stream(*key)
        return np.array([next(streams[key]) for key in keys], dtype=np.float32)

    def _vector_stream(self, lane: int, size: int, is_normal: bool) -> Iterator[list[float]]:
        generator = np.random.Generator(self._source(VECTORS + lane))
        while True:
            shape = BLOCK, size
            yield from (generator.standard_normal(shape) if is_normal else generator.uniform(-1.0, 1.0, shape)).tolist()

    def _stream(self, lane: int) -> Iterator[list[float]]:
        generator = np.random.Generator(self._source(1 + lane))
        while True:
            yield from generator.random((BLOCK, 2)).tolist()

    def seed_of_pass(self, number: int = 0) -> int:
        """A seed for what is drawn once a pass, the same for all lanes; with `ALL_LANES`, for the choices in all of them,
        where they are drawn together (on a device).
        """
        return int(self._source(number).random_raw())

    def _source(self, number: int) -> np.random.Philox:
        return np.random.Philox(key=np.array(self.key, np.uint64), counter=[0, 0, number, self._epoch])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_of_lane": {}}
