"""What all adapters share."""

from typing import Any

import gymnasium


class Adapter(gymnasium.Env[Any, Any]):
    """An environment around another one, of any class. What it does not define itself, the inner one answers.

    `gymnasium.Wrapper` takes environments of Gymnasium's class only.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self.metadata = getattr(env, "metadata", None) or {}
        self.spec = getattr(env, "spec", None)
        self.render_mode = getattr(env, "render_mode", "text")

    @property
    def inner(self) -> Any:
        """The environment that is adapted."""
        return self._env

    def close(self) -> None:
        """Its `close`, if it has one."""
        if hasattr(self._env, "close"):
            self._env.close()

    @property
    def unwrapped(self) -> Any:
        """The environment itself: digests use its random stream."""
        return getattr(self._env, "unwrapped", self._env)

    @property
    def np_random(self) -> Any:
        """Its random stream."""
        return self._env.np_random

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self._env.np_random = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # private, or not set yet while this is unpickled
            raise AttributeError(name)
        return getattr(self._env, name)
