"""The checkpoints of a run: when one is due, what is in it, which ones are kept.

    checkpoints/epoch_000500/   agent_0 … replay_0 … actor_0     all that a run is, between two passes
    checkpoints/final/          agent_0 …                        the agents when the run had ended

A checkpoint is taken between two passes, when the rounds are finished that the next pass has to wait for. In a pipelined run
one round is under way then: the checkpoint has what its learners knew before it, and its order. Nobody is waited for.
"""

import shlex
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from abreast.control import LOOK_S, Requests
from abreast.errors import CheckpointError, StoppedError, log
from abreast.headline import SUM
from abreast.models import BaseModel
from abreast.processes.spans import here, span
from abreast.state import State
from abreast.training.actors.base import actor_state, models_of
from abreast.training.checkpoints.folder import remove_old, write_checkpoint
from abreast.training.checkpoints.manifest import PassFacts
from abreast.training.loop import Loop
from abreast.training.run.record import RunRecord
from abreast.training.run.stopping import Stopping
from abreast.training.runnable import Runnable


class Checkpoints:
    """Writes them, if the run writes anything; and lets signals and requests end the run where a checkpoint can be taken."""

    def __init__(self, experiment: Runnable, record: RunRecord) -> None:
        self._experiment, self._record, self._models = experiment, record, models_of(experiment.game)
        self._folder: Path | None = None
        """Where they are written, if they are."""
        self._settings = experiment.config.experiment
        self._stopping = Stopping(record.show_note)
        self._requests: Requests | None = None
        self._until = ExitStack()
        self._configs = self._all_configs()
        self._reason: str | None = None
        """Why the run cannot be resumed, if it cannot."""
        self._is_first = True
        self._at_epoch, self._at_time = 0, time.monotonic()
        """When a checkpoint was last tried."""

    def __enter__(self) -> "Checkpoints":
        if self._record.folder is not None and self._record.writes:
            self._folder = self._record.folder / "checkpoints"
            for model in self._models:
                if not model.is_ours:
                    model.learning_state()  # what cannot be kept of it is known from then on
            self._note_reason(actor_state(self._experiment.game))
            self._until.enter_context(self._stopping)
            self._requests = self._until.enter_context(Requests(self._record.folder))
        return self

    def _note_reason(self, actor: State) -> None:
        """Say so, once, if the run cannot be resumed; `actor`: where playing is."""
        if self._reason is None and (reason := self._why_not_resumable(actor)) is not None:
            log.warning("this run cannot be resumed exactly: %s", reason)
            self._reason = reason

    def _why_not_resumable(self, actor: State) -> str | None:
        if (reason := self._experiment.game.why_not_resumable) is not None:
            return reason
        if self._configs != self._all_configs():
            return (
                f"the configuration of {self._experiment.name}, or of a model, has changed since the run began, but a"
                " checkpoint holds the one it was begun with: keep what changes in an attribute."
            )
        for name, fact in actor.facts.items():
            if name.endswith("unkept") and fact:
                return str(next(iter(fact.values())))
        for model in self._models:
            for error in model.own_attributes.unkept.values():
                return error.of(type(model).__name__)
        return None

    def _all_configs(self) -> list[Any]:
        return [self._experiment.config, *(model.config for model in self._models)]

    def between_passes(self, loop: Loop, is_over: bool) -> None:
        """Write a checkpoint if one is due or asked for, wait while the run is paused, and end it if a signal or a request
        asks for that.
        """
        if self._folder is None or self._requests is None:
            return
        if not is_over:
            self._obey(self._requests, loop, self._folder)
        is_asked_to_stop = self._stopping.noted is not None or self._requests.is_stopped
        has_a_past = bool(self._experiment.epochs_played) or self._was_used_before()
        if has_a_past and (is_over or is_asked_to_stop or self._is_due()):
            self._write(loop, self._folder)
        self._is_first = False
        if self._stopping.noted is not None:
            self._stopping.let_through()
        if self._requests.is_stopped:
            raise StoppedError("The run was asked to stop.")

    def _obey(self, requests: Requests, loop: Loop, folder: Path) -> None:
        """Do what is asked for. A run that is paused waits here, until it is to go on or to stop."""
        if requests.look():
            self._write(loop, folder)
        if requests.is_paused:
            loop.learners.pause(True)
            with self._record.paused():
                while requests.is_paused and not requests.is_stopped and self._stopping.noted is None:
                    time.sleep(LOOK_S)
                    if requests.look():
                        self._write(loop, folder)
            loop.learners.pause(False)

    def _is_due(self) -> bool:
        if self._is_first:  # a fresh run that is killed begins again; one whose agents had a past could not
            self._at_epoch = self._experiment.epochs_played
            return self._was_used_before() and self._record.first_epoch == self._experiment.epochs_played
        interval, minutes = self._settings.checkpoint_interval, self._settings.checkpoint_minutes
        played = self._experiment.epochs_played
        by_epochs = interval is not None and played // interval > self._at_epoch // interval
        by_time = minutes is not None and time.monotonic() - self._at_time >= 60 * minutes
        return by_epochs or by_time

    def _was_used_before(self) -> bool:
        """Whether the agents had learned or lived anything before this run."""
        return self._record.first_epoch > 0 or any(
            model.updates or model.memory.written.any() for model in self._models
        )

    # ---- writing

    def _write(self, loop: Loop, folder: Path) -> None:
        """Write a checkpoint now, the films that wait, and the timeline so far."""
        if self._record.films is not None:
            with span("film"):
                self._record.films.draw()
        with span("checkpoint"):
            self._write_checkpoint(loop, folder)
        if here.timeline is not None:
            here.timeline.write()

    def _write_checkpoint(self, loop: Loop, folder: Path) -> None:
        """If that fails, the run goes on, and the checkpoints before are as they were."""
        started, epochs = time.perf_counter(), self._experiment.epochs_played
        name = f"epoch_{epochs:06d}"
        self._at_epoch, self._at_time = epochs, time.monotonic()
        parts, facts = self._gather(loop)
        try:
            size = write_checkpoint(folder / name, "run", facts, parts)
            self._record.kept_epochs = epochs
            remove_old(folder.parent, self._settings.keep_checkpoints)
        except CheckpointError as error:
            log.error("%s The run goes on without it.", error)
            return
        again = shlex.join(["abreast", "train", "--resume", str(folder.parent)])
        self._record.how_to_go_on = f" To go on: {again}" if self._reason is None else ""
        log.info("checkpoint %s: %.1f MB in %.3f s", name, size / 1e6, time.perf_counter() - started)

    def _gather(self, loop: Loop) -> tuple[dict[str, State], dict[str, Any]]:
        """All parts of a run, and what the manifest says of it."""
        parts = {**_agents(self._models, loop.learners.learning_states()), "actor_0": loop.actors.state()}
        self._note_reason(parts["actor_0"])
        parts |= {f"replay_{number}": _rows_of(model) for number, model in enumerate(self._models)}
        parts |= {} if loop.opponents is None else {"opponents": loop.opponents.state()}
        return parts, {
            **self._facts(),
            "rounds": loop.learners.rounds,
            "unfinished": [
                {name: value for name, value in vars(each).items() if name in PassFacts.model_fields}
                for each in loop.unfinished
            ],
            "resumable": self._reason is None,
            "reason": self._reason,
            "reward": self._record.results().get(SUM),
        }

    def _facts(self) -> dict[str, Any]:
        """What every manifest says of the run: what has to be the same when it goes on, and what was counted."""
        return {
            "experiment": self._experiment.name,
            "schedule": self._record.options.schedule,
            "config": self._record.config.decode(),
            "devices": [model.device for model in self._models],
            "epochs": self._experiment.epochs_played,
            "has_sides": bool(self._record.results().keys() - {SUM}),
            **self._record.counts(),
        }

    # ---- the end

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is None:
            return
        was_stopped = self._record.kept_epochs == self._experiment.epochs_played and error is not None
        try:
            if self._record.count and not was_stopped:  # else the newest checkpoint has all there is
                self._write_agents(self._folder / "final", is_complete=error is None)
        except CheckpointError as failure:
            if error is None:
                raise
            log.error("the agents were not kept: %s", failure)
        finally:
            self._until.__exit__(kind, error, trace)

    def _write_agents(self, folder: Path, is_complete: bool) -> None:
        """The agents as they are."""
        parts = _agents(self._models, [model.learning_state() for model in self._models])
        write_checkpoint(folder, "agents", {**self._facts(), "is_complete": is_complete}, parts)
        self._record.kept_epochs = self._experiment.epochs_played


def _agents(models: Sequence[BaseModel], learned: Sequence[State]) -> dict[str, State]:
    """The parts that are agents."""
    return {
        f"agent_{number}": model.file_state(each)
        for number, (model, each) in enumerate(zip(models, learned, strict=True))
    }


def _rows_of(model: BaseModel) -> State:
    """The replay of a model. Its learner, which may be elsewhere, draws from the random stream, and has told where it is."""
    state = model.memory.state()
    return state._replace(facts={name: fact for name, fact in state.facts.items() if name != "sampling"})
