"""From the body of a response to an answer. A streamed body holds many events, any other is one event: one loop reads both.

What is incomplete or has another form is `Transient`: a server that is restarted or overloaded sends such things.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from abreast.rollouts.drivers.client.retries import Transient
from abreast.rollouts.drivers.policies.base import Tokens

MOST_TOKENS = 10**9
"""Of one request; a server that counts more, or less than none, has not counted."""


class Completion(NamedTuple):
    """What a server has answered."""

    text: str
    tokens: Tokens | None
    """None if it has not counted them."""
    finish_reason: str | None
    tool_calls: list[tuple[str, str]]
    """The name of each tool that the model called, and its arguments in JSON."""


def read_answer(body: bytes, is_stream: bool = False) -> Completion:
    """The answer in the body of a response with status 200."""
    events = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")] if is_stream else [body]
    texts, thoughts, calls = list[str](), list[str](), dict[Any, tuple[list[str], list[str]]]()
    tokens, reason, has_begun = None, "", False
    for event in map(_decoded, (event for event in events if event != b"[DONE]")):
        try:
            tokens = _tokens(event.get("usage")) or tokens
            for choice in event["choices"][:1]:  # the last event of a stream may have none, and the token counts
                message = choice.get("delta") or {} if is_stream else choice["message"]
                texts.append(_text(message.get("content") or message.get("refusal")))
                thoughts.append(_text(message.get("reasoning_content") or message.get("reasoning")))
                _gather_calls(message, calls)
                reason, has_begun = _text(choice.get("finish_reason") or reason)[:40], True
        except (KeyError, TypeError, AttributeError):
            raise Transient("the answer is no chat completion", str(event)) from None
    text, thought = "".join(texts), "".join(thoughts)
    if not has_begun or (is_stream and not reason and b"[DONE]" not in events):
        raise Transient("the answer ended before it was complete", f"after {len(text)} characters")
    if thought and "</think>" not in text:  # a server with a reasoning parser has taken it out of the text
        text = f"<think>{thought}</think>{text}"
    called = [("".join(name)[:80], "".join(arguments)) for name, arguments in calls.values()]
    return Completion(text, tokens, reason or None, called)


def error_text(body: bytes) -> str:
    """What a server says about an error."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = body.decode(errors="replace")
    for key in ("error", "message", "detail"):
        given = given.get(key) or given if isinstance(given, dict) else given
    return str(given)


def _decoded(data: bytes) -> Any:
    try:
        given = json.loads(data)
    except (ValueError, RecursionError):
        raise Transient("the answer is cut off or no JSON", f"{len(data)} bytes") from None
    if isinstance(given, dict) and given.get("error"):  # some servers send errors with status 200
        raise Transient("the server reports an error", error_text(data))
    return given


def _text(given: Any) -> str:
    """A text, or the texts of content parts."""
    return "".join(part["text"] for part in given) if isinstance(given, list) else "" + (given or "")


def _gather_calls(message: Mapping[str, Any], calls: dict[Any, tuple[list[str], list[str]]]) -> None:
    """Add the tool calls of a message, or the pieces of them in an event of a stream, by the number of the call."""
    older = [{"index": 0, "function": message["function_call"]}] if message.get("function_call") else ()
    for piece in message.get("tool_calls") or older:
        name, arguments = calls.setdefault(piece.get("index", len(calls)), ([], []))
        given = piece["function"].get("arguments")
        name.append(_text(piece["function"].get("name")))
        arguments.append(json.dumps(given) if isinstance(given, dict) else _text(given))


def _tokens(usage: Any) -> Tokens | None:
    counts = [usage.get(key) for key in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else [None]
    return Tokens(*counts) if all(type(count) is int and 0 <= count <= MOST_TOKENS for count in counts) else None
