"""Settings of an environment of Gymnasium."""

import importlib
from typing import Any, Self

import gymnasium
from gymnasium.envs.registration import EnvSpec
from pydantic import Field, PrivateAttr, field_validator, model_validator

from abreast.errors import nearest
from abreast.rollouts.config import EnvConfig


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

    @field_validator("id")
    @classmethod
    def _is_registered(cls, name: str) -> str:
        _find(name)
        return name

    @field_validator("kwargs")
    @classmethod
    def _has_no_render_mode(cls, kwargs: dict[str, Any]) -> dict[str, Any]:
        if "render_mode" in kwargs:
            raise ValueError(
                f"it has render_mode {kwargs['render_mode']!r}: give render_mode beside kwargs, not in it."
            )
        return kwargs

    @field_validator("render_mode")
    @classmethod
    def _needs_no_screen(cls, mode: str) -> str:
        if mode == "human":
            raise ValueError("human draws on a screen, and nothing can be read from it: take auto, ansi or rgb_array.")
        return mode

    @model_validator(mode="after")
    def _keep_spec(self) -> Self:
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


def _find(name: str) -> EnvSpec:
    module, _, key = name.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ValueError(f"{name!r} needs the module {module!r}, which cannot be imported: {error}.") from None
    if key not in gymnasium.registry:
        ids = sorted(gymnasium.registry)
        hint = nearest(key, ids)
        if "did you mean" not in hint:
            hint = "gymnasium.pprint_registry() lists them. If a module of yours registers it, give MODULE:ID."
        raise ValueError(f"there is no Gymnasium environment {key!r}: {hint}")
    return gymnasium.registry[key]
