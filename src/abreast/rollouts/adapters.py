"""Environments of another shape, made to fit."""

from typing import Any

import gymnasium


class FourTuple(gymnasium.Env[Any, Any]):
    """An environment from before Gymnasium: `reset()` gives an observation, `step` gives (observation, reward, done, info).

    Seeds reach it through its method `seed`, if it has one; else `abreast check` will find that it ignores them.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.render_mode = getattr(env, "render_mode", "text")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed)
        if seed is not None and hasattr(self._env, "seed"):
            self._env.seed(seed)
        return self._env.reset(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step. An episode cut by a time limit says so in its info, as those environments did."""
        observation, reward, done, info = self._env.step(action)
        was_cut = bool(info.get("TimeLimit.truncated", False))
        return observation, float(reward), bool(done) and not was_cut, was_cut, info

    def render(self) -> Any:
        """What it shows."""
        return self._env.render()

    def close(self) -> None:
        """Let it clean up."""
        if hasattr(self._env, "close"):
            self._env.close()

    @property
    def unwrapped(self) -> Any:
        """The environment itself, whose random stream is the one that counts."""
        return getattr(self._env, "unwrapped", self._env)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # its own, or not there yet, while a pickle of this is being read
            raise AttributeError(name)
        return getattr(self._env, name)
