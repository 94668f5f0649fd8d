"""Settings of SAC."""

from pydantic import Field

from abreast.models.value_model import ValueConfig


class SACConfig(ValueConfig):
    """Settings of SAC."""

    algorithm: str = "sac"
    """iqn, dqn, ppo, sac (continuous actions) or random, or a model of your own, as module:Class or file.py:Class."""
    learning_rate: float = Field(0.001, gt=0)
    """Step size of Adam: of policy, critics and temperature."""
    batch_size: int = Field(256, ge=1)
    """Rows per gradient step."""
    gradient_steps: int = Field(64, ge=-1)
    """Gradient steps in one update, or for train_freq new rows; -1: as many as train_freq. One for each row is usual."""
    gradient_norm: float = Field(10.0, gt=0)
    """Longer gradients are shortened to this norm."""
    target_rate: float = Field(0.005, ge=0, le=1)
    """Share of the online weights blended into the target at each gradient step (Polyak averaging)."""
    target_interval: int | None = Field(None, ge=1)
    """Gradient steps between hard copies of the online weights into the target; null: none."""
    alpha: float = Field(0.2, gt=0)
    """The temperature at first: what a unit of entropy is worth in units of reward. It is learned."""
    target_entropy: float | None = None
    """Entropy of the policy that the temperature is learned for; null: -1 for each number of an action."""
