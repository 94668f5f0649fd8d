"""The court of the prisoners' dilemma: tiles to cooperate on along the left wall, to defect on along the right one."""

from typing import Self

import pydantic
from pydantic import Field

from abreast.games.prisoners.entities import CooperateTile, DefectTile, Floor
from abreast.games.walkers import GROUND, TOP, TwoLayerWorld
from abreast.settings import Section
from abreast.worlds import Wall


class PrisonersConfig(Section):
    """Settings of the court and of what a turn pays."""

    height: int = Field(5, ge=3, le=10_000)
    """Rows, the walls around included."""
    width: int = Field(7, ge=5, le=10_000)
    """Columns, the walls around included."""
    tile_width: int = Field(1, ge=1)
    """Columns of tiles on either side; what is left between them is floor."""
    reward: float = 3.0
    """R: what each of two gets who both cooperate."""
    sucker: float = 0.0
    """S: for who cooperates while the other defects."""
    temptation: float = 5.0
    """T: for who defects while the other cooperates."""
    punishment: float = 1.0
    """P: what each of two gets who both defect."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if 2 * self.tile_width + 3 > self.width:
            raise ValueError(
                f"world.tile_width is {self.tile_width}, too much for world.width {self.width}: no floor is left."
                f" Raise width to {2 * self.tile_width + 3} or more, or lower tile_width."
            )
        return self


class PrisonersWorld(TwoLayerWorld):
    """Floor between two rows of tiles, walls around."""

    section = PrisonersConfig
    settings: PrisonersConfig

    def lay_out(self) -> None:
        """Walls around; tiles and floor inside."""
        self.enclose(TOP, Wall)
        for row in range(1, self.height - 1):
            for column in range(1, self.width - 1):
                self.add((row, column, GROUND), self._ground(column)())

    def _ground(self, column: int) -> type[Floor | CooperateTile | DefectTile]:
        if column <= self.settings.tile_width:
            return CooperateTile
        return DefectTile if column >= self.width - 1 - self.settings.tile_width else Floor

    def payoff(self, mine: str, other: str) -> float:
        """What a turn pays an agent on a tile of kind `mine` while another is on one of kind `other`."""
        if mine == CooperateTile.kind:
            return self.settings.reward if other == CooperateTile.kind else self.settings.sucker
        return self.settings.temptation if other == CooperateTile.kind else self.settings.punishment
