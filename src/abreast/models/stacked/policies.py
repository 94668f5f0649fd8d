"""PPO, stacked."""

from collections.abc import Sequence

import torch
from torch import Tensor

from abreast.models.ppo.update import PPO, Rows
from abreast.models.stacked.learning import Beat, LearnerStack
from abreast.models.stacked.recorded import Recorded


class StackedPolicies(LearnerStack):
    """`PPO.train_step` of several models: together where they have as many new rows, which is the rule."""

    first: PPO
    models: Sequence[PPO]

    def __init__(self, models: Sequence[PPO], rows: tuple[LearnerStack, int] | None = None) -> None:
        super().__init__(models, rows)
        self._minibatches: dict[int, _Minibatch] = {}

    def train(self, updates: int, beat: Beat) -> list[list[float]]:
        if not updates:
            return [[] for _ in self.models]
        rows = [model.new_rows() for model in self.models]  # all of them: for further updates there are none
        counts = {0 if each is None else len(each.actions) for each in rows}
        if len(counts) > 1:
            losses = [self._part(row).learn([each], beat) for row, each in enumerate(rows)]  # type: ignore[attr-defined]
            return [own for (own,) in losses]
        return self.learn(rows, beat)

    def learn(self, rows: Sequence[Rows | None], beat: Beat) -> list[list[float]]:
        """An update of each model from its rows, of which all have as many."""
        if rows[0] is None or len(rows[0].actions) < 2:
            return [[] for _ in rows]
        self._begin()
        config, count = self.first.config, len(rows[0].actions)
        rows_NM = Rows(*(torch.stack(column) for column in zip(*(each for each in rows if each is not None), strict=True)))
        losses: list[Tensor] = []
        for _ in range(config.gradient_steps):
            orders = [torch.randperm(count, generator=each.learning_generator, device=self.device) for each in self.models]
            for part_NB in torch.stack(orders).split(config.batch_size, dim=1):
                losses.append(self._minibatch(part_NB.shape[1], rows_NM).descend(rows_NM, part_NB))
            beat()
        self._count(1, len(losses))
        return [[sum(each) / len(losses)] for each in torch.stack(losses).t().tolist()]

    def _minibatch(self, size: int, rows: Rows) -> "_Minibatch":
        if size not in self._minibatches:
            self._minibatches[size] = _Minibatch(self, size, rows)
        return self._minibatches[size]


class _Minibatch:
    """A gradient step of a stack from as many rows of each model, over fixed tensors."""

    def __init__(self, stack: StackedPolicies, size: int, rows: Rows) -> None:
        self._stack = stack
        self._rows = Rows(*(column.new_empty(column.shape[0], size, *column.shape[2:]) for column in rows))
        self._loss_N = torch.zeros(len(stack.models), device=stack.device)
        changed = [*stack.changed, self._loss_N]
        self._step = Recorded(self._descend, stack.device, changed, "the stacked update")

    def descend(self, rows: Rows, part_NB: Tensor) -> Tensor:
        """From these rows; returns the loss of each model."""
        for into, column in zip(self._rows, rows, strict=True):
            index = part_NB.view(*part_NB.shape, *(1,) * (column.dim() - 2)).expand(-1, -1, *column.shape[2:])
            into.copy_(column.gather(1, index))
        self._step()
        return self._loss_N.clone()

    def _descend(self) -> None:
        loss_N = self._stack.first.loss_of(self._stack.online, self._rows)
        self._stack.descend(loss_N)
        self._loss_N.copy_(loss_N.detach())
