"""Who waits for whom. One loop for every run; `lag` says how far learning may be behind playing.

    lockstep    lag 1    play 0 │ train 0 │ play 1 │ train 1 │ play 2 …         bit-identical to the sequential run
    pipelined   lag 2    play 0 │ play 1  │ play 2  │ play 3  …                 pass k plays with the weights of round k-2
                                │ train 0 │ train 1 │ train 2 …
    free        lag 0    nobody waits; each pass plays with the newest weights there are

Round k trains on everything up to pass k. What a pass played and what its round learned are recorded together, when the
round is finished.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from abreast.models import BaseModel
from abreast.training.actor import Played
from abreast.training.health import symptoms
from abreast.training.learner import Round, train_round

if TYPE_CHECKING:
    from abreast.training.environment import Environment
    from abreast.training.record import RunRecord

ScheduleName = Literal["lockstep", "pipelined", "free"]
LAGS: dict[ScheduleName, int] = {"lockstep": 1, "pipelined": 2, "free": 0}


class Learners(Protocol):
    """Those who train, wherever they live."""

    def submit(self, number: int, updates: int) -> None:
        """Begin round `number`: so many updates of each agent, from everything remembered so far."""

    def finish(self, number: int) -> list[Round]:
        """Wait for a round; from then on the models choose with what it learned."""

    def health(self) -> dict[str, Any]:
        """How they are, for the record."""


class InlineLearners:
    """Trains in this very thread, with the agents' own models: the sequential run, and the debug mode of any other."""

    def __init__(self, models: Sequence[BaseModel]) -> None:
        self._models = models
        self._orders: dict[int, tuple[int, list[list[int]]]] = {}

    def submit(self, number: int, updates: int) -> None:
        self._orders[number] = (updates, [model.memory.written.tolist() for model in self._models])

    def finish(self, number: int) -> list[Round]:
        updates, written = self._orders.pop(number)
        results = []
        for model, rows in zip(self._models, written, strict=True):
            model.memory.fix_window(rows)
            loss = train_round(model, updates)
            results.append(Round(loss, model.updates, symptoms(model, loss)))
            model.memory.fix_window(None)
        return results

    def health(self) -> dict[str, Any]:
        return {}


@dataclass
class _Pass:
    number: int
    epoch: int
    played: list[Played]
    epsilons: list[float]
    collect_s: float


class Actors(Protocol):
    """Those who play, wherever they live."""

    def play(self, epoch: int, count: int, rounds: int, before_turn: Callable[[], None] | None) -> list[Played]:
        """Play `count` epochs from number `epoch` on, each in a lane of its own, with what `rounds` rounds have learned.

        `before_turn` is called before each turn of the first lane and at its end.
        """

    def health(self) -> dict[str, Any]:
        """How they are, for the record."""


def play_and_learn(env: "Environment", actors: Actors, learners: Learners, lag: int, record: "RunRecord") -> None:
    """The experiment: play passes, train a round after each, at most `lag` rounds behind, and keep the record."""
    experiment = env.config.experiment
    unfinished: deque[_Pass] = deque()
    rounds = 0

    def finish_oldest() -> None:
        nonlocal rounds
        done = unfinished.popleft()
        started = time.perf_counter()
        results = learners.finish(done.number)
        rounds += 1
        waited = time.perf_counter() - started
        for offset, (played, epsilon) in enumerate(zip(done.played, done.epsilons, strict=True)):
            share = 1 / len(done.played)
            seconds = {"collect_s": done.collect_s * share, "train_s": waited * share}
            health = {**actors.health(), **learners.health()}
            record.epoch(done.epoch + offset, played, results, epsilon, {**seconds, **health})

    last = env.epochs_played + experiment.epochs
    number = 0
    while env.epochs_played < last:
        while lag and len(unfinished) >= lag:
            finish_oldest()
        epoch, count = env.epochs_played, min(env.config.multiprocessing.lanes, last - env.epochs_played)
        started = time.perf_counter()
        played = actors.play(epoch, count, rounds, record.camera(epoch))
        collected = time.perf_counter() - started
        env.epochs_played += count
        due = env.epochs_played // experiment.train_interval - epoch // experiment.train_interval
        unfinished.append(_Pass(number, epoch, played, _decay(env, count), collected))
        learners.submit(number, due)
        if not lag:
            finish_oldest()
        number += 1
    while unfinished:
        finish_oldest()


def _decay(env: "Environment", epochs: int) -> list[float]:
    """Let epsilon fall once an epoch; returns what it was in each, in the mean of all agents."""
    models = [agent.model for agent in env.agents]
    epsilons = []
    for _ in range(epochs):
        epsilons.append(sum(model.epsilon for model in models) / len(models))
        for model in models:
            model.epsilon_decay(env.config.model.epsilon_decay)
    return epsilons
