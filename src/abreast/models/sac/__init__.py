"""Soft actor-critic: continuous actions, twin critics, a temperature that is learned."""

from abreast.models.sac.config import SACConfig
from abreast.models.sac.update import SAC

__all__ = ["SAC", "SACConfig"]
