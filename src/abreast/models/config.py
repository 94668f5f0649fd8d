"""Settings every model has."""

from typing import Any, ClassVar, Self

import pydantic
from pydantic import Field

from abreast.settings import Section


class ModelConfig(Section):
    """Settings every model has."""

    algorithm: str = "iqn"
    """iqn, dqn, ppo, sac (continuous actions) or random, or a model of your own, as module:Class or file.py:Class."""
    agent_vision_radius: int = Field(2, ge=0, le=1000)
    """How far an agent sees: a square of 2r+1 cells a side around it."""
    n_frames: int = Field(5, ge=1, le=1000)
    """How many of the last frames the model sees at once."""
    epsilon: float = Field(0.6, ge=0, le=1)
    """Chance of a random action in the first epoch. (PPO and SAC explore by their own policies and take no notice.)"""
    epsilon_decay: float | None = Field(None, ge=0, le=1)
    """Share of epsilon that goes away each epoch; not given: such that epsilon_min is reached after half of the run."""
    exploration_fraction: float | None = Field(None, gt=0, le=1)
    """Share of the run (its epochs, or its steps) in which epsilon falls linearly to epsilon_min; null: epsilon_decay."""
    epsilon_min: float = Field(0.01, ge=0, le=1)
    """Epsilon does not fall below this. (With 0, half of the epochs bring epsilon down to a hundredth.)"""
    gamma: float = Field(0.99, ge=0, le=1)
    """Discount per step."""
    learning_rate: float = Field(0.00025, gt=0)
    """Step size of Adam."""
    buffer_capacity: int = Field(1024, ge=1, le=10**9)
    """Rows of experience kept per agent."""
    batch_size: int = Field(64, ge=1)
    """Rows per gradient step."""
    gradient_steps: int = Field(8, ge=1)
    """Gradient steps in one update. (PPO: passes over the new rows.)"""
    gradient_norm: float = Field(1.0, gt=0)
    """Longer gradients are shortened to this norm."""
    hidden_size: int = Field(250, ge=1, le=2**16)
    """Width of the hidden layers."""
    per_agent: dict[int, Any] = Field(default_factory=dict)
    """Settings of single agents, by number, say {0: {algorithm: ppo}}; what one leaves out is as in model, where its
    algorithm has that setting. Parsed, each holds all settings of its agent."""

    on_policy: ClassVar[bool] = False
    """Whether an update learns from every row since the one before, so that the replay must hold them all."""

    def epsilon_at(self, progress: float) -> float:
        """Return epsilon where so much of the run is used, with `exploration_fraction`."""
        share = min(progress / (self.exploration_fraction or 1.0), 1.0)
        return self.epsilon + share * (min(self.epsilon_min, self.epsilon) - self.epsilon)

    @pydantic.model_validator(mode="after")
    def _falls_in_one_way(self) -> Self:
        if self.epsilon_decay is not None and self.exploration_fraction is not None:
            raise ValueError(
                f"epsilon_decay is {self.epsilon_decay} and exploration_fraction is {self.exploration_fraction}, but epsilon"
                " falls in one way only: leave one out."
            )
        return self

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.batch_size > self.buffer_capacity:
            raise ValueError(
                f"batch_size is {self.batch_size}, more than buffer_capacity {self.buffer_capacity}:"
                " a batch would never be full. Raise buffer_capacity or lower batch_size."
            )
        return self

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`per_agent` comes last, and only where there is one: the settings of a single agent have none."""
        values: dict[str, Any] = dump(self)
        per_agent = values.pop("per_agent", None)
        return {**values, "per_agent": per_agent} if per_agent else values

    def __hash__(self) -> int:
        """Of all but `per_agent`, because dictionaries have none."""
        return hash((type(self), *(value for name, value in self if name != "per_agent")))
