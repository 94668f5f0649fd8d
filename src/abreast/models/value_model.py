"""What value-based models (DQN, IQN) have in common: epsilon-greedy choice, n-step replay, a slow target network. SAC learns
with the same replay and target, and chooses in its own way.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pydantic
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from abreast.errors import short
from abreast.models.base import shipped
from abreast.models.draws import Draw, Draws
from abreast.models.figures import Figures, mean_of_steps
from abreast.models.masks import among_legal
from abreast.models.network_model import NetworkConfig, NetworkModel, rows_of
from abreast.models.stacked.values import StackedValues
from abreast.models.tensors import Tensors
from abreast.replay import Batch

ON_DEVICES = frozenset(map(np.dtype, ("u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8")))
"""Element types that torch computes with on any device."""


class ValueConfig(NetworkConfig):
    """Settings of value-based models."""

    n_step: int = Field(1, ge=1)
    """Rewards summed before the value of the state reached is asked for."""
    target_rate: float = Field(0.001, ge=0, le=1)
    """Share of the online weights blended into the target at each gradient step (Polyak averaging)."""
    target_interval: int | None = Field(200, ge=1)
    """Gradient steps between hard copies of the online weights into the target; null: none."""
    adaptive_batch: tuple[int, int] | None = None
    """Least and most rows per gradient step, say [32, 256], instead of batch_size: within these, as many as have been
    written for each gradient step since the updates before had their share; null: always batch_size."""

    @pydantic.field_validator("adaptive_batch", mode="before")
    @classmethod
    def _pair(cls, given: object) -> object:
        if given is None:
            return None
        if not isinstance(given, list | tuple) or [type(each) for each in given] != [int, int]:
            raise ValueError(f"expected the least and the most rows of a batch, say [32, 256], not {short(given)}.")
        return tuple(given)

    @pydantic.model_validator(mode="after")
    def _adapts(self) -> Self:
        least, most = self.adaptive_batch or (1, 1)
        if not 1 <= least <= most <= self.buffer_capacity:
            raise ValueError(
                f"adaptive_batch is {[least, most]}: expected two numbers of rows from 1 to buffer_capacity"
                f" {self.buffer_capacity}, the least first."
            )
        return self


@shipped
class ValueModel(NetworkModel):
    """Does what it prefers, or something random with chance epsilon; learns `loss` from sampled batches."""

    config: ValueConfig
    STACK = StackedValues
    KNOWN = NetworkModel.KNOWN | {"target", "target_block", "_draws", "steps_drawn"}

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        super().setup(learning, more)
        self.target, self.target_block = self._flat_network(learns=False, device=self.device)
        self.target_block.values.copy_(self.online_block.values.data)
        self._draws: Draws | None = None
        self.steps_drawn = 0
        """Gradient steps whose random numbers were drawn."""

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor | Figures:
        """The loss of a batch, to be descended; or figures, the loss among them (models/figures.py)."""

    @abstractmethod
    def loss_of(self, online: Any, target: Any, batch: Tensors, drawn: Mapping[str, Tensor]) -> Tensor | Figures:
        """The same, given everything it depends on; of several agents' networks and batches, stacked (models/stacked/), a
        number for each: sums and means are over the last dimension.
        """

    def draws(self, rows: int) -> dict[str, Draw]:
        """What a gradient step with so many rows draws from `learning_generator`, in this order; usually nothing."""
        return {}

    def drawn(self, rows: int) -> dict[str, Tensor]:
        """That of the next gradient step."""
        draws = self.draws(rows)
        if self._draws is None or self._draws.draws != draws:
            self._draws = Draws(draws, 1, self.device)
        return {name: numbers[0].clone() for name, numbers in self._draws.take([self]).items()}

    def memory_options(self) -> dict[str, Any]:
        return {**super().memory_options(), "n_step": self.config.n_step}

    def choose(self, frames: Tensor, lanes: Sequence[int]) -> list[int]:
        if self.lane_memory is not None:  # sees every frame, also where the action is random
            return super().choose(frames, lanes)
        actions = self._random_choices(lanes)
        greedy = [row for row, action in enumerate(actions) if action is None]  # others need no network
        with torch.inference_mode():
            for rows in self.streams.together(greedy, lanes):
                evaluated = self.evaluated(rows_of(frames, rows))
                best_of_rows = among_legal(evaluated, self.legal_now([lanes[row] for row in rows])).argmax(dim=1)
                for row, best in zip(rows, best_of_rows.tolist(), strict=True):
                    actions[row] = best
        return actions  # type: ignore[return-value]

    def decide(self, evaluated: Tensor, lanes: Sequence[int]) -> list[int]:
        best: list[int] = among_legal(evaluated, self.legal_now(lanes)).argmax(dim=1).tolist()
        chosen = zip(self._random_choices(lanes), best, strict=True)
        return [action if random is None else random for random, action in chosen]

    def decide_all(self, evaluated_LA: Tensor, chances_L2: Tensor, epsilon: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        chance_L, die_L = chances_L2.unbind(1)
        random_L = (die_L * self.n_actions).long()
        return torch.where(chance_L < epsilon, random_L, evaluated_LA.argmax(dim=1)), {}

    def _random_choices(self, lanes: Sequence[int]) -> list[int | None]:
        """A random action, with chance epsilon, for each lane; None where the best one is to be taken."""
        drawn = zip(lanes, self.streams.draw(lanes), strict=True)
        return [self.drawn_action(die, lane) if chance < self.epsilon else None for lane, (chance, die) in drawn]

    @property
    def can_learn(self) -> bool:
        least, _ = self.config.adaptive_batch or (self.config.batch_size, 0)
        return len(self.memory) >= least

    def rows_per_batch(self) -> int:
        """Of the next update: as set, or such that its batches together have as many rows as wait (`adaptive_batch`)."""
        if self.config.adaptive_batch is None:
            return self.config.batch_size
        least, most = self.config.adaptive_batch
        _, waiting_L = self._backlog()
        eights = -(-int(waiting_L.sum()) // (8 * self.config.gradient_steps))
        return min(max(least, 8 * eights), most)

    def _backlog(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Per lane, the first row that waits, and how many do: those written that no update was counted for, as far as
        they are still there.
        """
        written_L = self.memory.written  # one look: in the schedule free it grows
        first_L = np.clip(self.rows_learned_from, written_L - self.memory.rows_per_lane, written_L)
        return first_L, written_L - first_L

    def _count_rows(self, rows: int) -> None:
        """An update has drawn so many: as many of those that wait do not wait any more."""
        if self.config.adaptive_batch is not None:
            first_L, waiting_L = self._backlog()
            others_L = np.cumsum(waiting_L) - waiting_L  # in the lanes before
            self.rows_learned_from = first_L + np.clip(rows - others_L, 0, waiting_L)

    def train_step(self) -> dict[str, float] | None:
        if not self.can_learn:
            return None
        steps, rows = [], self.rows_per_batch()
        for _ in range(self.config.gradient_steps):
            steps.append(self.gradient_step(self.loss(self.memory.sample(rows))))
            self._follow()
        self.updates += 1
        self._count_rows(rows * self.config.gradient_steps)
        return mean_of_steps(steps, type(self), self.device)

    def _follow(self) -> None:
        """The target goes after the online weights: a little every step, all the way every `target_interval`."""
        online, target = self.online_block.values.data, self.target_block.values
        interval = self.config.target_interval
        if interval is not None and self.optimiser.steps % interval == 0:
            target.copy_(online)
        else:
            target.lerp_(online, self.config.target_rate)

    def counters(self) -> dict[str, Any]:
        return {**super().counters(), "steps_drawn": self.steps_drawn}

    def set_counters(self, counters: dict[str, Any]) -> None:
        super().set_counters(counters)
        self.steps_drawn = int(counters["steps_drawn"])

    def blocks(self) -> dict[str, Tensor]:
        return {**super().blocks(), "target": self.target_block.values}

    def move_learned_to(self, blocks: Mapping[str, Tensor], gradients: Tensor) -> None:
        super().move_learned_to(blocks, gradients)
        self.target_block.move_to(blocks["target"])

    def why_not_stacked(self) -> str | None:
        reason = super().why_not_stacked()
        if reason is None and self.config.adaptive_batch is not None:
            return "its batches have a size of their own (adaptive_batch)"
        if reason is None and np.dtype(self.observation.dtype) not in ON_DEVICES:
            return f"its observation is made of {np.dtype(self.observation.dtype)}"
        return reason

    def tensors_of(self, batch: Batch) -> Tensors:
        """A batch as tensors."""
        valid = self._there(batch.valid).to(torch.float32)
        return Tensors(
            states=self.as_input(batch.states, batch.extras),
            actions=self._there(batch.actions),
            rewards=self._there(batch.rewards),
            next_states=self.as_input(batch.next_states, batch.next_extras),
            discounts=self._there(batch.discounts),
            weights=valid / valid.sum().clamp(min=1.0),
            legal_next=None if self._masks_LA is None else self._there(batch.next_extras["mask"]),
        )
