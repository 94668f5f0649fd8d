"""Learners in workers that wait for nothing: they train on what is there, and a pass plays with the newest weights."""

import time
from collections.abc import Sequence
from typing import Any

from abreast.processes.spans import span
from abreast.processes.team import Answered
from abreast.training.learners.base import RoundResult
from abreast.training.learners.hosted import HostedLearners
from abreast.training.learners.process import Acting, TrainFreely, results_in
from abreast.training.published import adopt_published

STALE_S = 5.0
"""Seconds after which weights that have not moved are worth a warning."""
ORDER = "train freely"
"""The key of the one order each worker has."""


class FreeLearners(HostedLearners):
    """Results depend on how fast each part is."""

    trains_freely = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._versions = [self.rounds] * len(self._models)
        self._moved = [time.monotonic()] * len(self._models)
        per_step, weight = self._config.max_updates_per_step or 0.0, self._config.weight
        allowed = [per_step * weight(agent) * model.memory.written.sum() for agent, model in enumerate(self._models)]
        ahead = [model.updates - most for model, most in zip(self._models, allowed, strict=True)]
        self._head_start = {agent: float(updates) for agent, updates in enumerate(ahead) if updates > 0}
        self._progress = 0.0
        for worker in range(len(self._agents_of)):
            self._order(worker)

    def _order(self, worker: int, is_paused: bool = False) -> None:
        most, weights = self._config.max_updates_per_step, self._config.priority
        publish, start = self._config.publish_interval, self._head_start
        order = TrainFreely(publish, 0.0 if is_paused else most, start, weights, self._progress)
        self.team.submit(worker, ORDER, order)

    def submit(self, number: int, updates: int, written: Sequence[list[int]], progress: float) -> None:
        """They train without orders, but have to be told of the progress of the run, and users' models what choosing has
        changed.
        """
        self._progress = progress
        acting = self.acting_states()
        for worker, agents in enumerate(self._agents_of):
            told = {agent: acting[agent] for agent in agents if agent in acting}
            models = [self._models[agent] for agent in agents]
            if any(getattr(model.config, "anneal", ()) or not model.is_ours for model in models):
                self._order(worker)
            if told:
                self.team.submit(worker, number, Acting(told))

    def pause(self, is_paused: bool) -> None:
        for worker in range(len(self._agents_of)):
            if worker not in self.team.lost:
                self._order(worker, is_paused)
        self._moved = [time.monotonic()] * len(self._models)

    def finish(self, number: int) -> list[RoundResult]:
        with span("wait for learners"):
            self.team.wait_started()  # or a short run would be over before it has learned anything
        for event in self.team.events():
            if isinstance(event, Answered):
                if event.key == ORDER:
                    self._deaths[event.value] = 0
            elif self._handle_death(event) and ORDER in event.keys:
                self._order(event.worker)
        self._check_any_left()
        for agent, model in enumerate(self._models):
            if agent in self._frozen:
                continue
            version, facts = adopt_published(model, self.published[agent], None)
            self._lags[agent], self._versions[agent] = version - self._versions[agent], version
            newest = [*results_in(facts).values()][-1:] or [RoundResult({}, model.updates)]
            self._results[agent] = self._checked(agent, newest[0])
            if agent in self.given_up:
                self._results[agent] = self._untrained(agent)
        self.rounds = number + 1
        return list(self._results)

    def _checked(self, agent: int, result: RoundResult) -> RoundResult:
        """The result, with a symptom if the weights have not moved for long although there is enough to learn from."""
        now = time.monotonic()
        if self._lags[agent] or agent in self.given_up or not self._models[agent].can_learn:
            self._moved[agent] = now
        if now - self._moved[agent] < STALE_S:
            return result
        stale = f"its weights have stayed at version {self._versions[agent]} for {STALE_S:g} s: is its learner at work?"
        return result._replace(symptoms=[*result.symptoms, stale])
