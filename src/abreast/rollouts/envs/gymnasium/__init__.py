"""Environments of Gymnasium, by id."""

from abreast.rollouts.envs.gymnasium.config import GymnasiumConfig
from abreast.rollouts.envs.gymnasium.env import make
from abreast.rollouts.envs.gymnasium.legend import legend
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="gymnasium",
    summary="Any environment of Gymnasium with Discrete, MultiDiscrete or Text actions, by its id.",
    env=make,
    config=GymnasiumConfig,
    instruction="You play an environment, one action after the other. Make the sum of your rewards as high as you can.",
    legend=legend,
)

__all__ = ["KIND", "GymnasiumConfig", "make"]
