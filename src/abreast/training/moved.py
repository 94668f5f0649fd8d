"""Single agents of other runs: their settings, and what they have learned.

"runs/x:4"  ──▶  AgentOf(runs/x, 4)  ──▶  settings()  ──▶  model.per_agent.2       before the environment is built
                                     ──▶  load_into() ──▶  the model of agent 2    when a run begins
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.errors import ConfigError, ModelFileError, RunFolderError, short
from abreast.models import BaseModel
from abreast.settings import merge, read_yaml
from abreast.training.actors.base import models_of
from abreast.training.checkpoints.folder import newest_agents
from abreast.training.config import Config, agent_number, parse_config

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment

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
        if not colon or _is_folder(Path(text)):
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
        section = self._config().model_of(self.agent).model_dump()
        return {key: value for key, value in section.items() if key not in EXPLORING}

    def load_into(self, model: BaseModel) -> None:
        """Let a model begin with what this agent has learned, by the newest checkpoint."""
        self._config()  # says what is wrong with the run, or with the number
        checkpoint, name = newest_agents(self.folder), f"agent_{self.agent}"
        model.load_learned(checkpoint.part(name), checkpoint.path / f"{name}.safetensors")

    def _config(self) -> Config[Any, Any]:
        """The configuration of its run, without what concerns only others: their classes need not be found here."""
        file = self._config_file()
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

    def _config_file(self) -> Path:
        above = self.folder.absolute().parent
        for folder in [self.folder, above.parent] if above.name == "checkpoints" else [self.folder]:
            if _is_file(folder / "config.yaml"):
                return folder / "config.yaml"
        raise RunFolderError(
            f"{self.folder} is not a run folder: it has no config.yaml. `abreast train` prints where it writes."
        )


def agent_settings(source: str, agent: int = 0) -> dict[str, Any]:
    """The settings of an agent of another run, say "runs/x:4", as an entry for `model.per_agent`; without :4, of `agent`."""
    return AgentOf.parse(source, agent).settings()


def with_agents(values: Mapping[str, Any], sources: Mapping[int, str]) -> dict[str, Any]:
    """Sections of a configuration, in which some agents are those of other runs, with the settings they have there."""
    agents = {agent: agent_settings(source, agent) for agent, source in sources.items()}
    if not agents:
        return dict(values)
    model = values.get("model")
    others = model.get("per_agent") if isinstance(model, Mapping) else None
    if isinstance(others, Mapping):  # nothing of an agent that is replaced stays
        kept = {key: own for key, own in others.items() if agent_number(key) not in agents}
        values = {**values, "model": {**model, "per_agent": kept}}  # type: ignore[dict-item]
    return merge(values, {"experiment": {"load_agents": sources}, "model": {"per_agent": agents}})


def check_algorithms(values: Mapping[str, Any], sources: Mapping[int, str]) -> None:
    """Refuse another algorithm for an agent than that of the run it comes from, before its settings are found unknown."""
    model = values.get("model")
    given = model.get("per_agent") if isinstance(model, Mapping) else None
    for key, own in given.items() if isinstance(given, Mapping) else ():
        agent = agent_number(key)
        if agent is not None and agent in sources and isinstance(own, Mapping) and "algorithm" in own:
            algorithm = agent_settings(sources[agent], agent)["algorithm"]
            if own["algorithm"] != algorithm:
                raise ConfigError(
                    f"model.per_agent.{agent}.algorithm is {short(own['algorithm'])}, but agent {agent} is loaded from"
                    f" {AgentOf.parse(sources[agent], agent)}, whose algorithm is {algorithm!r}: leave it out."
                )


def parse_agents(texts: Iterable[str], option: str) -> dict[int, str]:
    """What `2=RUN:4` and others like it say: agents, and where each comes from."""
    found: dict[int, str] = {}
    for text in texts:
        number, equals, source = text.partition("=")
        agent = agent_number(number)
        if agent is None or not equals or not source:
            raise ConfigError(
                f"{option} {short(text)} is not of the form NUMBER=RUN or NUMBER=RUN:NUMBER, say {option} 2=runs/x:4."
            )
        if agent in found:
            raise ConfigError(
                f"{option} is given twice for agent {agent}, {short(found[agent])} and {short(source)}: give one of them."
            )
        found[agent] = source
    return found


def parse_numbers(text: str, option: str) -> list[int]:
    """The agents that `0,3` names."""
    found = [agent_number(part.strip()) for part in text.split(",")]
    numbers = [number for number in found if number is not None]
    if len(numbers) < len(found):
        raise ConfigError(f"{option} {short(text)} is no list of agents: expected numbers, say {option} 0,3.")
    return numbers


def load_agents(experiment: "Experiment") -> None:
    """Let the agents of a fresh run begin as `experiment.load_agents` and `experiment.freeze` say.

    Called once for a run, before anything is written: an agent that does not fit is refused. (A run that goes on from a
    checkpoint has it all from there.)
    """
    settings, models = experiment.config.experiment, models_of(experiment.game)
    settings.check_agents(len(models))
    if experiment.epochs_played:
        return
    for agent, text in settings.load_agents.items():
        load_agent(models[agent], agent, text)
    for agent in settings.freeze:
        if not experiment.config.gives_epsilon(agent):
            models[agent].epsilon = 0.0  # of models made by hand; those of `make_model` are made so


def load_agent(model: BaseModel, agent: int, text: str) -> None:
    """Let the model of an agent begin with what that of another run has learned."""
    source = AgentOf.parse(text, agent)
    try:
        source.load_into(model)
    except ModelFileError as error:
        raise ModelFileError(f"agent {agent} cannot be loaded from {source}: {error}") from error


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name no file can have
        return False


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
