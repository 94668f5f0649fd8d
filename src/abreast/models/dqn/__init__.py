"""Deep Q-networks: double, dueling, n-step."""

from abreast.models.dqn.config import DQNConfig
from abreast.models.dqn.update import DQN

__all__ = ["DQN", "DQNConfig"]
