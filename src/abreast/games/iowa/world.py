"""The room of Iowa gambling: a deck in each corner."""

from pydantic import Field

from abreast.games.iowa.entities import DECKS, Carpet
from abreast.games.walkers import GROUND, TOP, TwoLayerWorld
from abreast.settings import Section
from abreast.worlds import Wall


class IowaConfig(Section):
    """Settings of the room and of the cards."""

    height: int = Field(5, ge=5, le=10_000)
    """Rows, the walls around included."""
    width: int = Field(5, ge=5, le=10_000)
    """Columns, the walls around included."""
    scale: float = Field(0.001, gt=0)
    """Reward for a dollar."""


class IowaWorld(TwoLayerWorld):
    """Carpet, walls around, and four decks; where each lies is drawn anew each epoch."""

    section = IowaConfig
    settings: IowaConfig

    def lay_out(self) -> None:
        """Carpet everywhere, walls around, new cards in the corners."""
        self.fill(GROUND, Carpet)
        self.enclose(TOP, Wall)
        corners = [(row, column, TOP) for row in (1, self.height - 2) for column in (1, self.width - 2)]
        for number, corner in zip(self.rng.permutation(len(DECKS)), corners, strict=True):
            self.add(corner, DECKS[number]())
