"""Settings of PPO."""

from typing import ClassVar

from pydantic import Field

from abreast.models.network_model import NetworkConfig


class PPOConfig(NetworkConfig):
    """Settings of PPO."""

    algorithm: str = "ppo"
    """iqn, dqn, ppo, sac (continuous actions) or random, or a model of your own, as module:Class or file.py:Class."""
    gradient_steps: int = Field(4, ge=1)
    """Passes over the new rows in one update, each in shuffled minibatches of `batch_size`."""
    gae_lambda: float = Field(0.8, ge=0, le=1)
    """How far advantages look ahead: 0 one step, 1 to the end of the episode."""
    clip: float = Field(0.2, gt=0)
    """How far the chance of an action may move from what it was when it was taken, before the gain is cut."""
    entropy_weight: float = Field(0.01, ge=0)
    """Reward for staying undecided, so that exploration does not die early."""
    value_weight: float = Field(0.5, gt=0)
    """Weight of the value loss beside the policy loss."""

    on_policy: ClassVar[bool] = True
