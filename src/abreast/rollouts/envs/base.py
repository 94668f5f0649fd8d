"""What the text environments have in common: the text in sight, whether an episode is under way, and `info`."""

from typing import Any, ClassVar, TypeVar

import gymnasium

from abreast.errors import RolloutError

Action = TypeVar("Action")


class TextEnv(gymnasium.Env[str, Action]):
    """An environment that shows a text. `reset` and `step` set `_text` and `_playing`."""

    metadata = {"render_modes": ["text"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's own form)
    name: ClassVar[str]
    """What it is called in errors."""
    render_mode = "text"
    _text = ""
    _playing = False

    def render(self) -> Any:
        """The text of the state."""
        if not self._text:
            raise RolloutError(f"{self.name} was to be rendered before its first episode: call reset first.")
        return self._text

    def _need_episode(self) -> None:
        if not self._playing:
            raise RolloutError(f"{self.name} was stepped with no episode under way: call reset first.")


def info_of(*, success: bool = False, valid: bool = True, effective: bool = False, **more: Any) -> dict[str, Any]:
    """`info` of a step; of a reset by default."""
    return {"success": success, "action_is_valid": valid, "action_is_effective": effective, **more}
