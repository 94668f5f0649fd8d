"""What an environment itself has returned, sent along in `info`: for those who need the observation, not what is shown."""

from hashlib import blake2b
from typing import Any

from abreast.codec import decode_message, encode_message
from abreast.errors import StateError
from abreast.rollouts.adapters.actions import Actions
from abreast.rollouts.adapters.base import Adapter, five_values, two_values
from abreast.rollouts.adapters.text import SILENT_MODES, TextAdapter

REPORT = "abreast.report"
"""Key of `info`, which has no others but `success`; `read_report` reads it."""


class Reporter(Adapter):
    """Plays an environment by texts, and returns what it has returned, as bytes: a copy, and cheaper than a deep copy.

    Nothing is added to its info. If it draws nothing, a digest of the report is shown: a text would take longer.
    """

    def __init__(self, env: Any) -> None:
        is_text = isinstance(env, TextAdapter)
        super().__init__(env.inner if is_text else env)
        self._actions: Actions | None = env.actions if is_text else None
        if is_text:
            self.action_space = env.action_space
            self.knows_action = env.knows_action
        self._drawn_by = env if self.render_mode not in SILENT_MODES else None
        self.render_mode = self.render_mode if self._drawn_by is not None else "text"
        self._report: Any = b""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = two_values(self.inner.reset(seed=seed))
        self._report = _packed((observation, info))
        return observation, {REPORT: self._report}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, with the action that a text names, if the environment takes no texts."""
        known = action if self._actions is None else self._actions.read(action)
        observation, reward, terminated, truncated, info = five_values(self.inner.step(known))
        self._report = _packed((observation, reward, terminated, truncated, info))
        told = {REPORT: self._report, "success": bool(info.get("success", False))}
        return observation, reward, terminated, truncated, told

    def render(self) -> Any:
        """What it draws, if it draws."""
        if self._drawn_by is not None:
            return self._drawn_by.render()
        return blake2b(self._report, digest_size=16).hexdigest() if isinstance(self._report, bytes) else ""


def read_report(report: Any) -> Any:
    """(observation, info) of a reset, (observation, reward, terminated, truncated, info) of a step."""
    return decode_message(report) if isinstance(report, bytes) else report


def _packed(values: tuple[Any, ...]) -> Any:
    """As bytes, or as it is if something in it cannot be sent: then its environment lives in the main process."""
    try:
        return encode_message(values)
    except StateError:
        return values
