"""The beach of treasure hunt."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from abreast.games.things import Item
from abreast.games.treasurehunt.entities import Bone, Food, Gem, Sand, Wall
from abreast.games.walkers import GROUND, TOP, TwoLayerWorld
from abreast.training import Config
from abreast.training.config import BatchedSection
from abreast.worlds import EmptyEntity


class TreasurehuntConfig(BatchedSection):
    """Settings of the beach."""

    height: int = Field(10, ge=3, le=10_000)
    """Rows, the walls around included."""
    width: int = Field(10, ge=3, le=10_000)
    """Columns, the walls around included."""
    spawn_prob: float = Field(0.02, ge=0, le=1)
    """Chance of an empty cell to turn into an item, each turn."""
    gem_value: float = 10.0
    """Reward for a gem."""
    food_value: float | None = None
    """Reward for food; null: there is no food."""
    bone_value: float | None = None
    """Reward for a bone, usually negative; null: there are no bones."""


def items(settings: TreasurehuntConfig) -> dict[type[Item], float]:
    """The kinds of items that there are, and their values."""
    values = {Gem: settings.gem_value, Food: settings.food_value, Bone: settings.bone_value}
    return {kind: value for kind, value in values.items() if value is not None}


class TreasurehuntWorld(TwoLayerWorld):
    """Sand, walls around, and items that appear on empty cells, each kind with the same chance."""

    section = TreasurehuntConfig
    settings: TreasurehuntConfig

    def __init__(self, config: Mapping[str, Any] | Config[Any, Any]) -> None:
        super().__init__(config)
        self._items = list(items(self.settings).items())

    def lay_out(self) -> None:
        """Sand everywhere, walls around."""
        self.fill(GROUND, Sand)
        self.enclose(TOP, Wall)

    def transition(self) -> None:
        super().transition()
        self.spawn(self._new_item, onto=EmptyEntity.kind, probability=self.settings.spawn_prob)

    def _new_item(self) -> Item:
        kind, value = self._items[int(self.rng.integers(len(self._items)))]
        return kind(value)
