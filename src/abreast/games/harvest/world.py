"""The meadow of commons harvest."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from abreast.games.harvest.entities import Apple, Grass
from abreast.games.walkers import GROUND, TOP, TwoLayerWorld
from abreast.training.config import BatchedSection
from abreast.worlds import EmptyEntity, Wall

REACH = 2
"""Steps within which apples count as near."""
NEAR = [
    (row, column)
    for row in range(-REACH, REACH + 1)
    for column in range(-REACH, REACH + 1)
    if 0 < abs(row) + abs(column) <= REACH
]
"""From a cell to those that are near it: rows and columns."""


class HarvestConfig(BatchedSection):
    """Settings of the meadow and of what grows there."""

    height: int = Field(11, ge=3, le=10_000)
    """Rows, the walls around included."""
    width: int = Field(11, ge=3, le=10_000)
    """Columns, the walls around included."""
    apples: int = Field(24, ge=0)
    """Apples on the meadow when an epoch begins."""
    regrow_prob: float = Field(0.005, ge=0, le=1)
    """Chance of an empty cell to bear an apple, each turn, for every apple within two steps of it; at most 1 in all."""
    apple_value: float = 1.0
    """Reward for eating an apple."""


class HarvestWorld(TwoLayerWorld):
    """Grass, walls around, and apples that grow where others are near; where none is left, none comes back."""

    section = HarvestConfig
    settings: HarvestConfig

    def lay_out(self) -> None:
        """Grass everywhere, walls around, apples in new places."""
        self.fill(GROUND, Grass)
        self.enclose(TOP, Wall)
        self.scatter([self._new_apple() for _ in range(self.settings.apples)], onto=EmptyEntity.kind)

    def transition(self) -> None:
        super().transition()
        if not len(self.cells_of(Apple.kind)):
            return
        chances = np.minimum(self.apples_near() * self.settings.regrow_prob, 1.0)
        is_empty = self.kinds[:, :, TOP] == self.kind_number(EmptyEntity.kind)
        for row, column in np.argwhere(is_empty & self.happens(chances)).tolist():
            self.add((row, column, TOP), self._new_apple())

    def happens(self, chances: NDArray[Any]) -> NDArray[np.bool_]:
        """In which cells something happens that has a chance in each."""
        return self.rng.random(chances.shape) < chances

    def apples_near(self) -> NDArray[np.int64]:
        """How many apples are within two steps of each cell."""
        padded = np.pad(self.kinds[:, :, TOP] == self.kind_number(Apple.kind), REACH).astype(np.int64)
        rows, columns = slice(REACH, -REACH), slice(REACH, -REACH)
        return sum(np.roll(padded, step, (0, 1)) for step in NEAR)[rows, columns]  # type: ignore[index]

    def _new_apple(self) -> Apple:
        return Apple(self.settings.apple_value)
