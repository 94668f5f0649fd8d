"""What value-based models (DQN, IQN) have in common: epsilon-greedy choice, n-step replay, a slow target network. SAC learns
with the same replay and target, and chooses in its own way.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pydantic
import torch
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

    gradient_steps: int = Field(8, ge=-1)
    """Gradient steps in one update, or for train_freq new rows; -1: as many as train_freq."""
    train_freq: int | None = Field(None, ge=1)
    """New rows of the agent for which gradient_steps gradient steps are taken, together at the end of an episode; null:
    gradient_steps every experiment.train_interval epochs."""
    learning_starts: int = Field(0, ge=0)
    """Rows of the agent until which it acts at random and does not learn, counted at the end of an episode."""
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
    def _counts(self) -> Self:
        if not self.gradient_steps or (self.gradient_steps < 0 and self.train_freq is None):
            raise ValueError(
                f"gradient_steps is {self.gradient_steps}: expected 1 or more, or, with train_freq, -1 for as many as that."
            )
        if self.train_freq is not None and self.adaptive_batch is not None:
            raise ValueError(
                f"train_freq is {self.train_freq} and adaptive_batch is {list(self.adaptive_batch)}, but with train_freq the"
                " gradient steps follow the rows, so that no batch has to: leave one out."
            )
        for name in ("train_freq", "learning_starts"):
            if (getattr(self, name) or 0) > self.buffer_capacity:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, more rows than buffer_capacity {self.buffer_capacity} holds: raise"
                    f" buffer_capacity, or lower {name}."
                )
        return self

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
    def is_warming_up(self) -> bool:
        return bool(self.memory.written.sum() < self.config.learning_starts)

    @property
    def _has_enough(self) -> bool:
        least, _ = self.config.adaptive_batch or (self.config.batch_size, 0)
        return len(self.memory) >= least and not self.is_warming_up

    @property
    def can_learn(self) -> bool:
        return self._has_enough and bool(self.due()[0])

    def due(self) -> tuple[int, int]:
        """Return the gradient steps of the next update, and the rows that they are due for, if they are (`train_freq`)."""
        steps, freq = self.config.gradient_steps, self.config.train_freq
        if freq is None:
            return steps, 0
        times = int(self.backlog()[1].sum()) // freq
        return times * (freq if steps < 0 else steps), times * freq

    def rows_per_batch(self) -> int:
        """Of the next update: as set, or such that its batches together have as many rows as wait (`adaptive_batch`)."""
        if self.config.adaptive_batch is None:
            return self.config.batch_size
        least, most = self.config.adaptive_batch
        _, waiting_L = self.backlog()
        eights = -(-int(waiting_L.sum()) // (8 * self.config.gradient_steps))
        return min(max(least, 8 * eights), most)

    def count_rows(self, rows: int) -> None:
        """So many of the rows that wait for an update do not wait any more, if they are counted."""
        if self.config.train_freq is not None or self.config.adaptive_batch is not None:
            first_L, waiting_L = self.backlog()
            others_L = np.cumsum(waiting_L) - waiting_L  # in the lanes before
            self.rows_learned_from = first_L + np.clip(rows - others_L, 0, waiting_L)

    def train_step(self) -> dict[str, float] | None:
        due, rows_due = self.due()
        if not self._has_enough:
            self.count_rows(rows_due)  # nothing is due for rows of the warm-up
        if not self._has_enough or not due:
            return None
        steps, rows = [], self.rows_per_batch()
        for _ in range(due):
            steps.append(self.gradient_step(self.loss(self.memory.sample(rows))))
            self._follow()
        self.count_rows(rows_due or rows * due)
        self.updates += 1
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
