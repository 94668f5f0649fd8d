"""The configuration of an experiment: what is run (`experiment`), who learns (`model`), where (`world`)."""

from collections.abc import Mapping
from typing import Any, Generic, Literal, Self, TypeVar

import pydantic
from pydantic import Field

from abreast.models import ModelConfig, algorithm
from abreast.settings import OpenSection, Section

M = TypeVar("M", bound=ModelConfig)
W = TypeVar("W", bound=Section)


class ExperimentConfig(Section):
    """Settings of a run."""

    epochs: int = Field(1000, ge=1)
    """Episodes to play."""
    max_turns: int = Field(100, ge=1)
    """Turns an episode may last; in a turn every agent acts once."""
    record_period: int = Field(50, ge=1)
    """An animation is recorded every so many epochs."""
    seed: int = Field(0, ge=0)
    """Where all randomness comes from: the same seed gives the same run."""
    num_agents: int = Field(5, ge=1)
    """Agents in the world, each with its own model, memory and optimiser."""
    turn_order: Literal["sequential", "simultaneous"] = "sequential"
    """sequential: each agent sees what those before it did; simultaneous: all see and choose first, then act in order."""
    train_interval: int = Field(1, ge=1)
    """Epochs per update of each agent."""
    compute_threads: int = Field(1, ge=1)
    """Threads of an update's arithmetic. Results depend on it, by rounding, so it never follows the machine."""


class Config(Section, Generic[M, W]):
    """A whole configuration; `M` and `W` are the sections of the chosen algorithm and of the game's world."""

    experiment: ExperimentConfig = Field(default_factory=ExperimentConfig)
    model: M
    world: W

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        rows = self.experiment.train_interval * self.experiment.max_turns
        if self.model.on_policy and rows > self.model.buffer_capacity:
            raise ValueError(
                f"model.buffer_capacity is {self.model.buffer_capacity}, but {self.model.algorithm} learns from all"
                f" {rows} rows of experiment.train_interval x experiment.max_turns: raise it to {rows} or more."
            )
        return self


AnyConfig = Config[ModelConfig, Any]


def parse_config(values: object, world_section: type[Section] = OpenSection) -> Config[Any, Any]:
    """The configuration in a mapping of sections (or an instance already), with defaults for what it leaves out."""
    if isinstance(values, Config):
        return values
    sections: dict[str, Any] = dict(values) if isinstance(values, Mapping) else {}
    model = sections.get("model") or {}
    name = model.get("algorithm", ModelConfig().algorithm) if isinstance(model, Mapping) else ModelConfig().algorithm
    whole = Config[algorithm(name).Config, world_section]  # type: ignore[valid-type,misc]
    for section in ("experiment", "model", "world"):
        if sections.get(section) is None:  # absent, or an empty heading in a YAML file
            sections[section] = {}
    parsed: Config[Any, Any] = whole.parse(sections if isinstance(values, Mapping) else values)
    return parsed
