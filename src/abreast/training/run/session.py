"""A session of a run: from its beginning, or from a checkpoint, until it ends or is stopped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from abreast.errors import ConfigError, log
from abreast.training.actors.base import Actors
from abreast.training.checkpoints.keeper import Checkpoints
from abreast.training.checkpoints.resume import Resumed, find_resumable, restore_agents, split_run
from abreast.training.devices import compute_threads
from abreast.training.learners.base import Learners
from abreast.training.loop import LAGS, Loop
from abreast.training.moved import load_agents
from abreast.training.opponents import Opponents, opponents_of
from abreast.training.run.record import RunOptions, RunRecord
from abreast.training.runnable import Runnable


class Session(NamedTuple):
    """What is known before actors and learners are there."""

    experiment: Runnable
    record: RunRecord
    checkpoints: Checkpoints
    resumed: Resumed | None = None
    opponents: Opponents | None = None

    @property
    def rounds(self) -> int:
        """Rounds of training that the run has behind it."""
        return 0 if self.resumed is None else self.resumed.checkpoint.facts.rounds

    @property
    def until(self) -> int:
        """Epochs that are played then, with those of runs before."""
        return self.record.first_epoch + int(self.experiment.config.experiment.epochs)

    def loop(self, actors: Actors, learners: Learners, before_pass: Callable[[Loop], None] = lambda loop: None) -> Loop:
        """The loop that plays and learns, from where the run goes on. `before_pass` is that of the loop."""
        lag, between_passes = LAGS[self.record.options.schedule], self.checkpoints.between_passes
        loop = Loop(self.experiment, actors, learners, lag, self.record, between_passes, before_pass, self.opponents)
        if self.resumed is not None:
            facts = self.resumed.checkpoint.facts
            loop.go_on_from(facts.epochs, facts.unfinished)
        return loop


def begin_afresh(experiment: Runnable, opponents: Opponents | None, has_loaded: bool = False) -> None:
    """Take what a fresh run has from other runs: single agents, unless they are loaded, and opponents."""
    if not has_loaded:
        load_agents(experiment)
    if opponents is not None:
        opponents.gather()


@contextmanager
def session(experiment: Runnable, options: RunOptions, has_loaded: bool = False) -> Iterator[Session]:
    """Find out where the run begins, begin its record, and keep what was learned in the end, whatever happens.

    `has_loaded`: True if the agents of other runs (`experiment.load_agents`) are loaded already.
    """
    resume = options.resume
    if resume is not None and (options.output_dir is not None or not options.logging):
        raise ConfigError(
            f"resume={str(resume)!r} goes on in the folder of that run, and keeps its record: leave out output_dir, and"
            " logging=False."
        )
    run, opponents = None if resume is None else split_run(resume)[0], opponents_of(experiment)
    if run is None:
        begin_afresh(experiment, opponents, has_loaded)  # before the run folder is made: what does not fit is refused
    with RunRecord(experiment, options, run) as record:
        resumed = None if resume is None else find_resumable(resume, experiment, options.schedule, options.inexact)
        if resumed is not None:
            restore_agents(resumed.checkpoint, experiment)
            resumed.set_aside_damaged()
            record.kept_epochs = resumed.checkpoint.epochs
        elif run is not None:
            begin_afresh(experiment, opponents)
        record.begin(None if resumed is None else resumed.checkpoint.facts)
        if resumed is not None and (reason := resumed.checkpoint.facts.reason) is not None:
            log.warning(
                "resumed inexactly at epoch %d: results differ from those without the stop. %s",
                resumed.checkpoint.epochs,
                reason,
            )
        if opponents is not None:
            known = None if resumed is None else resumed.checkpoint.part("opponents")
            opponents.begin(record.folder if record.writes else None, known)
        with (
            Checkpoints(experiment, record) as checkpoints,
            compute_threads(experiment.config.experiment.compute_threads),
        ):
            yield Session(experiment, record, checkpoints, resumed, opponents)
