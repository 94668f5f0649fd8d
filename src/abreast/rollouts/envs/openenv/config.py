"""Settings of an environment behind an OpenEnv server."""

from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from abreast.rollouts.config import EnvConfig


class RemoteConfig(EnvConfig):
    """Where it is, and how texts become its actions."""

    base_url: str = "http://127.0.0.1:8000"
    """Address of the server, with http or https (ws or wss will do)."""
    action_key: str | None = None
    """The key of an action that the text goes to; null: found in the server's schema (its only text, or action, message)."""
    action: dict[str, Any] = Field(default_factory=dict)
    """Other keys of every action."""
    reset: dict[str, Any] = Field(default_factory=dict)
    """Other keys of every reset, beside the seed."""
    text_key: str | None = None
    """The key of an observation that is shown; null: text, message or the like if it has one, else all of it."""
    timeout: float = Field(60.0, gt=0)
    """Seconds for an answer of the server."""
    reconnect: float = Field(30.0, ge=0)
    """Seconds for which a lost connection is tried again, where the server can take up a session again."""
    replayable: bool = True
    """Whether an episode may be played again on the server after the death of a worker, from its seed and actions. Say false
    for a server that does not honour seeds, or whose actions have effects outside."""

    @field_validator("base_url")
    @classmethod
    def _is_address(cls, given: str) -> str:
        parts = urlsplit(given)
        if parts.scheme not in ("http", "https", "ws", "wss") or not parts.hostname:
            raise ValueError(f"base_url is {given!r}: expected the address of a server, say http://127.0.0.1:8000.")
        return given.replace("ws", "http", 1).rstrip("/") if parts.scheme in ("ws", "wss") else given.rstrip("/")

    @property
    def is_replayable(self) -> bool:
        return self.replayable
