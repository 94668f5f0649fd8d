"""Settings of an environment of Gymnasium."""

import importlib
from typing import Any, Self

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from pydantic import Field, PrivateAttr, model_validator

from abreast.errors import RolloutError, nearest
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

    @model_validator(mode="after")
    def _is_known(self) -> Self:
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
    def shown_mode(self) -> str | None:
        """The render mode for `gymnasium.make`; None: the observation is shown. Human would draw on a screen."""
        entry, wanted = self.spec.entry_point, self.render_mode
        metadata = getattr(load_env_creator(entry) if isinstance(entry, str) else entry, "metadata", None)
        offered = [
            "auto",
            "observation",
            *(mode for mode in (metadata or {}).get("render_modes", ()) if mode != "human"),
        ]
        if wanted == "human" or (metadata is not None and wanted not in offered):
            raise RolloutError(f"render_mode is {wanted!r}, but {self.id} has {', '.join(offered)}: take one of these.")
        if wanted == "auto" and "ansi" in offered:
            return "ansi"
        return None if wanted in ("auto", "observation") else wanted


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
