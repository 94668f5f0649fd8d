"""Runs that learn together: each has a thread of its own, one thread works at a time, and rounds meet in one stacked update.

    run 0   play │                         │ record, play │
    run 1        │ play │                  │              │ record, play │ …
    run 2               │ play, train all  │

Ten runs of five agents are fifty rows of one stack, which a GPU updates in about the time of five. All else is as if each
run were alone: its models, streams, folder and checkpoints are its own, and it may end, fail or go on without the others.
A product of more rows may round otherwise on a GPU: there, a run is like itself alone to the bit only where the library that
multiplies treats both shapes alike.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from abreast.files import RUN_OF_THREAD
from abreast.models import BaseModel
from abreast.models.stacked import LearnerStack, make_stack
from abreast.processes.backend import NOWHERE
from abreast.processes.spans import span
from abreast.training.learners.base import MakeTrainer, Trainer

T = TypeVar("T")
Figures = dict[str, float] | None


class Brought(NamedTuple):
    """What a run brings to a round: models that learn in a stack, and how often."""

    models: Sequence[Any]
    updates: int


class Meeting:
    """Where runs meet: it says whose turn it is, and trains what all of them have brought."""

    def __init__(self, runs: int) -> None:
        self._present = list(range(runs))
        self._turn = 0
        """The run that works; the others wait."""
        self._changed = threading.Condition()
        self._brought: dict[int, Brought] = {}
        self._learned: dict[int, list[Figures] | BaseException] = {}
        self._stacks: dict[Any, tuple[list[int], LearnerStack]] = {}
        """By what the models have in common: whose models are in the stack, and the stack."""

    def join(self, run: int) -> None:
        """Wait until it is this run's turn to begin."""
        with self._changed:
            self._changed.wait_for(lambda: self._turn == run)

    def train(self, run: int, models: Sequence[BaseModel], updates: int) -> list[Figures]:
        """Train these models with those of all other runs, when all have come; what each has reported."""
        with self._changed:
            self._brought[run] = Brought(models, updates)
            self._pass_on()
            self._changed.wait_for(lambda: self._turn == run)
            learned = self._learned.pop(run)
        if isinstance(learned, BaseException):
            raise learned
        return learned

    def leave(self, run: int) -> None:
        """This run is over; the others do not wait for it any more."""
        with self._changed:
            self._present.remove(run)
            self._pass_on()

    def _pass_on(self) -> None:
        """Let the next run work; if all have come to a round, train it first."""
        playing = [run for run in self._present if run not in self._brought]
        if not playing and self._brought:
            self._train_all()
        self._turn = next(iter(playing or self._present), -1)
        self._changed.notify_all()

    def _train_all(self) -> None:
        alike: dict[Any, list[int]] = {}
        for run, (models, updates) in self._brought.items():
            alike.setdefault((models[0].learning_key, updates), []).append(run)
        for (key, updates), runs in alike.items():
            try:
                learned: Any = self._train_stack(key, sorted(runs), updates)
            except BaseException as error:  # each of them has to hear of it
                learned = dict.fromkeys(runs, error)
            self._learned |= learned
        self._brought.clear()

    def _train_stack(self, key: Any, runs: list[int], updates: int) -> dict[int, list[Figures]]:
        models = [model for run in runs for model in self._brought[run].models]
        owners = [id(model) for model in models]
        if key not in self._stacks or self._stacks[key][0] != owners:
            self._stacks[key] = owners, make_stack(models)
        with span("update"):
            figures: Sequence[Figures] = self._stacks[key][1].train(updates, lambda: None) or [None] * len(models)
        of_all = iter(figures)
        return {run: [next(of_all) for _ in self._brought[run].models] for run in runs}


class JoinedTrainer(Trainer):
    """Trains the models of one run: those that are stacked with those of the other runs, the others as ever."""

    def __init__(self, meeting: Meeting, run: int, models: Mapping[int, BaseModel], seed: int) -> None:
        super().__init__(models, seed)
        self._meeting, self._run = meeting, run

    def _train_stacked(
        self, group: Sequence[int], updates: int, beat: Callable[[int], None]
    ) -> list[dict[str, float]] | None:
        beat(NOWHERE)
        figures = self._meeting.train(self._run, [self._models[agent] for agent in group], updates)
        beat(NOWHERE)
        found = [each for each in figures if each is not None]
        return found if len(found) == len(figures) else None  # then each model learns alone


def run_joined(runs: Sequence[Callable[[MakeTrainer], T]]) -> list[T | BaseException]:
    """Call each of these in a thread of its own, with what makes the trainer of its experiment (`Experiment.trainer`);
    returns what each has returned or raised."""
    meeting, results = Meeting(len(runs)), list[T | BaseException]([RuntimeError("it has not begun")] * len(runs))

    def work(number: int) -> None:
        RUN_OF_THREAD.set(number)
        meeting.join(number)
        try:
            results[number] = runs[number](lambda models, seed: JoinedTrainer(meeting, number, models, seed))
        except BaseException as error:  # told to the caller, as the result of this run
            results[number] = error
        finally:
            meeting.leave(number)

    threads = [threading.Thread(target=work, args=(number,), name=f"run {number}") for number in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
