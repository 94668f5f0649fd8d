"""Makes an environment of Gymnasium, adapted to texts."""

from collections.abc import Mapping
from typing import Any

import gymnasium

from abreast.errors import RolloutError
from abreast.rollouts.adapters.text import TextAdapter
from abreast.rollouts.envs.gymnasium.config import GymnasiumConfig


def make(config: GymnasiumConfig | Mapping[str, Any] | None = None) -> TextAdapter:
    """Make it.

    env = make({"id": "FrozenLake-v1", "action_lookup": {0: "Left", 1: "Down", 2: "Right", 3: "Up"}})
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(2)
    """
    settings = GymnasiumConfig.parse({} if config is None else config)
    try:
        mode = settings.shown_mode
        given = settings.kwargs if mode is None else {**settings.kwargs, "render_mode": mode}  # not every one takes it
        # Gymnasium's checker would warn, once for each of hundreds; `abreast check` tells
        env = gymnasium.make(settings.spec, **{"disable_env_checker": True, **given})
    except Exception as error:
        raise RolloutError(f"{settings.id} cannot be made: {str(error).rstrip('.')}.") from error
    try:
        return TextAdapter(env, settings.action_lookup, settings.success_reward)
    except RolloutError as error:
        env.close()
        raise RolloutError(f"{settings.id} cannot be played: {error}") from None
