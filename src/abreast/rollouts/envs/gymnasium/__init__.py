"""Environments of Gymnasium, by id."""

from abreast.rollouts.envs.gymnasium.config import GymnasiumConfig
from abreast.rollouts.envs.gymnasium.env import make
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="gymnasium",
    summary="Any environment of Gymnasium with Discrete, MultiDiscrete or Text actions, by its id.",
    env=make,
    config=GymnasiumConfig,
    instruction=(
        "You play an environment, one action at a time, and want the sum of your rewards to be high. "
        "After each action you are shown the new state. An action is one of those that are listed as available: its name or "
        "its number. An action with several parts is written as numbers with blanks between them, such as 1 0 2."
    ),
)

__all__ = ["KIND", "GymnasiumConfig", "make"]
