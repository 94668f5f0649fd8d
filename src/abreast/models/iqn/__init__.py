"""Implicit quantile networks: the reference learner."""

from abreast.models.iqn.config import IQNConfig
from abreast.models.iqn.update import IQN

__all__ = ["IQN", "IQNConfig"]
