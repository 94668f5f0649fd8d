"""A session of a run: from its beginning, or from a checkpoint, until it ends or is stopped."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from abreast.errors import ConfigError
from abreast.state import part_of
from abreast.training.actors.base import Actors
from abreast.training.checkpoints.keeper import Checkpoints
from abreast.training.checkpoints.resume import Resumed, find_resumable, restore_agents, split_run
from abreast.training.config import ScheduleName
from abreast.training.devices import compute_threads
from abreast.training.learners.base import Learners
from abreast.training.loop import LAGS, Loop
from abreast.training.moved import load_agents
from abreast.training.run.record import Logger, RunRecord

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment


class Keeping(NamedTuple):
    """How a session is run, what it shows and what it leaves behind."""

    schedule: ScheduleName
    is_parallel: bool
    animate: bool = True
    logging: bool = True
    logger: Logger | None = None
    output_dir: Path | str | None = None
    resume: Path | str | None = None


class Session(NamedTuple):
    """What is known before actors and learners are there."""

    experiment: "Experiment"
    schedule: ScheduleName
    record: RunRecord
    checkpoints: Checkpoints | None = None
    resumed: Resumed | None = None

    @property
    def rounds(self) -> int:
        """Rounds of training that the run has behind it."""
        return 0 if self.resumed is None else self.resumed.checkpoint.facts.rounds

    @property
    def until(self) -> int:
        """Epochs that are played then, with those of runs before."""
        return self.record.first_epoch + int(self.experiment.config.experiment.epochs)

    def play(self, actors: Actors, learners: Learners, before_pass: Callable[[Loop], None] = lambda loop: None) -> None:
        """Play and learn until all epochs are there. `before_pass` is that of the loop."""
        lag = LAGS[self.schedule]
        loop = Loop(self.experiment, actors, learners, lag, self.record, self.checkpoints, before_pass)
        if self.resumed is not None:
            loop.set_state(part_of(self.resumed.run, "loop"))  # rounds that were under way are ordered again
        loop.run(self.until)


@contextmanager
def session(experiment: "Experiment", keeping: Keeping) -> Iterator[Session]:
    """Find out where the run begins, begin its record, and keep what was learned in the end, whatever happens."""
    schedule, is_parallel, animate, logging, logger, output_dir, resume = keeping
    if resume is not None and (output_dir is not None or not logging):
        raise ConfigError(
            f"resume={str(resume)!r} goes on in the folder of that run, and keeps its record: leave out output_dir, and"
            " logging=False."
        )
    run = None if resume is None else split_run(resume)[0]
    if run is None:
        load_agents(experiment)  # before the run folder is made: one that does not fit is refused
    with RunRecord(experiment, animate, logging, logger, output_dir, run, is_parallel) as record:
        resumed = None if resume is None else find_resumable(resume, experiment, schedule)
        if resumed is not None:
            restore_agents(resumed.checkpoint, experiment)
            resumed.set_aside_damaged()
            record.kept_epochs = resumed.checkpoint.epochs
        elif run is not None:
            load_agents(experiment)
        record.begin(None if resumed is None else part_of(resumed.run, "record"))
        with (
            Checkpoints(experiment, record, schedule) as checkpoints,
            compute_threads(experiment.config.experiment.compute_threads),
        ):
            yield Session(experiment, schedule, record, checkpoints, resumed)
