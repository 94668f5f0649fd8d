"""The room of coins."""

from pydantic import Field

from abreast.games.coins.entities import COINS, Floor
from abreast.games.walkers import GROUND, TOP, TwoLayerWorld
from abreast.training.config import BatchedSection
from abreast.worlds import EmptyEntity, Wall


class CoinsConfig(BatchedSection):
    """Settings of the room and of the coins."""

    height: int = Field(7, ge=3, le=10_000)
    """Rows, the walls around included."""
    width: int = Field(7, ge=3, le=10_000)
    """Columns, the walls around included."""
    coin_value: float = Field(1.0, ge=0)
    """Reward for picking up a coin, of whichever colour."""
    coin_penalty: float = Field(2.0, ge=0)
    """What it costs an agent when the other picks up a coin of its colour."""


class CoinsWorld(TwoLayerWorld):
    """A walled room in which there is always one coin, of either colour with the same chance."""

    section = CoinsConfig
    settings: CoinsConfig

    def lay_out(self) -> None:
        """Floor everywhere, walls around."""
        self.fill(GROUND, Floor)
        self.enclose(TOP, Wall)

    def transition(self) -> None:
        super().transition()
        if not any(len(self.cells_of(kind.kind)) for kind in COINS) and len(self.cells_of(EmptyEntity.kind)):
            kind = COINS[int(self.rng.integers(len(COINS)))]
            self.scatter([kind(self.settings.coin_value)], onto=EmptyEntity.kind)
