"""The record of a run: what is kept in its folder, and what is shown meanwhile.

<run folder>/  config.yaml   plan.json   metrics.jsonl   timeline.json   curves.png   log.txt   replays/   checkpoints/
"""

import json
import shlex
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple

import yaml

from abreast.display import HasTeam
from abreast.errors import ConfigError, StoppedError, log, users_part
from abreast.files import locked, logged_to, make_run_folder, open_run_folder, write_whole
from abreast.headline import groups_of, results_of
from abreast.models import BaseModel, algorithm, name_of
from abreast.processes.spans import span
from abreast.processes.timeline import Timeline
from abreast.training.actors.base import models_of
from abreast.training.checkpoints.manifest import Facts
from abreast.training.config import Config, ScheduleName
from abreast.training.debug import SAID, Checks
from abreast.training.learners.base import RoundResult
from abreast.training.plan import Plan
from abreast.training.run.curves import draw_curves
from abreast.training.run.display import ProgressDisplay
from abreast.training.run.films import Films
from abreast.training.run.health import FEW_CALLS, should_have_learned
from abreast.training.run.loggers import AnyLoggers, Loggers
from abreast.training.run.metrics import EpochRecord, MetricsFile, finite, last_rewards
from abreast.training.runnable import Runnable
from abreast.worlds.playable import Played

RECENT = 100
"""Epochs over which the reward of a checkpoint is averaged."""


class RunOptions(NamedTuple):
    """How a run is run, what it shows and what it leaves behind (`Experiment.run_experiment`)."""

    schedule: ScheduleName = "lockstep"
    is_parallel: bool = False
    animate: bool = True
    logging: bool = True
    logger: AnyLoggers = None
    output_dir: Path | str | None = None
    resume: Path | str | None = None
    debug: bool = False
    inexact: bool = False


class RunRecord:
    """Keeps the record of one run. As a context it holds the run folder; `begin` begins to write."""

    def __init__(self, experiment: Runnable, options: RunOptions, resume: Path | None = None) -> None:
        """`resume`: the folder of a run that goes on."""
        self.config = config_as_yaml(experiment, options.is_parallel)
        self._experiment, self.options, self._resume = experiment, options, resume
        self._models = models_of(experiment.game)
        self._display: ProgressDisplay | None = None
        self._loggers = Loggers(options.logger)
        self.checks = Checks(self._models) if options.debug else None
        """What looks for faults, in debug mode."""
        self._screen, self._files = ExitStack(), ExitStack()
        self._warned: set[tuple[int, str]] = set()
        self._trained: Sequence[RoundResult] = ()
        self._metrics: MetricsFile | None = None
        self.films: Films | None = None
        """There are none where nothing is written, or films are not wanted."""
        self._kept: list[EpochRecord] = []
        """The epochs, where they are not written to a file: a long run would fill the memory."""
        self.has_begun, self.how_to_go_on = False, ""
        self.kept_epochs: int | None = None
        """Epochs that had been played when the newest whole checkpoint was written, if there is one."""
        self.count = 0
        """Epochs recorded, those from before a resume too."""
        self.first_epoch = experiment.epochs_played
        self.recent: deque[list[float]] = deque(maxlen=RECENT)
        """Rewards of the newest epochs, by agent."""
        self.steps = self._agent_steps = 0
        self._updates_before = sum(model.updates for model in self._models)
        self._seconds, self._elapsed_before = 0.0, 0.0
        self._started = time.perf_counter()
        self._paused_at: float | None = None

    def __enter__(self) -> "RunRecord":
        self._made = None
        if self._resume is not None:
            self._made = open_run_folder(self._resume)
        elif self.options.animate or self.options.logging:
            self._made = make_run_folder(self._experiment.name.removesuffix("Env"), self.options.output_dir)
        if self._made is not None:
            self._files.enter_context(locked(self._made.path))
        return self

    @property
    def folder(self) -> Path | None:
        """The run folder, if there is one."""
        return None if self._made is None else self._made.path

    @property
    def writes(self) -> bool:
        """Whether more than animations is kept."""
        return self._made is not None and self.options.logging

    def begin(self, facts: Facts | None = None) -> None:
        """Begin, or go on where a checkpoint was: what was recorded after it is cut off."""
        if facts is not None:
            self.count, self.first_epoch = facts.recorded, facts.first_epoch
            self._agent_steps, self._updates_before = facts.agent_steps, facts.updates_before
            self.steps = facts.steps
            self._seconds, self._elapsed_before = facts.seconds, facts.elapsed_s
        if self.folder is not None and self.options.animate:
            settings = self._experiment.config
            period, lanes = settings.experiment.record_period, settings.multiprocessing.lanes
            self.films = Films(
                self._experiment.game, self.folder / "replays", period, lanes, self.options.logger is not None
            )
            self.films.go_on_from(0 if facts is None else facts.epochs)
        if (folder := self.folder) is not None and self.writes:
            (folder / "checkpoints").mkdir(exist_ok=True)
            write_whole(folder / "config.yaml", self.config)
        self._loggers.begin(folder if self.writes else None)  # before anything is cut: one that cannot begin is refused
        if folder is not None and self.writes:
            self._metrics = self._files.enter_context(closing(MetricsFile(folder / "metrics.jsonl", self.count)))
            self.recent.extend(last_rewards(folder / "metrics.jsonl", self.count, RECENT))
            self._files.enter_context(logged_to(folder / "log.txt"))
            if self._experiment.config.experiment.timeline:
                self._files.enter_context(Timeline(folder / "timeline.json", "actor"))
        if self.options.logging:
            planned = self._experiment.config.experiment
            self._display = ProgressDisplay(planned.epochs, self.count, planned.max_steps)
            self._screen.enter_context(self._display)
        if self.writes:  # now, so that -v shows it, too
            log.info("%s: %d agents, %s", self._experiment.name, len(self._models), _about(self._experiment))
            if self._resume is not None:
                log.info("goes on with %d epochs recorded", self.count)
        if self.checks is not None:
            self._screen.enter_context(self.checks)
            self._tell(SAID)
        self._started, self.has_begun = time.perf_counter(), True

    def _tell(self, line: str) -> None:
        """Keep a line in the log, and show it where there is a display."""
        (log.info if self._display is None else self._display.tell)(line)

    def keep_plan(self, plan: Plan) -> None:
        """Say how the run is run, in two lines, and keep all that is known about it."""
        if self._made is not None and self.writes:
            write_whole(self._made.path / "plan.json", json.dumps(plan.as_json(), indent=1).encode())
        for line in plan.reasons if self.options.logging else ():
            self._tell(line)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Say that the run is paused. The time until it goes on does not count."""
        started = self._paused_at = time.perf_counter()
        again = shlex.join(["abreast", "watch", str(self.folder), "--ask", "go_on"])
        self._tell(f"Paused after {self._epochs_played}, as asked. To go on: {again}")
        self.now("the run is paused")
        with span("paused"):
            yield
        seconds, self._paused_at = time.perf_counter() - started, None
        self._started += seconds
        self._tell(f"The pause is over, after {seconds:.0f} s.")

    def show_note(self, text: str) -> bool:
        """Show a sentence in the live display; False where there is none."""
        return self._display is not None and self._display.show_note(text)

    def check_rows(self, epoch: int) -> None:
        """In debug mode: refuse faulty rows. This epoch was played, or is to be learned from."""
        if self.checks is not None:
            self.checks.check_rows(epoch)

    def now(self, text: str, *parts: HasTeam) -> None:
        """From now on this is under way, and these are at work."""
        if self._display is not None:
            self._display.now(text, *parts)

    def counts(self) -> dict[str, Any]:
        """What the record has counted, as a checkpoint says it. The lines counted are on the disk from now on."""
        if self._metrics is not None:
            self._metrics.sync()
        return {
            "recorded": self.count,
            "first_epoch": self.first_epoch,
            "steps": self.steps,
            "agent_steps": self._agent_steps,
            "updates_before": self._updates_before,
            "seconds": self._seconds,
            "elapsed_s": self._elapsed(),
        }

    def _elapsed(self) -> float:
        return self._elapsed_before + (self._paused_at or time.perf_counter()) - self._started

    @property
    def epochs(self) -> list[EpochRecord]:
        """Every epoch, those from before a resume too."""
        return self._kept if self._metrics is None else self._metrics.read()

    def epoch(
        self,
        epoch: int,
        played: Played,
        trained: Sequence[RoundResult],
        epsilon: float,
        timing: dict[str, Any],
        opponents: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    ) -> None:
        """Keep and show the results of an epoch and of the round of training that its pass ended with.

        `timing` has the seconds spent (`collect_s`, `train_s`) and the health of the learners, if it depends on the clock.
        """
        self._trained = trained
        self.steps += played.turns
        self._agent_steps += played.turns * len(played.reward_per_agent) if played.steps is None else played.steps
        self._seconds += timing["collect_s"] + timing["train_s"]
        for agent, result in enumerate(trained):
            self._warn(agent, result.symptoms, epoch)
        updates = sum(result.updates for result in trained)
        learning = [{name: finite(value) for name, value in result.figures.items()} for result in trained]
        losses = [figures.get("loss") for figures in learning]
        known = [loss for loss in losses if loss is not None]
        record = EpochRecord(
            epoch=epoch,
            reward=float(sum(played.reward_per_agent)),
            reward_per_agent=[float(reward) for reward in played.reward_per_agent],
            loss=sum(known) if known else None,
            loss_per_agent=losses,
            learning=learning,
            epsilon=epsilon,
            steps=self.steps,
            agent_steps=self._agent_steps,
            updates=updates,
            updates_per_agent_step=(updates - self._updates_before) / self._agent_steps if self._agent_steps else 0.0,
            time={
                "elapsed_s": self._elapsed(),
                **timing,
                "agent_steps_per_s": self._agent_steps / self._seconds if self._seconds else 0.0,
            },
        )
        names = self._experiment.game.agent_names
        more = {"agents": list(names), "metrics": dict(played.metrics), "opponents": dict(opponents)}
        record.update({name: value for name, value in more.items() if value})  # type: ignore[typeddict-item]
        self.count += 1
        self.recent.append(record["reward_per_agent"])
        if self._metrics is None:
            self._kept.append(record)
        else:
            self._metrics.add(record)
        if self._display is not None:
            self._display.show(record)
        self._loggers.record(record)

    def results(self) -> dict[str, float]:
        """Return the headline of the newest epochs (`headline.groups_of`); empty if none is recorded."""
        groups = groups_of(self.recent, self._experiment.game.agent_names)
        return results_of(self.recent, groups) if self.recent else {}

    def warn_of_idle(self, given_up: Collection[int]) -> None:
        """The run is over: name the agents that have learned nothing, though they could have."""
        settings = self._experiment.config.experiment
        idle = [
            agent
            for agent, (model, result) in enumerate(zip(self._models, self._trained, strict=False))
            if not result.updates and should_have_learned(model) and agent not in (*settings.freeze, *given_up)
        ]
        if idle and self._experiment.epochs_played // settings.train_interval >= FEW_CALLS:
            who = f"agent{'s' * (len(idle) > 1)} {', '.join(map(str, idle))}"
            log.warning("%s never learned: train_step returned None each time", who)

    def _warn(self, agent: int, symptoms: Sequence[str], epoch: int) -> None:
        """Name each silent fault of each agent once."""
        for symptom in symptoms:
            if (agent, symptom) not in self._warned:
                self._warned.add((agent, symptom))
                log.warning("agent %d, epoch %d: %s", agent, epoch, symptom)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        came_to_nothing = not self.count and self.kept_epochs is None
        try:
            with self._files:
                try:
                    self.now("the last films and curves are written")
                    with span("film"):
                        if self.films is not None and not came_to_nothing:
                            self.films.close()
                        if self.folder is not None and self.writes and self.count:
                            draw_curves(self.folder, self.count, self._experiment.game.agent_colours)
                finally:  # also if Ctrl-C ends that
                    with self._screen:
                        self._loggers.close()
                    if self.has_begun:
                        self._log_end(error)
        except OSError:  # a full disk is met again when files are closed, and was told already
            if error is None:
                raise
        if self._made is not None and error is not None and came_to_nothing:
            self._made.take_back()
        part = users_part(error) if isinstance(error, Exception) else None
        for agent, model in enumerate(self._models):
            if error is not None and part is not None and part.tb_frame.f_locals.get("self") is model:
                error.add_note(f"(abreast: agent {agent} ({type(model).__name__}))")
        if error is not None and self.has_begun and self.folder is not None:
            what = "its metrics are" if self.writes else "its films are"
            if self.kept_epochs is not None:
                is_all = self.kept_epochs == self.first_epoch + self._played
                what = f"what was learned until {'then' if is_all else f'epoch {self.kept_epochs}'} is"
            kept = "nothing was kept" if came_to_nothing else f"{what} in {self.folder}"
            error.add_note(f"Stopped after {self._epochs_played}; {kept}.{self.how_to_go_on}")

    @property
    def _played(self) -> int:
        """Epochs of this run that were played; the last ones may not be recorded yet, in a pipelined run."""
        return max(self.count, self._experiment.epochs_played - self.first_epoch)

    @property
    def _epochs_played(self) -> str:
        return "1 epoch" if self._played == 1 else f"{self._played} epochs"

    def _log_end(self, error: BaseException | None) -> None:
        is_asked = isinstance(error, StoppedError)
        who = "request" if is_asked else type(error).__name__
        ended, by = ("finished", "") if error is None else ("stopped", f" by {who}")
        # For log.txt alone: the caller gets the error itself.
        stack = error if isinstance(error, Exception) and not is_asked else None
        log.info("%s after %d epochs%s", ended, self._played, by, exc_info=stack)


def config_as_yaml(experiment: Runnable, is_parallel: bool) -> bytes:
    """The configuration as the run is, with the settings of every agent whose model is not the one it asks for."""
    values = {**experiment.config.model_dump(), "game": experiment.config.game or experiment.target}
    values["multiprocessing"]["enabled"] = is_parallel
    for agent, player in enumerate(experiment.game.players):
        asked, model = experiment.config.model_of(agent), player.model
        if (type(model), model.config) != (algorithm(asked.algorithm), asked):
            values["model"].setdefault("per_agent", {})[agent] = _settings(model, experiment.config)
    try:
        return yaml.safe_dump(values, sort_keys=False).encode()
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"the configuration cannot be kept as YAML: {reason}. Use plain numbers and text.") from None


def _settings(model: BaseModel, config: Config[Any, Any]) -> dict[str, Any]:
    """The settings a model has, as far as its class knows them: one made by hand may have been given those of another."""
    has, known = config.complete(model.config).model_dump(), type(model).Config.model_fields.keys() - {"per_agent"}
    return {key: value for key, value in has.items() if key in known} | {"algorithm": _algorithm_name(model)}


def _algorithm_name(model: BaseModel) -> str:
    """What finds a model's class; where its settings name it (`file.py:Class`), as they do."""
    given = model.config.algorithm
    return given if given.endswith(f":{type(model).__qualname__}") else name_of(type(model))


def _about(experiment: Runnable) -> str:
    settings = experiment.config.experiment
    names = [_algorithm_name(player.model) for player in experiment.game.players]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    mixed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    who = f"algorithm {names[0]}" if len(counts) == 1 else f"algorithms {mixed}"
    return f"{who}, {settings.epochs} epochs, seed {settings.seed}"
