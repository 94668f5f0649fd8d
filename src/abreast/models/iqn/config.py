"""Settings of IQN."""

from typing import Literal

import pydantic
from pydantic import Field

from abreast.models.value_model import ValueConfig


class IQNConfig(ValueConfig):
    """Settings of IQN. The reference learner takes 3-step returns and one gradient step an update."""

    algorithm: str = "iqn"
    """iqn, dqn, ppo, sac (continuous actions) or random, or a model of your own, as module:Class or file.py:Class."""
    n_quantiles: int = Field(12, ge=1, le=2**16)
    """Quantiles per state in the loss."""
    choosing_quantiles: int = Field(4, ge=1, le=2**16)
    """Quantiles whose mean ranks the actions, when choosing and in double-Q targets."""
    n_cosines: int = Field(64, ge=1, le=2**16)
    """Cosines that describe a quantile fraction to the network."""
    kappa: float = Field(1.0, gt=0)
    """Where the Huber loss turns from a parabola into a line."""
    precision: Literal["float32", "bf16"] = "float32"
    """Numbers in the products of an update; bf16 (8 bits of precision) halves its time on cores that have instructions for
    it. Weights, gradients and moments are kept in float32, and choosing is done in it."""

    @pydantic.field_validator("network")
    @classmethod
    def _has_no_memory(cls, name: str) -> str:
        if name == "lstm":
            raise ValueError("iqn has no network lstm: set algorithm to dqn or ppo, or raise n_frames.")
        return name
