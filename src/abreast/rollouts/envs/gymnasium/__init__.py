"""Environments of Gymnasium, by id."""

from abreast.rollouts.envs.gymnasium.config import GymnasiumConfig
from abreast.rollouts.envs.gymnasium.env import make
from abreast.rollouts.registry import EnvKind

_STATES = {
    "ansi": "A coloured part of the state is written with its colour: <red:S> is a red S.",
    "rgb_array": "The state is a picture.",
}
_ACTIONS = (
    "An action is its name or its number; one of several parts is its numbers with blanks between them, such as 1 0 2."
)


def _legend(config: GymnasiumConfig) -> str:
    """How states and actions are written."""
    return f"{_STATES.get(config.shown_mode or '', '')} {'' if config.action_lookup else _ACTIONS}".strip()


KIND = EnvKind(
    name="gymnasium",
    summary="Any environment of Gymnasium with Discrete, MultiDiscrete or Text actions, by its id.",
    env=make,
    config=GymnasiumConfig,
    instruction="You play an environment, one action after the other. Make the sum of your rewards as high as you can.",
    legend=_legend,
)
