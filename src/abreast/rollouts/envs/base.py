"""What the text environments have in common: the text in sight, whether an episode is under way, and `info`."""

from typing import Any, TypeVar

import gymnasium

from abreast.errors import RolloutError

Action = TypeVar("Action")
Taken = tuple[float, bool, bool, dict[str, Any]]
"""Reward, terminated, truncated and info."""


class TextEnv(gymnasium.Env[str, Action]):
    """An environment that shows a text. Its class defines `_begin` and `_take`, and both set `_text`."""

    metadata = {"render_modes": ["text"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's own form)
    render_mode = "text"
    _text = ""
    _playing = False

    def _begin(self, seed: int | None) -> dict[str, Any]:
        """Begin an episode; returns `info`."""
        raise NotImplementedError

    def _take(self, action: Any) -> Taken:
        """Take an action, of whatever type."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        info = self._begin(seed)
        self._playing = True
        return self._text, info

    def step(self, action: Action) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise RolloutError(f"{type(self).__name__} was stepped with no episode under way: call reset first.")
        reward, terminated, truncated, info = self._take(action)
        self._playing = not (terminated or truncated)
        return self._text, reward, terminated, truncated, info

    def render(self) -> Any:
        """The text of the state."""
        if not self._text:
            raise RolloutError(f"{type(self).__name__} was to be rendered before its first episode: call reset first.")
        return self._text


def info_of(*, success: bool = False, valid: bool = True, effective: bool = False, **more: Any) -> dict[str, Any]:
    """`info` of a step; of a reset by default."""
    return {"success": success, "action_is_valid": valid, "action_is_effective": effective, **more}
