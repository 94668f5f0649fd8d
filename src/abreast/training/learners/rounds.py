"""Learners in workers that train in rounds: each looks at the rows that were there when it was ordered."""

from collections.abc import Sequence
from typing import Any

from abreast.processes.spans import span
from abreast.processes.team import Answered, Event
from abreast.training.learners.base import RoundResult
from abreast.training.learners.hosted import HostedLearners
from abreast.training.learners.process import Train, Trained
from abreast.training.published import adopt_published


class RoundLearners(HostedLearners):
    """Identical results for any number of workers, whichever of them die."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._orders: dict[int, Train] = {}
        """Rounds that are not finished, by number."""
        self._answers: dict[int, dict[int, RoundResult]] = {}
        self._idle_s = [0.0] * len(self._models)

    def acting_versions(self) -> list[int | None]:
        newest = self.given_up.keys() | self._frozen
        return [None if agent in newest else self.rounds for agent in range(len(self._models))]

    def submit(self, number: int, updates: int, written: Sequence[list[int]], progress: float) -> None:
        self._orders[number], self._answers[number] = Train(updates, written, progress, self.acting_states()), {}
        for worker, agents in enumerate(self._agents_of):
            if agents:
                self.team.submit(worker, number, self._orders[number])

    def finish(self, number: int) -> list[RoundResult]:
        answers = self._answers[number]
        with span("wait for learners"):
            while any(agent not in answers for agents in self._agents_of for agent in agents):
                self.team.wait()
                for event in self.team.events():
                    self._handle(event)
                self._check_any_left()
        del self._orders[number], self._answers[number]
        for worker in range(len(self._agents_of)):
            self.team.forget(worker, number)
        for agent, result in answers.items():
            self._results[agent] = result
            if agent not in self.given_up:
                self._lags[agent] = self.published[agent].version - number - 1
                adopt_published(self._models[agent], self.published[agent], number + 1)
        for agent in self.given_up.keys() - answers.keys():
            self._results[agent] = self._untrained(agent)
        self.rounds = number + 1
        return list(self._results)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Answered):
            trained: Trained = event.value
            assert isinstance(event.key, int)
            self._answers[event.key][trained.agent] = trained.result
            self._idle_s[trained.agent] = trained.idle_s
            self._deaths[trained.agent] = 0
        elif self._handle_death(event):
            for number in event.keys:
                assert isinstance(number, int)
                if any(agent not in self._answers[number] for agent in self._agents_of[event.worker]):
                    self.team.submit(event.worker, number, self._orders[number])

    def health(self) -> dict[str, Any]:
        return {**super().health(), "learner_idle_s": list(self._idle_s)}
