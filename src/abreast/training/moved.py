"""Single agents of other runs: their settings, and what they have learned.

"runs/x:4"  ──▶  AgentOf(runs/x, 4)  ──▶  settings()  ──▶  model.per_agent.2       before the environment is built
                                     ──▶  load_agent() ──▶  the model of agent 2    when a run begins
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.errors import CheckpointError, ConfigError, ModelFileError, RunFolderError, log, short
from abreast.models import BaseModel
from abreast.models.model_file import read_model_file
from abreast.settings import read_yaml
from abreast.state import State
from abreast.training.actors.base import models_of
from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints, newest_agents
from abreast.training.config import Config, agent_number, parse_config
from abreast.training.runnable import Runnable

POOL = "pool"
"""The folder in which a run keeps earlier selves of its agents (opponents.py)."""
OWN_MEMBER = re.compile(r"epoch_([0-9]{1,15})/agent_([0-9]{1,9})\.safetensors")
EXPLORING = ("epsilon", "epsilon_decay", "epsilon_min")
"""Settings that do not move with an agent: how much it explores is up to its new run."""


@dataclass(frozen=True)
class AgentOf:
    """An agent of a run that was written."""

    folder: Path
    """The run folder, or one of its checkpoints."""
    agent: int

    @classmethod
    def parse(cls, text: str, agent: int) -> "AgentOf":
        """What `RUN:4` names. `RUN` alone names the agent of the same number, `agent`; so does a folder with such a name."""
        run, colon, number = text.rpartition(":")
        if not colon or os.path.isdir(text):  # noqa: PTH112 (Path.is_dir raises for a name that no file can have)
            return cls(Path(text), agent)
        found = agent_number(number)
        if not run or found is None:
            raise ConfigError(
                f"{short(text)} does not name an agent of a run: expected RUN:NUMBER, say runs/x:4, or RUN alone for the"
                " agent of the same number."
            )
        return cls(Path(run), found)

    def __str__(self) -> str:
        return f"{self.folder}:{self.agent}"

    def settings(self) -> dict[str, Any]:
        """All settings of its model, those of exploring aside: an entry for `model.per_agent`."""
        section = self.config().model_of(self.agent).model_dump()
        return {key: value for key, value in section.items() if key not in EXPLORING}

    def config(self) -> Config[Any, Any]:
        """The configuration of its run, without what concerns only others: their classes need not be found here."""
        file = self.config_file()
        values = {key: value for key, value in read_yaml(file).items() if key != "world"}
        model = values.get("model")
        if isinstance(model, Mapping) and isinstance(model.get("per_agent"), Mapping):
            own = {key: each for key, each in model["per_agent"].items() if agent_number(key) == self.agent}
            values["model"] = {**model, "per_agent": own}
        try:
            config = parse_config(values)
        except ConfigError as error:
            raise error.inside(str(file)) from error
        last = config.experiment.num_agents - 1
        if self.agent > last:
            raise ConfigError(f"{self.folder} has no agent {self.agent}: its last agent is {last} (the first is 0).")
        return config

    def config_file(self) -> Path:
        """The settings of its run."""
        above = self.folder.absolute().parent
        for folder in [self.folder, above.parent] if above.name == "checkpoints" else [self.folder]:
            if os.path.isfile(folder / "config.yaml"):  # noqa: PTH113
                return folder / "config.yaml"
        raise RunFolderError(
            f"{self.folder} is not a run folder: it has no config.yaml. `abreast train` prints where it writes."
        )


def agent_settings(source: str, agent: int = 0) -> dict[str, Any]:
    """The settings of an agent of another run, say "runs/x:4", as an entry for `model.per_agent`; without :4, of `agent`."""
    return AgentOf.parse(source, agent).settings()


def kept_agents(folder: Path) -> dict[int, dict[int, tuple[State, Path]]]:
    """By the epochs that had been played: agents of a run by number, with their files; of all its checkpoints and of its own
    pool, or of the checkpoint that the folder is.
    """
    newest = newest_agents(folder)  # says what is wrong, if nothing can be used
    if folder == newest.path:
        return {newest.epochs: agents_in(newest)}
    found: dict[int, dict[int, tuple[State, Path]]] = {}
    for path in sorted((folder / POOL).glob("*/*")):
        if (name := OWN_MEMBER.fullmatch(f"{path.parent.name}/{path.name}")) is not None:
            found.setdefault(int(name[1]), {})[int(name[2])] = read_model_file(path), path
    for each in list_checkpoints(folder):
        try:
            if isinstance(each, CheckpointError):
                raise each
            found |= {each.epochs: agents_in(each)} if each.agents else {}
        except CheckpointError as error:
            log.warning("left out: %s", error)
    return {epochs: found[epochs] for epochs in sorted(found)}


def agents_in(checkpoint: Checkpoint) -> dict[int, tuple[State, Path]]:
    """The agents of a checkpoint by number, with their files."""
    files = {name: checkpoint.path / f"{name}.safetensors" for name in checkpoint.agents}
    return {int(name.removeprefix("agent_")): (checkpoint.part(name), path) for name, path in files.items()}


def load_agents(experiment: Runnable) -> None:
    """Let the agents of a fresh run begin as `experiment.load_agents` and `experiment.freeze` say.

    Called once for a run, before anything is written: an agent that does not fit is refused. (A run that goes on from a
    checkpoint has it all from there.)
    """
    settings, models = experiment.config.experiment, models_of(experiment.game)
    experiment.config.check_agents(len(models))
    if experiment.epochs_played:
        return
    for agent, text in settings.load_agents.items():
        load_agent(models[agent], agent, text)
    for agent in settings.freeze:
        if not experiment.config.gives_epsilon(agent):
            models[agent].epsilon = 0.0  # of models made by hand; those of `make_model` are made so


def load_agent(model: BaseModel, agent: int, text: str) -> None:
    """Let the model of an agent begin with what that of another run has learned, by its newest checkpoint."""
    source = AgentOf.parse(text, agent)
    source.config()  # says what is wrong with the run, or with the number
    checkpoint, name = newest_agents(source.folder), f"agent_{source.agent}"
    try:
        model.load_learned(checkpoint.part(name), checkpoint.path / f"{name}.safetensors")
    except ModelFileError as error:
        raise ModelFileError(f"agent {agent} cannot be loaded from {source}: {error}") from error
