"""Settings of an environment of Gymnasium."""

import importlib
from typing import Any, Self

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from pydantic import Field, PrivateAttr, model_validator

from abreast.errors import nearest
from abreast.rollouts.config import EnvConfig

OBSERVATION = "observation"


class GymnasiumConfig(EnvConfig):
    """Which environment, and how it is shown and judged."""

    id: str = "FrozenLake-v1"
    """Its id in Gymnasium's registry; MODULE:ID imports the module first, which registers it."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Arguments for `gymnasium.make`: the environment's own, and max_episode_steps."""
    render_mode: str = "auto"
    """What is shown: ansi (its text), rgb_array (a picture), another of its modes, observation (the observation as a text), or auto: ansi if it has that, else observation."""  # noqa: E501
    success_reward: float | None = None
    """Sum of rewards from which an episode that has ended is a success. None: its reward_threshold in Gymnasium; if it has none, an episode that terminates with a positive reward."""  # noqa: E501
    action_lookup: dict[int, str] | None = None
    """Names of the actions, by number; then only these are known. None: its own names, if it has some, and numbers."""

    _spec: EnvSpec | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _can_be_shown(self) -> Self:
        if "render_mode" in self.kwargs:
            raise ValueError(
                f"kwargs has render_mode {self.kwargs['render_mode']!r}: give render_mode beside kwargs, not in it."
            )
        if self.render_mode == "human":
            raise ValueError(
                "render_mode human draws on a screen, and nothing can be read from it: take auto, ansi or rgb_array."
            )
        self._spec = _find(self.id)
        return self

    @property
    def spec(self) -> EnvSpec:
        """What Gymnasium knows of it. It is sent to workers, which may not have imported what registers it."""
        return self._spec or _find(self.id)

    @property
    def args(self) -> tuple[Any, ...]:
        """What makes it, named as in a `functools.partial`: `comes_from_main` looks there for the user's script."""
        return (self.spec.entry_point,)

    @property
    def render_modes(self) -> list[str] | None:
        """The render modes of the environment's class; None if it does not say."""
        entry = self.spec.entry_point
        metadata = getattr(load_env_creator(entry) if isinstance(entry, str) else entry, "metadata", None)
        return None if metadata is None else list(metadata.get("render_modes", []))

    @property
    def shown_mode(self) -> str | None:
        """The render mode for `gymnasium.make`; None: the observation is shown."""
        if self.render_mode == "auto":
            return "ansi" if "ansi" in (self.render_modes or ()) else None
        return None if self.render_mode == OBSERVATION else self.render_mode


def _find(name: str) -> EnvSpec:
    module, _, key = name.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ValueError(f"id: {name!r} needs the module {module!r}, which cannot be imported: {error}.") from None
    if key not in gymnasium.registry:
        hint = nearest(key, gymnasium.registry)
        raise ValueError(
            f"id: there is no Gymnasium environment {key!r}: {hint} If a module of yours registers it, give MODULE:ID."
        )
    return gymnasium.registry[key]
