"""PPO, stacked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from abreast.models.ppo.loss import Rows
from abreast.models.stacked.learning import Beat, LearnerStack, has_same_bits, random_actions
from abreast.models.stacked.recorded import Recorded

if TYPE_CHECKING:
    from abreast.models.ppo.update import PPO


class StackedPolicies(LearnerStack):
    """`PPO.train_step` of several models: together where they have as many new rows, which is the rule."""

    first: "PPO"
    models: Sequence["PPO"]
    STANDS_FOR = (*LearnerStack.STANDS_FOR, "learn")

    def __init__(self, models: Sequence["PPO"]) -> None:
        super().__init__(models)
        self._minibatches: dict[int, _Minibatch] = {}

    @staticmethod
    def random_arguments(first: Any, count: int, rows: int, generator: torch.Generator) -> tuple[Any, ...]:
        states = torch.randn(count, rows, first.input_size, generator=generator)
        actions, legal = random_actions(first, (count, rows), generator)
        before, advantages, returns = torch.randn(3, count, rows, generator=generator)
        no_mask = torch.empty(count, rows, 0, dtype=torch.bool)
        return (Rows(states, no_mask if legal is None else legal, actions, before, advantages, returns),)

    def train(self, updates: int, beat: Beat) -> list[dict[str, float]] | None:
        if not updates or not all(model.is_due for model in self.models):
            return None
        known = [model.rows_learned_from.copy() for model in self.models]
        rows = [model.new_rows() for model in self.models]  # all of them: for further updates there are none
        counts = {0 if each is None else len(each.actions) for each in rows}
        found = [each for each in rows if each is not None and len(each.actions) > 1]
        if len(counts) == 1 and found and self._can_stack(len(found[0].actions)):
            return self._learn(found, beat)
        for model, before_L in zip(self.models, known, strict=True):
            model.rows_learned_from = before_L
        return None

    def _can_stack(self, count: int) -> bool:
        """Whether each learns from so many rows as it would alone: on a CPU, to the bit."""
        batch = self.first.config.batch_size
        return self.device != "cpu" or all(has_same_bits(self.models, rows) for rows in {batch, count % batch} - {0})

    def _learn(self, rows: Sequence[Rows], beat: Beat) -> list[dict[str, float]]:
        """An update of each model from its rows, of which all have as many."""
        config, count = self.first.config, len(rows[0].actions)
        rows_NM = Rows(*(torch.stack(column) for column in zip(*rows, strict=True)))
        steps = config.gradient_steps * -(-count // config.batch_size)
        self._begin(steps)
        for _ in range(config.gradient_steps):
            orders = [
                torch.randperm(count, generator=each.learning_generator, device=self.device) for each in self.models
            ]
            for part_NB in torch.split(torch.stack(orders), config.batch_size, dim=1):
                self._next_step(len(self._steps))
                self._minibatch(part_NB.shape[1], rows_NM).descend(rows_NM, part_NB)
                self.note_figures()
            beat()
        self._count(1, steps)
        return self.read_figures(steps)

    def forget_recorded(self) -> None:
        self._minibatches.clear()

    def _minibatch(self, size: int, rows: Rows) -> "_Minibatch":
        if size not in self._minibatches:
            self._minibatches[size] = _Minibatch(self, size, rows)
        return self._minibatches[size]


class _Minibatch:
    """A gradient step of a stack from as many rows of each model, over fixed tensors."""

    def __init__(self, stack: StackedPolicies, size: int, rows: Rows) -> None:
        self._stack = stack
        self._rows = Rows(*(column.new_empty(column.shape[0], size, *column.shape[2:]) for column in rows))
        self._step = Recorded(
            lambda: stack.gradient_step(stack.loss_of_all(self._rows)),
            stack.device,
            stack.changed,
            "the stacked update",
        )

    def descend(self, rows: Rows, part_NB: Tensor) -> None:
        """From these rows."""
        for into, column in zip(self._rows, rows, strict=True):
            index = part_NB.view(*part_NB.shape, *(1,) * (column.dim() - 2)).expand(-1, -1, *column.shape[2:])
            into.copy_(column.gather(1, index))
        self._stack.check_loss(self._rows)
        self._step()
