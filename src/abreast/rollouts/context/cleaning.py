"""Texts without what would break a chat: special tokens, halves of characters, null bytes."""

import re
from collections.abc import Sequence

from abreast.rollouts.context.config import REPLACEMENT

_NAMED = r"<[|｜][^<>|｜\s]{1,60}[|｜]>"
"""The form that most special tokens have, such as <|im_end|>; DeepSeek's have a wide bar."""


class Cleaner:
    """Takes special tokens out of texts, and what cannot be sent as UTF-8."""

    def __init__(self, special_tokens: Sequence[str]) -> None:
        listed = sorted(special_tokens, key=len, reverse=True)  # the longest that fits
        self._special = re.compile("|".join([_NAMED, *map(re.escape, listed)]))

    def __call__(self, text: str) -> str:
        """The text without special tokens."""
        # What stood around a token may form another one. These are replaced by a character that is part of none, so
        # that two passes are enough, however deep a text is nested.
        return self._special.sub(REPLACEMENT, self._special.sub("", encodable(text)))

    def cut(self, text: str) -> tuple[str, str | None]:
        """The text up to its first special token, and that token."""
        text = encodable(text)
        found = self._special.search(text)
        return (text, None) if found is None else (text[: found.start()], found[0])


def encodable(text: str) -> str:
    """The text with both halves of a character joined and null bytes removed; a half without the other is replaced."""
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "")
