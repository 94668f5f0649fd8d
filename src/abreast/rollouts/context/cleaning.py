"""Texts without what would break a chat: special tokens, null bytes, halves of characters."""

import re
from collections.abc import Callable, Sequence

from abreast.rollouts.context.config import REPLACEMENT

_NAMED = r"<[|｜][^<>|｜\s]{1,60}[|｜]>"
"""The form that most special tokens have, such as <|im_end|>; DeepSeek's have a wide bar."""


def make_cleaner(special_tokens: Sequence[str]) -> Callable[[str], str]:
    """A function that removes special tokens from a text, and what cannot be sent as UTF-8 or shown."""
    listed = sorted(special_tokens, key=len, reverse=True)  # the longest that fits
    pattern = re.compile("|".join([_NAMED, *map(re.escape, listed)]))

    def clean(text: str) -> str:
        text = _encodable(text).replace("\0", "")
        # What stood around a token may form another one. These are replaced by a character that is part of none, so
        # that two passes are enough, however deep a text is nested.
        return pattern.sub(REPLACEMENT, pattern.sub("", text))

    return clean


def _encodable(text: str) -> str:
    """The text with both halves of a character joined; a half without the other is replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
