"""Settings of PPO."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from abreast.models.network_model import LISTED, NetworkConfig


class PPOConfig(NetworkConfig):
    """Settings of PPO."""

    algorithm: str = "ppo"
    """iqn, dqn, ppo, sac (continuous actions) or random, or a model of your own, as module:Class or file.py:Class."""
    gradient_steps: int = Field(4, ge=1)
    """Passes over the new rows in one update, each in shuffled minibatches of `batch_size`."""
    n_steps: int | None = Field(None, ge=2)
    """New rows of the agent that an update waits for, until the end of an episode; null: an update every
    experiment.train_interval epochs."""
    gae_lambda: float = Field(0.8, ge=0, le=1)
    """How far advantages look ahead: 0 one step, 1 to the end of the episode."""
    clip: float = Field(0.2, gt=0)
    """How far the chance of an action may move from what it was when it was taken, before the gain is cut."""
    entropy_weight: float = Field(0.01, ge=0)
    """Reward for staying undecided, so that exploration does not die early."""
    value_weight: float = Field(0.5, gt=0)
    """Weight of the value loss beside the policy loss."""

    anneal: Annotated[tuple[Literal["learning_rate", "clip"], ...], LISTED] = ()  # type: ignore[assignment]
    """Settings that fall linearly to 0 by the end of the run: learning_rate, clip."""

    on_policy: ClassVar[bool] = True
