"""What all adapters share."""

from collections.abc import Mapping
from typing import Any

import gymnasium

from abreast.errors import RolloutError, short


class Adapter(gymnasium.Env[Any, Any]):
    """An environment around another one, of any class. What it does not define itself, the inner one answers.

    `gymnasium.Wrapper` takes environments of Gymnasium's class only.
    """

    def __init__(self, env: Any) -> None:
        self.inner = env
        """The environment that is adapted."""
        self.metadata = getattr(env, "metadata", None) or {}
        self.spec = getattr(env, "spec", None)
        self.render_mode = getattr(env, "render_mode", "text")

    def close(self) -> None:
        """Its `close`, if it has one."""
        if hasattr(self.inner, "close"):
            self.inner.close()

    @property
    def unwrapped(self) -> Any:
        """The environment itself: digests use its random stream."""
        return getattr(self.inner, "unwrapped", self.inner)

    @property
    def np_random(self) -> Any:
        """Its random stream."""
        return self.inner.np_random

    @np_random.setter
    def np_random(self, value: Any) -> None:
        self.inner.np_random = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "inner":  # private, or not set yet while this is unpickled
            raise AttributeError(name)
        return getattr(self.inner, name)


def two_values(result: Any) -> tuple[Any, dict[str, Any]]:
    """What `reset` returned, in Gymnasium's form: (observation, info)."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping):
        return result[0], dict(result[1])
    return result, {}


def number_of(reward: Any) -> float:
    """Return a reward as a number, or raise a RolloutError that shows the value."""
    try:
        return float(reward)
    except (TypeError, ValueError):
        raise RolloutError(f"its reward is {short(reward)}, expected a finite number.") from None


def five_values(result: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """What `step` returned, in Gymnasium's form: (observation, reward, terminated, truncated, info)."""
    if isinstance(result, tuple) and len(result) == 5:
        return result
    if not isinstance(result, tuple) or len(result) != 4:
        raise RolloutError(
            f"step returned {short(result)}: expected (observation, reward, terminated, truncated, info), or four values"
            " with done, as in old Gym."
        )
    observation, reward, done, info = result
    was_cut = bool(info.get("TimeLimit.truncated", False))
    return observation, number_of(reward), bool(done) and not was_cut, was_cut, info
