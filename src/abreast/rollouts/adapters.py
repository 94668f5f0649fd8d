"""Adapters for environments that do not follow Gymnasium's interface."""

from typing import Any

import gymnasium


class FourTuple(gymnasium.Env[Any, Any]):
    """Wraps an old Gym environment: `reset()` returns an observation, `step` (observation, reward, done, info).

    Seeds are passed to its method `seed`, if it has one; else `abreast check` will find that it ignores them.
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
        """Take a step. `info["TimeLimit.truncated"]` says that a time limit ended the episode."""
        observation, reward, done, info = self._env.step(action)
        was_cut = bool(info.get("TimeLimit.truncated", False))
        return observation, float(reward), bool(done) and not was_cut, was_cut, info

    def render(self) -> Any:
        """Its `render`."""
        return self._env.render()

    def close(self) -> None:
        """Its `close`, if it has one."""
        if hasattr(self._env, "close"):
            self._env.close()

    @property
    def unwrapped(self) -> Any:
        """The environment itself: digests use its random stream."""
        return getattr(self._env, "unwrapped", self._env)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # private, or not set yet while this is unpickled
            raise AttributeError(name)
        return getattr(self._env, name)
