"""The record of a run: what is kept in its folder, and what is shown meanwhile.

<run folder>/  config.yaml   metrics.jsonl   log.txt   replays/epoch_000050.gif   checkpoints/agent_0.safetensors
"""

import json
import logging as standard_logging
import math
import numbers
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NotRequired, Protocol, TypedDict

import numpy as np
import yaml
from rich.console import Console

from abreast.errors import ConfigError, GameError, short
from abreast.files import logged_to, make_run_folder, write_whole
from abreast.models import BaseModel, algorithm, name_of
from abreast.training.learners.base import RoundResult
from abreast.training.run.camera import Camera
from abreast.training.run.display import ProgressDisplay, warnings_on
from abreast.worlds.playable import Played

if TYPE_CHECKING:
    from abreast.training.config import Config
    from abreast.training.experiment import Experiment

log = standard_logging.getLogger("abreast")


class EpochRecord(TypedDict):
    """One line of metrics.jsonl. Everything that depends on the clock is under `time`."""

    epoch: int
    reward: float
    reward_per_agent: list[float]
    loss: float | None
    loss_per_agent: list[float | None]
    epsilon: float
    agent_steps: int
    updates: int
    updates_per_agent_step: float
    """In this run so far: the update-to-data ratio."""
    metrics: NotRequired[dict[str, float | None]]
    """The game's own figures (`Environment.metrics`), if it has any; None where one is not finite."""
    time: dict[str, Any]


class Logger(Protocol):
    """Anything that is to be told of every epoch."""

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: Any) -> None: ...


class RunRecord:
    """Keeps the record of one run; used as a context, so that whatever happens, what was learned is kept."""

    def __init__(
        self,
        experiment: "Experiment",
        animate: bool,
        logging: bool,
        logger: Logger | None = None,
        output_dir: Path | str | None = None,
    ) -> None:
        self.epochs: list[EpochRecord] = []
        self._config = _as_yaml(experiment)
        name = experiment.name.removesuffix("Env")
        self._made = make_run_folder(name, output_dir) if animate or logging else None
        self.folder = None if self._made is None else self._made.path
        self._experiment, self._animate = experiment, animate
        self._models = [player.model for player in experiment.game.players]
        self._writes = self.folder is not None and logging
        self._display = ProgressDisplay(experiment.config.experiment.epochs) if logging and logger is None else None
        self._speaks = logging
        self._screen, self._files = ExitStack(), ExitStack()
        self._logger = logger if logging else None
        self._cameras: dict[int, Camera] = {}
        self._warned: set[tuple[int, str]] = set()
        self._agent_steps = 0
        self._updates_before = sum(model.updates for model in self._models)
        self._seconds = 0.0

    def __enter__(self) -> "RunRecord":
        if self.folder is not None and self._writes:
            write_whole(self.folder / "config.yaml", self._config)
            self._metrics = self._files.enter_context((self.folder / "metrics.jsonl").open("a", encoding="utf-8"))
            self._files.enter_context(logged_to(self.folder / "log.txt"))
            log.info("%s: %d agents, %s", self._experiment.name, len(self._models), _about(self._experiment))
        if self._display is not None:
            self._screen.enter_context(self._display)
        if self._speaks:
            self._screen.enter_context(warnings_on(self._display.console if self._display else Console(stderr=True)))
        self._started = time.perf_counter()
        return self

    def camera(self, epoch: int) -> "Camera | None":
        """What films the first lane of the pass that begins with this epoch, if it is to be filmed."""
        period = self._experiment.config.experiment.record_period
        lanes = self._experiment.config.multiprocessing.lanes
        if not self._animate or self.folder is None or -epoch % period >= lanes:  # a multiple of it is in this pass
            return None
        self._cameras[epoch] = Camera(self._experiment.game, self.folder / "replays" / f"epoch_{epoch:06d}.gif")
        return self._cameras[epoch]

    def epoch(
        self, epoch: int, played: Played, trained: Sequence[RoundResult], epsilon: float, timing: dict[str, Any]
    ) -> None:
        """Keep and show the results of an epoch and of the round of training that its pass ended with.

        `timing` has the seconds spent (`collect_s`, `train_s`) and the health of the learners, if it depends on the clock.
        """
        self._agent_steps += played.turns * len(played.reward_per_agent)
        self._seconds += timing["collect_s"] + timing["train_s"]
        for agent, result in enumerate(trained):
            self._warn(agent, result.symptoms, epoch)
        updates = sum(result.updates for result in trained)
        losses = [_finite(result.loss) for result in trained]
        known = [loss for loss in losses if loss is not None]
        record = EpochRecord(
            epoch=epoch,
            reward=float(sum(played.reward_per_agent)),
            reward_per_agent=[float(reward) for reward in played.reward_per_agent],
            loss=sum(known) if known else None,
            loss_per_agent=losses,
            epsilon=epsilon,
            agent_steps=self._agent_steps,
            updates=updates,
            updates_per_agent_step=(updates - self._updates_before) / self._agent_steps if self._agent_steps else 0.0,
            time={
                "elapsed_s": time.perf_counter() - self._started,
                **timing,
                "agent_steps_per_s": self._agent_steps / self._seconds if self._seconds else 0.0,
            },
        )
        if figures := figures_of(played.metrics, self._experiment.name):
            record["metrics"] = figures
        self.epochs.append(record)
        if self._writes:
            self._metrics.write(json.dumps(record, allow_nan=False) + "\n")
            self._metrics.flush()
        if epoch in self._cameras:
            self._cameras.pop(epoch).save()
        if self._display is not None:
            self._display.show(record)
        if self._logger is not None:
            more = {key: value for key, value in record.items() if key not in ("epoch", "loss", "reward", "epsilon")}
            self._logger.record_epoch(epoch, record["loss"] or 0.0, record["reward"], record["epsilon"], **more)

    def _warn(self, agent: int, symptoms: Sequence[str], epoch: int) -> None:
        """Name each silent fault of each agent once."""
        for symptom in symptoms:
            if (agent, symptom) not in self._warned:
                self._warned.add((agent, symptom))
                log.warning("agent %d, epoch %d: %s", agent, epoch, symptom)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.close()
        came_to_nothing = error is not None and not self.epochs
        with self._files:
            if self._writes and not came_to_nothing:
                self._keep(error)
        if self._made is not None and came_to_nothing:
            self._made.take_back()
        if error is not None and self.folder is not None:
            kept = f"what was learned until then is in {self.folder}" if self.epochs else "nothing is left of it"
            error.add_note(f"Stopped after {len(self.epochs)} epochs; {kept}.")

    def _keep(self, error: BaseException | None) -> None:
        """Write the models, and how the run ended."""
        assert self.folder is not None
        folder = self.folder / "checkpoints"
        folder.mkdir(exist_ok=True)
        for index, model in enumerate(self._models):
            model.save(folder / f"agent_{index}.safetensors")
        if error is None:
            log.info("finished after %d epochs", len(self.epochs))
            return
        stack = error if isinstance(error, Exception) else None  # an interrupt has nothing to show
        log.error("stopped after %d epochs by %s", len(self.epochs), type(error).__name__, exc_info=stack)


def figures_of(metrics: Mapping[str, Any], game: str) -> dict[str, float | None]:
    """The game's own figures, as plain numbers; None where one is not finite."""
    if not isinstance(metrics, Mapping):
        raise GameError(f"the metrics of {game} are {short(metrics)}: expected names with numbers.")
    for name, value in metrics.items():
        if not isinstance(name, str) or not isinstance(value, numbers.Real | np.bool_):
            raise GameError(f"the metric {name!r} of {game} is {short(value)}: expected a name with a number.")
    return {name: _finite(float(value)) for name, value in metrics.items()}


def _as_yaml(experiment: "Experiment") -> bytes:
    """The configuration, with the settings of every agent whose model is not the one it asks for."""
    values = {**experiment.config.model_dump(), "game": experiment.config.game or experiment.target}
    for agent, player in enumerate(experiment.game.players):
        asked, model = experiment.config.model_of(agent), player.model
        if (type(model), model.config) != (algorithm(asked.algorithm), asked):
            values["model"].setdefault("per_agent", {})[agent] = _settings(model, experiment.config)
    try:
        return yaml.safe_dump(values, sort_keys=False).encode()
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"the configuration cannot be kept as YAML: {reason}. Use plain numbers and text.") from None


def _settings(model: BaseModel, config: "Config[Any, Any]") -> dict[str, Any]:
    """The settings a model has, as far as its class knows them: one made by hand may have been given those of another."""
    has, known = config.complete(model.config).model_dump(), type(model).Config.model_fields.keys() - {"per_agent"}
    return {key: value for key, value in has.items() if key in known} | {"algorithm": _algorithm_name(model)}


def _algorithm_name(model: BaseModel) -> str:
    """What finds a model's class; where its settings name it (`file.py:Class`), as they do."""
    given = model.config.algorithm
    return given if given.endswith(f":{type(model).__qualname__}") else name_of(type(model))


def _finite(loss: float | None) -> float | None:
    """The loss, or None if training has diverged: JSON has no word for such numbers."""
    return loss if loss is not None and math.isfinite(loss) else None


def _about(experiment: "Experiment") -> str:
    settings = experiment.config.experiment
    names = [_algorithm_name(player.model) for player in experiment.game.players]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    mixed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    who = f"algorithm {names[0]}" if len(counts) == 1 else f"algorithms {mixed}"
    return f"{who}, {settings.epochs} epochs, seed {settings.seed}"
