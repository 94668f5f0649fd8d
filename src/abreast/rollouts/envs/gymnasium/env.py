"""Makes an environment of Gymnasium, adapted to texts."""

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.spaces import Discrete, MultiDiscrete, Text

from abreast.errors import RolloutError, short
from abreast.rollouts.adapters.actions import refusal
from abreast.rollouts.adapters.text import TextAdapter
from abreast.rollouts.envs.gymnasium.config import OBSERVATION, GymnasiumConfig


def make(config: GymnasiumConfig | Mapping[str, Any] | None = None) -> TextAdapter:
    """Make it.

    env = make({"id": "FrozenLake-v1", "action_lookup": {0: "Left", 1: "Down", 2: "Right", 3: "Up"}})
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(2)
    """
    settings = GymnasiumConfig.parse({} if config is None else config)
    kwargs = {
        "disable_env_checker": True,
        **settings.kwargs,
    }  # it warns, once for each of hundreds; `abreast check` tells
    try:
        mode = _render_mode(settings)
        if mode is not None:  # not every environment takes a render mode
            kwargs["render_mode"] = mode
        env = gymnasium.make(settings.spec, **kwargs)
    except RolloutError:
        raise
    except Exception as error:
        raise RolloutError(f"{settings.id} cannot be made: {str(error).rstrip('.')}.") from error
    try:
        _check_actions(settings, env.action_space)
    except RolloutError:
        env.close()
        raise
    return TextAdapter(env, settings.action_lookup, settings.success_reward)


def _render_mode(config: GymnasiumConfig) -> str | None:
    """The mode for `gymnasium.make`, if the environment has it."""
    mode, modes = config.shown_mode, config.render_modes
    if mode is not None and modes is not None and mode not in modes:
        offered = [each for each in modes if each != "human"]
        raise RolloutError(
            f"render_mode is {mode!r}, but {config.id} has {', '.join([OBSERVATION, *offered])}: take one of these, or auto."
        )
    return mode


def _check_actions(config: GymnasiumConfig, space: Any) -> None:
    """Refuse spaces that texts cannot name, and names of actions that there are not."""
    if not isinstance(space, Discrete | MultiDiscrete | Text):
        raise RolloutError(f"{config.id} cannot be played: {refusal(space)}")
    if config.action_lookup is None:
        return
    if not isinstance(space, Discrete):
        raise RolloutError(
            f"action_lookup names single numbers, but an action of {config.id} is {short(space)}: leave it out."
        )
    unknown = [number for number in config.action_lookup if number not in space]
    if unknown:
        first, last = int(space.start), int(space.start + space.n - 1)
        raise RolloutError(
            f"action_lookup names the action {unknown[0]}, but those of {config.id} are {first} to {last}: leave it out."
        )
