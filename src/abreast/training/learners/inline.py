"""Learners in this very thread, with the agents' own models: the sequential run, and the debug mode of any other."""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, NamedTuple

from abreast.errors import WorkerError
from abreast.models import BaseModel
from abreast.state import State, copied
from abreast.training.debug import Checks
from abreast.training.learners.base import MakeTrainer, RoundResult, Trainer, tell_who_learns_alone


class Order(NamedTuple):
    """A round that is not finished."""

    updates: int
    written: Sequence[list[int]]
    progress: float
    acting: Mapping[int, State]
    """Of users' models: where choosing was. A pass that is played before the round is finished may change it."""


class InlineLearners:
    """Trains when a round is waited for. `slack`: rows that may be written between the order and then.

    `rounds`: how many the models have behind them, in a run that goes on. `frozen`: agents that do not learn. `checks`: of
    debug mode.
    """

    team = None
    given_up: Mapping[int, WorkerError] = MappingProxyType({})

    def __init__(
        self,
        models: Sequence[BaseModel],
        seed: int,
        slack: int = 0,
        rounds: int = 0,
        frozen: Collection[int] = (),
        checks: Checks | None = None,
        trainer: MakeTrainer = Trainer,
    ) -> None:
        self.rounds, self._checks = rounds, checks
        self.rounds_learned = 0
        """Rounds in which something was learned."""
        self.round_s: dict[int, float] = {}
        """Seconds of each agent's part of the last of them."""
        self._models = dict(enumerate(models))
        self._learning = {agent: model for agent, model in self._models.items() if agent not in frozen}
        self._trainer = trainer(self._learning, seed)
        tell_who_learns_alone(models)
        self._orders: dict[int, Order] = {}
        self.own_rings = [model.memory.move_rows(model.memory.make_ring(slack)) for model in models] if slack else []
        """Where the rows were before, if they were moved."""

    def submit(self, number: int, updates: int, written: Sequence[list[int]], progress: float) -> None:
        self._orders[number] = Order(updates, written, progress, self._acting_states())

    def _acting_states(self) -> dict[int, State]:
        return {
            agent: copied(model.acting_state())
            for agent, model in self._learning.items()
            if model.acting and model.own_attributes.is_guarded
        }

    def finish(self, number: int) -> list[RoundResult]:
        order = self._orders.pop(number)
        now = self._acting_states()
        with ExitStack() as contexts:
            for agent, model in self._learning.items():
                contexts.enter_context(model.memory.window(order.written[agent]))
                if agent in now:
                    model.set_acting_state(order.acting[agent])
                    contexts.callback(model.set_acting_state, now[agent])
            results = {
                agent: each for group in self._trainer.groups for agent, each in self._train(group, order).items()
            }
        for model in self._learning.values():
            model.own_attributes.refuse_fault({"fault": model.own_attributes.fault})
        self.rounds_learned += any(result.figures for result in results.values())
        self.rounds = number + 1
        return [results.get(agent) or RoundResult({}, model.updates) for agent, model in self._models.items()]

    def _train(self, group: Sequence[int], order: Order) -> dict[int, RoundResult]:
        clock = time.thread_time if self._models[group[0]].device == "cpu" else time.perf_counter
        started = clock()
        beat = (lambda agent: None) if self._checks is None else self._checks.of_round(group)
        results = self._trainer.train(group, order.updates, beat, order.progress)
        if self._checks is not None:
            self._checks.check_losses({agent: result.figures for agent, result in results.items()})
        if any(result.figures for result in results.values()):
            self.round_s |= dict.fromkeys(group, (clock() - started) / len(group))
        return results

    def acting_versions(self) -> list[int | None]:
        return [None] * len(self._models)

    def learning_states(self) -> list[State]:
        return [model.learning_state() for model in self._models.values()]

    def renew(self, agent: int) -> None:
        """There are no actors elsewhere."""

    def health(self) -> dict[str, Any]:
        return {}

    def pause(self, is_paused: bool) -> None:
        """Rounds are trained when they are finished, and no other time."""

    def close(self) -> None:
        for model, ring in zip(self._models.values(), self.own_rings, strict=False):
            model.memory.move_rows(ring)
        self.own_rings = []
