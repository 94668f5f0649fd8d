"""Who waits for whom. One loop for every run; `lag` says how many rounds may be unfinished when a pass begins.

    lockstep    lag 1    play 0 │ train 0 │ play 1 │ train 1 │ play 2 …         bit-identical to the sequential run
    pipelined   lag 2    play 0 │ play 1  │ play 2  │ play 3  …                 pass k plays with the weights of round k-2
                                │ train 0 │ train 1 │ train 2 …
    free        lag 1    learners that do not wait finish a round at once, with the newest weights there are

Round k trains on everything up to pass k. What a pass played and what its round learned are recorded together, when the
round is finished.
"""

import math
import operator
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from abreast.errors import StateError, short
from abreast.processes.spans import span
from abreast.training.actors.base import Actors, Play, models_of
from abreast.training.config import ScheduleName
from abreast.training.learners.base import Learners
from abreast.training.opponents import Opponents
from abreast.training.run.metrics import figures_of
from abreast.training.run.record import RunRecord
from abreast.training.runnable import Runnable
from abreast.worlds.playable import Played

LAGS: dict[ScheduleName, int] = {"lockstep": 1, "pipelined": 2, "free": 1}


@dataclass
class Pass:
    """A pass that was played and whose round is not finished."""

    number: int
    epoch: int
    played: list[Played]
    epsilons: list[float]
    """Of each epoch, in the mean of all agents."""
    updates: int
    """Of each agent in its round."""
    progress: float
    """Share of the run that was used when it began."""
    written: list[list[int]]
    """Rows its round looks at, per agent and lane."""
    collect_s: float
    opponents: list[tuple[int, str]]
    """Which agents were opponents from a pool, and which member of it each was."""


class Loop:
    """Plays passes, trains a round after each, and keeps the record."""

    def __init__(
        self,
        experiment: Runnable,
        actors: Actors,
        learners: Learners,
        lag: int,
        record: RunRecord,
        between_passes: "Callable[[Loop, bool], None]" = lambda loop, is_over: None,
        before_pass: "Callable[[Loop], None]" = lambda loop: None,
        opponents: Opponents | None = None,
    ) -> None:
        """`between_passes` may write a checkpoint (it is told whether all epochs are played) or end the run;
        `before_pass` may call `go_on_with`.
        """
        self._experiment, self.actors, self.learners = experiment, actors, learners
        self._lag, self._record = lag, record
        self._between_passes, self._before_pass = between_passes, before_pass
        self.opponents = opponents
        self._models = models_of(experiment.game)
        self.passes = learners.rounds
        """The number of the next: that of its round."""
        self.unfinished: deque[Pass] = deque()
        self._steps = record.steps
        """Steps of the environment that were played, in all lanes."""
        self._most_steps = experiment.config.experiment.max_steps or math.inf

    @property
    def progress(self) -> float:
        """Share of the run that is used."""
        return self._progress_at(self._experiment.epochs_played, self._steps)

    def _progress_at(self, epochs: int, steps: int) -> float:
        """Share of the run that is used after so many epochs and steps: of either, whichever is more."""
        by_epochs = (epochs - self._record.first_epoch) / self._experiment.config.experiment.epochs
        return min(max(by_epochs, steps / self._most_steps), 1.0)

    def epochs_left(self) -> int:
        """Return how many epochs are left, as far as is known; an estimate, where steps are counted."""
        played, progress = self._experiment.epochs_played - self._record.first_epoch, self.progress
        return math.ceil(
            (1.0 - progress) * (played / progress if progress else self._experiment.config.experiment.epochs)
        )

    def run(self, until: int) -> None:
        """Play until so many epochs or all steps are played, and finish all rounds."""
        while True:
            self._finish_rounds(self._lag - 1)
            is_over = self._experiment.epochs_played >= until or self._steps >= self._most_steps
            self._now("a checkpoint is written, or the next pass prepared")
            self._between_passes(self, is_over)  # before the last rounds are finished, so that more epochs can follow
            if is_over:
                break
            self._before_pass(self)
            self.play_pass(until)
        self._finish_rounds(0)
        self._record.warn_of_idle(self.learners.given_up)

    def go_on_with(self, actors: Actors, learners: Learners) -> None:
        """Play and learn elsewhere from now on, between two passes: rounds that are not finished are ordered there."""
        self.actors, self.learners = actors, learners
        for each in self.unfinished:
            learners.submit(each.number, each.updates, each.written, each.progress)

    def play_pass(self, until: int) -> None:
        """Finish the rounds that a pass has to wait for, play it, and order its round."""
        self._finish_rounds(self._lag - 1)
        experiment, settings = self._experiment, self._experiment.config
        epoch = experiment.epochs_played
        lanes = min(settings.multiprocessing.lanes, until - epoch)
        met = [] if self.opponents is None else self.opponents.begin_pass(epoch, self.learners)
        films, started = self._record.films, time.perf_counter()
        camera = None if films is None else films.camera(epoch, is_last=epoch + lanes >= until)
        self._now(f"epoch {epoch} is being played")
        with self._warming_up():
            epsilons, versions = [model.epsilon for model in self._models], self.learners.acting_versions()
            order = Play(self.passes, epoch, lanes, versions, epsilons, settings.experiment.seed)
            played = self.actors.play(order, camera)
        collect_s = time.perf_counter() - started
        if films is not None and camera is not None:
            with span("film"):
                films.keep(camera, played)
        self._record.check_rows(epoch)
        played = [each._replace(metrics=figures_of(each.metrics, experiment.name)) for each in played]
        if self.opponents is not None:
            self.opponents.end_pass(played)
        written = [model.memory.written.tolist() for model in self._models]
        self._order_round(played, self._decay(played), written, collect_s, met)

    @contextmanager
    def _warming_up(self) -> Iterator[None]:
        """Inside, agents that learn and have too few rows for that act at random."""
        epsilons = {
            model: model.epsilon
            for agent, model in enumerate(self._models)
            if model.is_warming_up and agent not in self._experiment.config.experiment.freeze
        }
        try:
            for model in epsilons:
                model.epsilon = 1.0
            yield
        finally:
            for model, epsilon in epsilons.items():
                model.epsilon = epsilon

    def _order_round(
        self,
        played: list[Played],
        epsilons: list[float],
        written: list[list[int]],
        collect_s: float,
        opponents: list[tuple[int, str]],
    ) -> None:
        """A pass was played, the next one of the run: order its round."""
        experiment, epoch, progress = self._experiment, self._experiment.epochs_played, self.progress
        experiment.epochs_played += len(played)
        self._steps += sum(each.turns for each in played)
        interval = experiment.config.experiment.train_interval
        due = experiment.epochs_played // interval - epoch // interval
        self.unfinished.append(Pass(self.passes, epoch, played, epsilons, due, progress, written, collect_s, opponents))
        self.learners.submit(self.passes, due, written, progress)
        self.passes += 1

    def _finish_rounds(self, left: int) -> None:
        """Finish the oldest rounds, until so many are left."""
        while len(self.unfinished) > left:
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        """Wait for the oldest round, and record its pass with it."""
        done = self.unfinished.popleft()
        self._now(f"epoch {done.epoch} is being learned from")
        self._record.check_rows(done.epoch)
        started = time.perf_counter()
        results = self.learners.finish(done.number)
        waited = time.perf_counter() - started
        share = 1 / len(done.played)
        timing = {"collect_s": done.collect_s * share, "train_s": waited * share}
        timing |= {**self.actors.health(), **self.learners.health()}
        for offset, (played, epsilon) in enumerate(zip(done.played, done.epsilons, strict=True)):
            with span("record"):
                met = {} if self.opponents is None else self.opponents.told(done.opponents, played)
                self._record.epoch(done.epoch + offset, played, results, epsilon, timing, met)

    def _now(self, text: str) -> None:
        self._record.now(text, self.actors, self.learners)

    def _decay(self, played: Sequence[Played]) -> list[float]:
        """Let epsilon fall, once an epoch or with the progress of the run; returns what it was in each epoch, in the mean of
        all agents.
        """
        means = []
        configs = [self._experiment.config.complete(model.config) for model in self._models]
        epochs, steps = self._experiment.epochs_played, self._steps
        for each in played:
            exploring = [model.epsilon for model in self._models if model.epsilon]  # PPO has none
            means.append(sum(exploring) / max(len(exploring), 1))
            epochs, steps = epochs + 1, steps + each.turns
            for model, config in zip(self._models, configs, strict=True):
                model.epsilon_decay(config.epsilon_decay or 0.0)
                if config.exploration_fraction is not None and model.epsilon:
                    model.epsilon = config.epsilon_at(self._progress_at(epochs, steps))
        return means

    def go_on_from(self, epochs_played: int, unfinished: Sequence[Any]) -> None:
        """Go on where a run was after so many epochs. Rounds that were not finished are ordered again: `unfinished` has,
        of each, what a checkpoint keeps of a `Pass` (`PassFacts`).
        """
        self._experiment.epochs_played = epochs_played - sum(len(each.played) for each in unfinished)
        there = [model.memory.written.tolist() for model in self._models]
        for each in unfinished:
            pairs: Iterable[tuple[list[int], list[int]]] = zip_longest(each.written, there, fillvalue=[])
            for rows, last in pairs:
                if len(rows) != len(last) or any(map(operator.gt, rows, last)):
                    raise StateError(f"a pass has written {short(each.written)} rows, but there are {short(there)}.")
            played = [Played(*epoch) for epoch in each.played]
            self._order_round(played, each.epsilons, each.written, each.collect_s, each.opponents)
