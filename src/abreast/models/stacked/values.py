"""DQN and IQN, stacked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from abreast.models.draws import Draws
from abreast.models.stacked.learning import Beat, LearnerStack, stacked_network
from abreast.models.stacked.recorded import Recorded
from abreast.models.stacked.rows import Batches, DeviceRows
from abreast.models.value_model import Tensors, ValueModel

AHEAD = 128
"""Gradient steps whose rows are looked up at once."""


class StackedValues(LearnerStack):
    """`ValueModel.train_step` of several models. `copies_rows`: whether batches are put together on the device, from a copy
    of the rows there; on a CPU the replays themselves are at hand.
    """

    first: ValueModel

    def __init__(self, models: Sequence[Any], copies_rows: bool | None = None) -> None:
        super().__init__(models)
        first, count = self.first, len(models)
        self.target = stacked_network(first.make_network(), first.target_block, self.blocks["target"], learns=False)
        self._loss_N = torch.zeros(count, device=self.device)
        self._draws = Draws(first.draws(first.config.batch_size), count, self.device)
        self._copies_rows = self.device != "cpu" if copies_rows is None else copies_rows
        self._rows: DeviceRows | None = None
        self._looked_up: Batches | None = None
        """Of the gradient step, in memory that stays the same."""
        self._sampled: Tensors | None = None
        self._step = Recorded(self._gradient_step, self.device, [*self.changed, self._loss_N], "the stacked update")

    def train(self, updates: int, beat: Beat) -> list[list[float]]:
        if all(model.can_learn for model in self.models):
            return self._train_all(updates, beat)
        losses: list[list[float]] = []
        for model in self.models:  # for a while, each by itself
            done = [model.train_step() for _ in range(updates)]
            losses.append([loss for loss in done if loss is not None])
            beat()
        return losses

    def _train_all(self, updates: int, beat: Beat) -> list[list[float]]:
        per_update = self.first.config.gradient_steps
        steps = updates * per_update
        losses_SN = torch.empty(steps, len(self.models), device=self.device)
        ahead: Batches | None = None
        self._begin(steps)
        for step in range(steps):
            if self._copies_rows:
                if step % AHEAD == 0:
                    ahead = self._look_ahead(min(AHEAD, steps - step), is_first=step == 0)
                assert ahead is not None
                self._take(ahead, step % AHEAD)
            else:
                self._sampled = self._sample()
            self._next_step(step)
            self._draws.take(self.models)  # type: ignore[arg-type]
            self._step()
            losses_SN[step].copy_(self._loss_N)
            if (step + 1) % per_update == 0:
                beat()
        self._count(updates, steps)
        of_model = losses_SN.t().tolist()
        return [
            [sum(losses[start : start + per_update]) / per_update for start in range(0, steps, per_update)]
            for losses in of_model
        ]

    def _gradient_step(self) -> None:
        """Over memory that stays the same."""
        batch = self._batch() if self._copies_rows else self._sampled
        assert batch is not None
        loss_N = self.first.loss_of(self.online, self.target, batch, self._draws.drawn)
        self.descend(loss_N)
        self._loss_N.copy_(loss_N.detach())
        self.blocks["target"].lerp_(self.blocks["online"], self._of_step[1][:, None])

    def forget_recorded(self) -> None:
        self._step.forget()

    def target_shares(self, counts_SN: NDArray[np.int64]) -> NDArray[np.float64]:
        config = self.first.config
        return np.where(counts_SN % config.target_interval == 0, 1.0, config.target_rate)

    # ---- batches

    def _sample(self) -> Tensors:
        """A batch of each model, from its own replay."""
        batches = [model.tensors_of(model.memory.sample(model.config.batch_size)) for model in self.models]  # type: ignore[attr-defined]
        legal = [batch.legal_next for batch in batches if batch.legal_next is not None]
        columns = [torch.stack(column) for column in zip(*(batch[:-1] for batch in batches), strict=True)]
        return Tensors(*columns, torch.stack(legal) if legal else None)  # type: ignore[call-arg]

    def _look_ahead(self, steps: int, is_first: bool) -> Batches:
        """The next batches: those that `Buffer.sample` would draw, one after the other."""
        if self._rows is None:
            self._rows = DeviceRows([model.memory for model in self.models], self.device)
        if is_first:
            self._totals = self._rows.renew()
        shape, streams = (steps, self.first.config.batch_size), [model.memory.rng for model in self.models]
        picks = [stream.integers(total, size=shape) for stream, total in zip(streams, self._totals, strict=True)]
        return self._rows.look_up(torch.from_numpy(np.stack(picks, axis=1)).to(self.device))

    def _take(self, ahead: Batches, step: int) -> None:
        """What was looked up for a step is that of the gradient step."""
        if self._looked_up is None:
            self._looked_up = Batches(*(None if each is None else torch.empty_like(each[0]) for each in ahead))  # type: ignore[arg-type]
        for into, each in zip(self._looked_up, ahead, strict=True):
            if into is not None and each is not None:
                into.copy_(each[step])

    def _batch(self) -> Tensors:
        assert self._rows is not None and self._looked_up is not None
        places, actions, rewards, discounts, weights, legal_next = self._looked_up
        states = self._rows.states_at(places).to(torch.float32)
        if self.first.observation.scale != 1.0:
            states = states * self.first.observation.scale
        now, then = states.unbind(1)
        return Tensors(now, actions, rewards, then, discounts, weights, legal_next)
