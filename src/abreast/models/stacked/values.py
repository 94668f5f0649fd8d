"""DQN and IQN, stacked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from abreast.models.stacked.learning import Beat, LearnerStack, stacked_network
from abreast.models.stacked.recorded import Recorded
from abreast.models.stacked.rows import DeviceRows
from abreast.models.value_model import Tensors, ValueModel

AHEAD = 256
"""Gradient steps whose rows are picked at once."""


class StackedValues(LearnerStack):
    """`ValueModel.train_step` of several models. `copies_rows`: whether batches are put together on the device, from a copy of
    the rows there; on a CPU the replays themselves are at hand.
    """

    first: ValueModel

    def __init__(
        self, models: Sequence[Any], rows: tuple[LearnerStack, int] | None = None, copies_rows: bool | None = None
    ) -> None:
        super().__init__(models, rows)
        first, config = self.first, self.first.config
        self.target = stacked_network(first.make_network(), first.target_block, self.blocks["target"], learns=False)
        self._loss_N = torch.zeros(len(models), device=self.device)
        count = len(models)
        self._draws = first.draws(config.batch_size)
        self._drawn = {name: torch.empty(count, *draw.shape, device=self.device) for name, draw in self._draws.items()}
        self._picks_NB = torch.zeros(count, config.batch_size, dtype=torch.int64, device=self.device)
        if isinstance(rows, tuple):
            copies_rows = rows[0]._copies_rows  # type: ignore[attr-defined]
        self._copies_rows = self.device != "cpu" if copies_rows is None else copies_rows
        self._rows: DeviceRows | None = None
        self._tensors: Tensors | None = None
        self._step = Recorded(self._gradient_step, self.device, [*self.changed, self._loss_N], "the stacked update")

    def train(self, updates: int, beat: Beat) -> list[list[float]]:
        can_learn = [model.can_learn for model in self.models]
        if all(can_learn):
            return self._train_all(updates, beat)
        return [self._part(row)._train_all(updates, beat)[0] if can else [] for row, can in enumerate(can_learn)]

    def _train_all(self, updates: int, beat: Beat) -> list[list[float]]:
        self._begin()
        per_update = self.first.config.gradient_steps
        steps = updates * per_update
        losses_SN = torch.empty(steps, len(self.models), device=self.device)
        ahead: Tensor | None = None
        for step in range(steps):
            if self._copies_rows:
                if step % AHEAD == 0:
                    ahead = self._pick_ahead(min(AHEAD, steps - step), is_first=step == 0)
                assert ahead is not None
                self._picks_NB.copy_(ahead[step % AHEAD])
            else:
                self._tensors = self._sampled()
            for row, model in enumerate(self.models):
                for name, draw in self._draws.items():
                    draw.fill(self._drawn[name][row], model.learning_generator)
            self._step()
            losses_SN[step].copy_(self._loss_N)
            if (step + 1) % per_update == 0:
                beat()
        self._tensors = None
        self._count(updates, steps)
        of_model = losses_SN.t().tolist()
        return [
            [sum(losses[start : start + per_update]) / per_update for start in range(0, steps, per_update)]
            for losses in of_model
        ]

    def _gradient_step(self) -> None:
        """Over fixed tensors."""
        batch = self._batch() if self._tensors is None else self._tensors
        loss_N = self.first.loss_of(self.online, self.target, batch, self._drawn)
        self.descend(loss_N)
        self._loss_N.copy_(loss_N.detach())
        config = self.first.config
        is_due_N = self._steps_N % config.target_interval == 0
        share_N = torch.where(is_due_N, 1.0, config.target_rate)
        self.blocks["target"].lerp_(self.blocks["online"], share_N[:, None])

    # ---- batches

    def _sampled(self) -> Tensors:
        """A batch of each model, from its own replay."""
        batches = [model.tensors_of(model.memory.sample(model.config.batch_size)) for model in self.models]  # type: ignore[attr-defined]
        legal = None if batches[0].legal_next is None else torch.stack([batch.legal_next for batch in batches])
        return Tensors(*(torch.stack(column) for column in zip(*(batch[:-1] for batch in batches), strict=True)), legal)

    def _pick_ahead(self, steps: int, is_first: bool) -> Tensor:
        """Numbers of rows for so many batches, (steps, N, B): what `Buffer.sample` would draw for one after the other."""
        if is_first:
            if self._rows is None:
                self._rows = DeviceRows([model.memory for model in self.models], self.device)
            self._totals = self._rows.renew()
        shape = (steps, self.first.config.batch_size)
        picks = [model.memory.rng.integers(total, size=shape) for model, total in zip(self.models, self._totals, strict=True)]
        return torch.from_numpy(np.stack(picks, axis=1)).to(self.device)

    def _batch(self) -> Tensors:
        assert self._rows is not None
        batch = self._rows.batch(self._picks_NB)
        valid_NB = batch.valid.to(torch.float32)
        scale = self.first.observation.scale
        states, next_states = (
            each.to(torch.float32) if scale == 1.0 else each.to(torch.float32) * scale
            for each in (batch.states, batch.next_states)
        )
        weights_NB = valid_NB / valid_NB.sum(dim=1, keepdim=True).clamp(min=1.0)
        return Tensors(
            states, batch.actions, batch.rewards, next_states, batch.discounts, weights_NB, batch.next_masks
        )
