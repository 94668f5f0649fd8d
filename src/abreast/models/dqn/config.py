"""Settings of DQN."""

from abreast.models.value_model import ValueConfig


class DQNConfig(ValueConfig):
    """Settings of DQN."""

    algorithm: str = "dqn"
    """iqn, dqn, ppo, sac (continuous actions) or random, or a model of your own, as module:Class or file.py:Class."""
    double: bool = True
    """The online network picks the action whose value the target network gives, which lowers overestimation."""
    dueling: bool = True
    """The value of the state and the advantages of the actions are learned apart."""
