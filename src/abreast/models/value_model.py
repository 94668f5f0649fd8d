"""What value-based models (DQN, IQN) have in common: epsilon-greedy choice, n-step replay, a slow target network."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from abreast.models.base import ModelConfig
from abreast.models.lane_streams import together
from abreast.models.network_model import NetworkModel
from abreast.replay import Batch


class ValueConfig(ModelConfig):
    """Settings of value-based models."""

    n_step: int = Field(1, ge=1)
    """Rewards summed before the value of the state reached is asked for."""
    target_rate: float = Field(0.001, ge=0, le=1)
    """Share of the online weights blended into the target at each gradient step (Polyak averaging)."""
    target_interval: int = Field(200, ge=1)
    """Gradient steps between hard copies of the online weights into the target."""


class Tensors(NamedTuple):
    """A batch for the network."""

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    discounts: Tensor
    weights: Tensor
    """1/count where valid and 0 elsewhere, so that a weighted sum is a mean."""


class ValueModel(NetworkModel):
    """Does what it prefers, or something random with chance epsilon; learns `loss` from sampled batches."""

    config: ValueConfig
    KNOWN = NetworkModel.KNOWN | {"target", "target_block"}

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        super().setup(learning, more)
        self.target, self.target_block = self._flat_network(learns=False, device=self.device)
        self.target_block.values.copy_(self.online_block.values.data)

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """The loss of a batch, to be descended."""

    def memory_options(self) -> dict[str, Any]:
        return {"n_step": self.config.n_step}

    def choose(self, frames: Tensor, lanes: Sequence[int]) -> list[int]:
        actions = self._random_choices(lanes)
        greedy = [row for row, action in enumerate(actions) if action is None]  # others need no network
        with torch.inference_mode():
            for rows in together(greedy, lanes):
                evaluated = self.evaluate(frames if len(rows) == len(frames) else frames[rows])
                for row, best in zip(rows, evaluated.argmax(dim=1).tolist(), strict=True):
                    actions[row] = best
        return actions  # type: ignore[return-value]

    def decide(self, evaluated: Tensor, lanes: Sequence[int]) -> list[int]:
        best: list[int] = evaluated.argmax(dim=1).tolist()
        chosen = zip(self._random_choices(lanes), best, strict=True)
        return [action if random is None else random for random, action in chosen]

    def _random_choices(self, lanes: Sequence[int]) -> list[int | None]:
        """A random action, with chance epsilon, for each lane; None where the best one is to be taken."""
        epsilon, count = self.epsilon, self.n_actions
        return [int(die * count) if chance < epsilon else None for chance, die in self.streams.draw(lanes)]

    def train_step(self) -> float | None:
        if len(self.memory) < self.config.batch_size:
            return None
        total = 0.0
        for _ in range(self.config.gradient_steps):
            loss = self.loss(self.memory.sample(self.config.batch_size))
            self.descend(loss)
            self._follow()
            total += loss.item()
        self.updates += 1
        return total / self.config.gradient_steps

    def _follow(self) -> None:
        """The target goes after the online weights: a little every step, all the way every `target_interval`."""
        online, target = self.online_block.values.data, self.target_block.values
        if self.optimiser.steps % self.config.target_interval == 0:
            target.copy_(online)
        else:
            target.lerp_(online, self.config.target_rate)

    def blocks(self) -> dict[str, Tensor]:
        return {**super().blocks(), "target": self.target_block.values}

    def tensors_of(self, batch: Batch) -> "Tensors":
        """A batch as tensors."""
        valid = self._there(batch.valid).to(torch.float32)
        return Tensors(
            states=self.as_input(batch.states),
            actions=self._there(batch.actions),
            rewards=self._there(batch.rewards),
            next_states=self.as_input(batch.next_states),
            discounts=self._there(batch.discounts),
            weights=valid / valid.sum().clamp(min=1.0),
        )

    def _there(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)
