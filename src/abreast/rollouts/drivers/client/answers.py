"""From the body of an answer, whole or streamed, to its text and token counts.

What is incomplete or has another form is `Transient`: a server that is restarted or overloaded sends such things.
"""

import json
from collections.abc import AsyncIterable, Mapping
from typing import Any, NamedTuple

from abreast.errors import short
from abreast.rollouts.drivers.client.retries import Transient
from abreast.rollouts.drivers.policies.base import Tokens

LARGEST = 2**26
"""Bytes of an answer. A server that never stops would fill the memory."""
TOO_LARGE = f"the answer is larger than {LARGEST // 2**20} MiB"


class Completion(NamedTuple):
    """An answer of a server."""

    text: str
    tokens: Tokens | None
    """None if the server did not count them."""


def read_whole(body: bytes) -> Completion:
    """The answer in the body of a response that is not streamed."""
    given = _decoded(body)
    try:
        message = given["choices"][0]["message"]
        text = _with_thoughts(_thoughts(message), _text(message))
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Transient(f"the answer is no chat completion, it is {short(given)}") from None
    return Completion(text, _tokens(given))


async def read_stream(lines: AsyncIterable[bytes]) -> Completion:
    """The answer in a stream of server-sent events, line by line."""
    text, thoughts, tokens, has_begun, is_complete, size = "", "", None, False, False, 0
    async for line in lines:
        size += len(line)
        if size > LARGEST:
            raise Transient(TOO_LARGE)
        if not line.startswith(b"data:"):
            continue  # a comment, or the blank line between two events
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            is_complete = True
            break
        event = _decoded(data)
        tokens = _tokens(event) or tokens
        try:
            for choice in event["choices"]:  # the last event may have none, and the token counts
                delta = choice.get("delta") or {}  # without one: what a provider says about the answer
                text += _text(delta)
                thoughts += _thoughts(delta)
                has_begun = True
                is_complete = is_complete or choice.get("finish_reason") is not None
        except (KeyError, TypeError, AttributeError):
            raise Transient(f"an event of the stream is no part of a chat completion, it is {short(event)}") from None
    if not has_begun or not is_complete:
        raise Transient(f"the stream ended after {len(text)} characters, before the answer was complete")
    return Completion(_with_thoughts(thoughts, text), tokens)


def error_text(body: bytes) -> str:
    """What a server says about an error, on one line."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = body.decode(errors="replace")
    for key in ("error", "message", "detail"):
        if isinstance(given, dict) and given.get(key):
            given = given[key]
    text = " ".join(str(given).split()).rstrip(".")
    return text if len(text) <= 300 else f"{text[:297]}..."


def _decoded(data: bytes) -> Any:
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        raise Transient(f"the answer is cut off or no JSON ({len(data)} bytes)") from None
    if isinstance(given, dict) and given.get("error"):  # some servers send errors with status 200
        raise Transient(f"the server says: {error_text(data)}")
    return given


def _text(message: Mapping[str, Any]) -> str:
    text = message.get("content") or ""
    if isinstance(text, list):  # content parts
        text = "".join(part["text"] for part in text)
    if not isinstance(text, str):
        raise TypeError
    return text


def _thoughts(message: Mapping[str, Any]) -> str:
    """What a server with a reasoning parser has taken out of the text; servers differ in the name."""
    thoughts = message.get("reasoning_content") or message.get("reasoning") or ""
    return thoughts if isinstance(thoughts, str) else ""


def _with_thoughts(thoughts: str, text: str) -> str:
    """The text as the model wrote it."""
    return f"<think>{thoughts}</think>{text}" if thoughts and "</think>" not in text else text


def _tokens(given: Any) -> Tokens | None:
    usage = given.get("usage") if isinstance(given, dict) else None
    if not isinstance(usage, dict):
        return None
    counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
    return Tokens(*(count if isinstance(count, int) else 0 for count in counts))
