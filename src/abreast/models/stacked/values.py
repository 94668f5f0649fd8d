"""DQN, IQN and SAC, stacked."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from abreast.models.draws import Draws
from abreast.models.stacked.learning import Beat, LearnerStack, random_actions, stacked_network
from abreast.models.stacked.recorded import Recorded
from abreast.models.stacked.rows import Batches, DeviceRows
from abreast.models.tensors import Tensors
from abreast.processes.spans import span

if TYPE_CHECKING:
    from abreast.models.value_model import ValueModel

AHEAD = 128
"""Gradient steps whose rows are looked up at once."""


class StackedValues(LearnerStack):
    """`ValueModel.train_step` of several models. `copies_rows`: whether batches are put together on the device, from a copy
    of the rows there; on a CPU the replays themselves are at hand.
    """

    first: "ValueModel"
    models: Sequence["ValueModel"]
    STANDS_FOR = (
        *LearnerStack.STANDS_FOR,
        *("loss", "drawn", "tensors_of", "as_input", "rows_per_batch", "_follow", "due", "count_rows"),
    )

    NETWORKS = ("online", "target")

    def __init__(self, models: Sequence[Any], copies_rows: bool | None = None) -> None:
        super().__init__(models)
        first, count = self.first, len(models)
        self.target = stacked_network(first.make_network(), first.target_block, self.blocks["target"], learns=False)
        self._draws = Draws(first.draws(first.config.batch_size), count, self.device)
        self._copies_rows = self.device != "cpu" if copies_rows is None else copies_rows
        self._rows: DeviceRows | None = None
        self._looked_up: Batches | None = None
        """Of the gradient step, in memory that stays the same."""
        self._sampled: Tensors | None = None
        self._step = Recorded(self._recorded_step, self.device, self.changed, "the stacked update")

    def train(self, updates: int, beat: Beat) -> list[dict[str, float]] | None:
        (per_update, rows), *others = {model.due() for model in self.models}
        if rows:  # they are due at the first of several updates
            updates = min(updates, 1)
        steps = updates * per_update
        if others or not steps or not all(model.can_learn for model in self.models):
            return None
        ahead: Batches | None = None
        self._begin(steps)
        for step in range(steps):
            if self._copies_rows:
                if step % AHEAD == 0:
                    with span("sample"):
                        ahead = self._look_ahead(min(AHEAD, steps - step), is_first=step == 0)
                assert ahead is not None
                self._take(ahead, step % AHEAD)
            else:
                self._sampled = self._sample()
            self._next_step(step)
            self._draws.take(self.models)
            self.check_loss(self._batch(), self._draws.drawn)
            self._step()
            self.note_figures()
            if (step + 1) % per_update == 0:
                beat()
        self._count(updates, steps)
        for model in self.models:
            model.count_rows(rows)
        return self.read_figures(per_update)

    @staticmethod
    def random_arguments(first: Any, count: int, rows: int, generator: torch.Generator) -> tuple[Any, ...]:
        states, next_states = torch.randn(2, count, rows, first.input_size, generator=generator)
        rewards, discounts, weights = torch.rand(3, count, rows, generator=generator)
        actions, legal = random_actions(first, (count, rows), generator)
        drawn = {name: torch.empty(count, *draw.shape) for name, draw in first.draws(rows).items()}
        for name, draw in first.draws(rows).items():
            draw.fill(drawn[name], generator)
        return Tensors(states, actions, rewards, next_states, discounts, weights / rows, legal), drawn

    def _recorded_step(self) -> None:
        """Over memory that stays the same."""
        self.gradient_step(self.loss_of_all(self._batch(), self._draws.drawn))
        self.blocks["target"].lerp_(self.blocks["online"], self._of_step[1][:, None])

    def forget_recorded(self) -> None:
        self._step.forget()

    def target_shares(self, counts_SN: NDArray[np.int64]) -> NDArray[np.float64]:
        config = self.first.config
        is_copied = counts_SN % (config.target_interval or np.iinfo(np.int64).max) == 0
        return np.where(is_copied, 1.0, config.target_rate)

    # ---- batches

    def _sample(self) -> Tensors:
        """A batch of each model, from its own replay."""
        batches = [model.tensors_of(model.memory.sample(model.config.batch_size)) for model in self.models]
        legal = [batch.legal_next for batch in batches if batch.legal_next is not None]
        columns = [torch.stack(column) for column in zip(*(batch[:-1] for batch in batches), strict=True)]
        return Tensors(*columns, torch.stack(legal) if legal else None)  # type: ignore[call-arg]

    def _look_ahead(self, steps: int, is_first: bool) -> Batches:
        """The next batches: those that `Buffer.sample` would draw, one after the other."""
        if self._rows is None:
            self._rows = DeviceRows([model.memory for model in self.models], self.device)
        if is_first:
            self._written = self._rows.renew()
        shape = steps, self.first.config.batch_size
        picks = [
            model.memory.draw(shape, written_L) for model, written_L in zip(self.models, self._written, strict=True)
        ]
        return self._rows.look_up(torch.from_numpy(np.stack(picks, axis=1)).to(self.device))

    def _take(self, ahead: Batches, step: int) -> None:
        """What was looked up for a step is that of the gradient step."""
        if self._looked_up is None:
            self._looked_up = Batches(*(None if each is None else torch.empty_like(each[0]) for each in ahead))  # type: ignore[arg-type]
        for into, each in zip(self._looked_up, ahead, strict=True):
            if into is not None and each is not None:
                into.copy_(each[step])

    def _batch(self) -> Tensors:
        """Those of the gradient step."""
        if self._sampled is not None:
            return self._sampled
        assert self._rows is not None and self._looked_up is not None
        places, actions, rewards, discounts, weights, legal_next = self._looked_up
        states = self._rows.states_at(places).to(torch.float32)
        if self.first.observation.scale != 1.0:
            states = states * self.first.observation.scale
        now, then = states.unbind(1)
        return Tensors(now, actions, rewards, then, discounts, weights, legal_next)
