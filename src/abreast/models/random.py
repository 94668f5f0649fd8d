"""The baseline: a model that learns nothing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from abreast.models.base import BaseModel, shipped


@shipped
class RandomModel(BaseModel):
    """Chooses every action with the same chance and learns nothing: the baseline."""

    ALGORITHM = "random"
    ACTIONS = frozenset({"discrete", "continuous"})
    DECIDED_EXTRAS = frozenset()

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        self.epsilon = 1.0

    def take_action(self, state: NDArray[Any], lane: int = 0) -> Any:
        if self.action_box is not None:
            return self.streams.vectors([lane], self.n_actions, is_normal=False)[0]
        ((_, die),) = self.streams.draw([lane])
        return self.drawn_action(die, lane)

    def choose_on(self, device: str) -> None:
        """It has nothing to move there."""

    def choosing_tensors(self) -> list[Tensor]:
        return []

    def evaluate(self, frames: Tensor) -> Tensor:
        return frames  # at which it does not look

    def decide_all(self, evaluated_LA: Tensor, chances_L2: Tensor, epsilon: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return (chances_L2[:, 1] * self.n_actions).long(), {}

    def train_step(self) -> None:
        return None

    def epsilon_decay(self, rate: float) -> None:
        """Always random."""
