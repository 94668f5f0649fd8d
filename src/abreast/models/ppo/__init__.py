"""Proximal policy optimisation: GAE, clipped, in minibatches."""

from abreast.models.ppo.config import PPOConfig
from abreast.models.ppo.update import PPO

__all__ = ["PPO", "PPOConfig"]
