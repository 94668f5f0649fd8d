"""Actions as tools: their JSON schemas, from the calls in an answer to actions, and what came of each call.

    <tool_call>{"name": "act", "arguments": {"action": "Up"}}</tool_call>

A call counts wherever it stands after `</think>`. An answer that is one JSON object of this form, or a list of such, is read
likewise. A call is valid if the tool is known and its arguments follow the JSON schema of the tool; `parameters` may stand
for `arguments`, whose value may be a text that holds JSON. An answer without a call, or with an invalid one, is not valid.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from abreast.errors import RolloutError, nearest, short
from abreast.rollouts.context.parsing import Parsed
from abreast.rollouts.context.schema import fault_of
from abreast.rollouts.registry import Tag, Tool

CALL = '<tool_call>\n{"name": {name}, "arguments": {arguments}}\n</tool_call>'
"""A call as text, as the templates of many models write it."""
_CALLS = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"\{(\w+)\}")
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
"""What the name of a function may not hold in a request of OpenAI's form."""
MOST = 64
"""Calls of an answer that are read."""

Call = dict[str, Any]
"""A call: `name`, `arguments` (a text, JSON unless it is broken), `action` (None if the call is not valid), and `why` it is
not executed, or an empty text."""


def tools_of(tag: Tag) -> Sequence[Tool]:
    """The tools of a tag: those its type declares, or one that takes an action, of those that there are."""
    if tag.kind.tools is not None:
        return tag.kind.tools(tag.config)
    names = (tag.config.action_lookup or {}).values()
    listed = tag.kind.listed_actions(tag.config) if tag.kind.listed_actions is not None else names
    said: dict[str, Any] = {"type": "string", "description": "The action to take."}
    if listed:  # by name, as in prompts: the place of an action might give it away
        said["enum"] = sorted(listed, key=str.casefold)
    return (Tool("act", "Take an action in the game, and see what comes of it.", {"action": said}, "{action}"),)


class Tools:
    """The tools of a tag: what a template or a server is given, and how calls are read and written."""

    def __init__(self, tag: Tag, max_actions: int) -> None:
        self._by_name = {tool.name: tool for tool in tools_of(tag)}
        self._max_actions = max_actions
        for tool in self._by_name.values():
            unknown = set(_PARAMETER.findall(tool.action)) ^ set(tool.parameters)
            if unknown:
                raise RolloutError(
                    f"the tool {tool.name!r} of {tag.name} has the parameters {', '.join(tool.parameters)}, but its action"
                    f" is {tool.action!r}: expected each of them in braces there, and no others."
                )

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """As `apply_chat_template(tools=...)` and the requests of OpenAI's form take them."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.arguments,
                },
            }
            for tool in self._by_name.values()
        ]

    def read(self, answer: str, taken: Sequence[tuple[str, Any]] = ()) -> tuple[Parsed, list[Call]]:
        """Return what an answer says, and its calls; never raises for a text.

        Args:
            answer: the text of a model.
            taken: names and arguments of calls that a server has taken out of the text; if there are any, the text is
                not searched for calls.
        """
        before, closed, after = answer.rpartition("</think>")
        if not taken and not closed and "<think>" in answer:  # it was cut off while it thought
            return Parsed([], answer, answer, False), []
        found = [] if taken else _CALLS.findall(after)
        thought = answer if taken else before + closed + (_CALLS.split(after, maxsplit=1)[0] if found else "")
        given = taken or [call for text in found or [after] for call in _calls_in(text, bool(found))]
        calls = [self._call(name, arguments) for name, arguments in given[:MOST]]
        valid = [call for call in calls if not call["why"]]
        for call in valid[self._max_actions :]:
            call["why"] = f"an answer may have at most this many valid calls: {self._max_actions}."
        kept = [str(call["action"]) for call in valid[: self._max_actions]]
        response = self.form(thought, kept) if kept else answer
        return Parsed(kept, thought, response, bool(kept) and len(valid) == len(calls)), calls

    def _call(self, name: Any, arguments: Any) -> Call:
        """Return a call with its action, or with what is wrong with it."""
        tool = self._by_name.get(name) if isinstance(name, str) else None
        given = _json_of(arguments or "{}") if isinstance(arguments, str) else arguments
        if not name:
            why = f"the call is {short(arguments)}: it must be a JSON object with a name and arguments."
        elif tool is None:
            why = f"there is no tool {short(name)}: {nearest(str(name), self._by_name)}"
        elif not isinstance(given, dict):
            why = f"the arguments are {short(arguments)}: they must be a JSON object."
        else:
            why = fault_of(given, {**tool.arguments, "additionalProperties": False}, "arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        if tool is None or why:
            return {"name": str(name or ""), "arguments": text, "action": None, "why": why}
        texts = {key: _text_of(given[key], schema) for key, schema in tool.parameters.items()}
        action = _PARAMETER.sub(lambda found: texts[found[1]], tool.action)
        return {"name": tool.name, "arguments": text, "action": action, "why": ""}

    def form(self, think: str, actions: Sequence[str]) -> str:
        """An answer in its normal form."""
        return think + "".join(map(self.written, actions))

    def written(self, action: str) -> str:
        """An action as the call that takes it; the action itself, if no tool does."""
        for tool in self._by_name.values():
            parts = _PARAMETER.split(tool.action)  # texts and names by turns
            pattern = "".join(f"(?P<{part}>.*)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
            if (found := re.fullmatch(pattern, action, re.DOTALL)) is not None:
                texts = found.groupdict()
                typed = {key: texts[key] if (value := _json_of(texts[key])) is None else value for key in texts}
                given = texts if fault_of(typed, tool.arguments, "") else typed
                return call_text(tool.name, json.dumps(given, ensure_ascii=False))
        return action


def call_text(name: str, arguments: str) -> str:
    """Return a call as text; arguments that are no JSON object stand in it as a JSON string."""
    quoted, given = json.dumps(name, ensure_ascii=False), arguments or "{}"
    given = given if isinstance(_json_of(given), dict) else json.dumps(given, ensure_ascii=False)
    return CALL.replace("{arguments}", given).replace("{name}", quoted, 1)


def call_messages(content: str, calls: Sequence[Mapping[str, Any]], turn: int) -> dict[str, Any]:
    """Return the message of an answer whose calls a server took out of its text.

    Servers refuse names and arguments that are not well-formed, and with them all later turns: arguments that are no JSON
    object are sent as an empty one, and the result of the call tells what they were.
    """
    listed = [
        {
            "id": f"call_{turn}_{place}",
            "type": "function",
            "function": {
                "name": _NO_NAME.sub("_", each["name"])[:64] or "_",
                "arguments": each["arguments"] if isinstance(_json_of(each["arguments"]), dict) else "{}",
            },
        }
        for place, each in enumerate(calls)
    ]
    return {"role": "assistant", "content": content, "tool_calls": listed}


def _calls_in(text: str, is_call: bool) -> list[tuple[Any, Any]]:
    """Return names and arguments of the calls that a JSON text holds.

    What has no name is a call, with the text itself as arguments, if the text was marked as a call (`is_call`) or stands
    beside a call that has one.
    """
    given = _json_of(text.strip())
    calls = list[tuple[Any, Any]]()
    for each in given if isinstance(given, list) else [given]:
        each = each.get("function", each) if isinstance(each, dict) else {}
        has_name = isinstance(each, dict) and bool(each.get("name"))
        calls.append(
            (each["name"], each.get("arguments", each.get("parameters", {}))) if has_name else (None, text.strip())
        )
    return calls if is_call or any(name is not None for name, _ in calls) else []


def _text_of(value: Any, schema: Mapping[str, Any]) -> str:
    """Return an argument as it stands in an action: lists, objects and null are JSON there, and the integer 2.0 is 2."""
    if value is None or isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(int(value) if schema.get("type") == "integer" else value)


def _json_of(text: str) -> Any:
    """Return what a JSON text holds, or None if it is none, as with NaN, which Python's own module reads."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
