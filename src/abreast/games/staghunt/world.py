"""The forest of stag hunt."""

from collections.abc import Callable

from pydantic import Field

from abreast.games.staghunt.entities import Animal, Hare, Moss, Stag, Tree
from abreast.games.walkers import GROUND, TOP, TwoLayerWorld
from abreast.training.config import BatchedSection
from abreast.worlds import EmptyEntity


class StaghuntConfig(BatchedSection):
    """Settings of the forest and of the hunt."""

    height: int = Field(11, ge=3, le=10_000)
    """Rows, the trees around included."""
    width: int = Field(11, ge=3, le=10_000)
    """Columns, the trees around included."""
    stags: int = Field(2, ge=0)
    """Stags in the forest when none has been caught."""
    hares: int = Field(4, ge=0)
    """Hares in the forest when none has been caught."""
    hunters_needed: int = Field(2, ge=1, le=4)
    """Hunters that must stand beside a stag, the attacker included; with fewer agents than that, none is ever caught."""
    stag_value: float = Field(10.0, ge=0)
    """Reward for a stag, in full for each hunter beside it."""
    hare_value: float = Field(2.0, ge=0)
    """Reward for a hare."""
    stag_penalty: float = Field(1.0, ge=0)
    """Cost of attacking a stag with too few hunters."""
    wander_prob: float = Field(0.2, ge=0, le=1)
    """Chance of an animal to take a step, each turn."""
    respawn_prob: float = Field(0.1, ge=0, le=1)
    """Chance of an animal that was caught to be replaced, each turn."""


class StaghuntWorld(TwoLayerWorld):
    """Moss, trees around, and animals that wander and come back."""

    section = StaghuntConfig
    settings: StaghuntConfig

    def lay_out(self) -> None:
        """Moss everywhere, trees around, all animals in new places."""
        self.fill(GROUND, Moss)
        self.enclose(TOP, Tree)
        self._release(self._new_stag, self.settings.stags)
        self._release(self._new_hare, self.settings.hares)

    def transition(self) -> None:
        super().transition()
        self._replace(self._new_stag, self.settings.stags - len(self.cells_of(Stag.kind)))
        self._replace(self._new_hare, self.settings.hares - len(self.cells_of(Hare.kind)))

    def _replace(self, make: Callable[[], Animal], missing: int) -> None:
        # There is always room: everybody had a cell of their own at the start.
        self._release(make, int(self.rng.binomial(missing, self.settings.respawn_prob)))

    def _release(self, make: Callable[[], Animal], count: int) -> None:
        self.scatter([make() for _ in range(count)], onto=EmptyEntity.kind)

    def _new_stag(self) -> Stag:
        return Stag(self.settings.wander_prob)

    def _new_hare(self) -> Hare:
        return Hare(self.settings.hare_value, self.settings.wander_prob)
