"""Stub."""

from typing import Any


class Resumability:
    def __init__(self, game: Any) -> None:
        pass

    def reason(self) -> str | None:
        return None
