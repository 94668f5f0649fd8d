"""Makes an environment of Gymnasium, adapted to texts."""

from collections.abc import Mapping
from typing import Any

import gymnasium

from abreast.errors import RolloutError
from abreast.rollouts.adapters.text import TextAdapter
from abreast.rollouts.envs.gymnasium.config import OBSERVATION, GymnasiumConfig


def make(config: GymnasiumConfig | Mapping[str, Any] | None = None) -> TextAdapter:
    """Make it.

    env = make({"id": "FrozenLake-v1", "action_lookup": {0: "Left", 1: "Down", 2: "Right", 3: "Up"}})
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(2)
    """
    settings = GymnasiumConfig.parse({} if config is None else config)
    try:
        mode = _render_mode(settings)
        given = settings.kwargs if mode is None else {"render_mode": mode, **settings.kwargs}  # not every one takes it
        # Gymnasium's checker would warn, once for each of hundreds; `abreast check` tells
        env = gymnasium.make(settings.spec, **{"disable_env_checker": True, **given})
    except Exception as error:
        raise RolloutError(f"{settings.id} cannot be made: {str(error).rstrip('.')}.") from error
    try:
        return TextAdapter(env, settings.action_lookup, settings.success_reward)
    except RolloutError as error:
        env.close()
        raise RolloutError(f"{settings.id} cannot be played: {error}") from None


def _render_mode(config: GymnasiumConfig) -> str | None:
    """The mode for `gymnasium.make`, if the environment has it."""
    mode, modes = config.shown_mode, config.render_modes
    if mode is not None and modes is not None and mode not in modes:
        offered = [each for each in modes if each != "human"]
        raise RolloutError(
            f"render_mode is {mode!r}, but {config.id} has {', '.join([OBSERVATION, *offered])}: take one of these, or auto."
        )
    return mode
