"""Actions as tools: their JSON schemas, and from the calls in an answer to actions.

    <tool_call>{"name": "act", "arguments": {"action": "Up"}}</tool_call>

A call counts wherever it stands after `</think>`. An answer that is one JSON object of this form, or a list of such, is read
likewise. A call is legal if the tool is known and its arguments are those that the tool has; `parameters` may stand for
`arguments`, whose value may be a text that holds JSON. An answer without a call, or with an illegal one, is not valid.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import RolloutError
from abreast.rollouts.context.parsing import Parsed
from abreast.rollouts.registry import Tag, Tool

CALL = '<tool_call>\n{"name": {name}, "arguments": {arguments}}\n</tool_call>'
"""A call as text, as the templates of many models write it."""
SEE_BELOW = "The state is in the message of the last call."
"""The result of each call of an answer but the last."""
_CALLS = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"\{(\w+)\}")
MOST = 64
"""Calls of an answer that are read."""


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
                    "parameters": {
                        "type": "object",
                        "properties": dict(tool.parameters),
                        "required": list(tool.parameters),
                    },
                },
            }
            for tool in self._by_name.values()
        ]

    def read(self, answer: str) -> Parsed:
        """What an answer says; never raises for a text."""
        before, closed, after = answer.rpartition("</think>")
        if not closed and "<think>" in answer:  # it was cut off while it thought
            return Parsed([], answer, answer, False)
        found = _CALLS.findall(after)
        thought = before + closed + (_CALLS.split(after, maxsplit=1)[0] if found else "")
        calls = [call for text in found[:MOST] or [after] for call in _calls_in(text)][:MOST]
        actions = [action for name, given in calls if (action := self.action(name, given)) is not None]
        if not actions:
            return Parsed([], thought, answer, False)
        kept = actions[: self._max_actions]
        response = thought + "".join(map(self.written, kept))
        return Parsed(kept, thought, response, len(actions) == len(calls))

    def action(self, name: Any, arguments: Any) -> str | None:
        """The action of a call; None if it is not legal."""
        tool = self._by_name.get(name) if isinstance(name, str) else None
        if isinstance(arguments, str):
            arguments = _json_of(arguments or "{}")
        if tool is None or not isinstance(arguments, dict) or arguments.keys() != tool.parameters.keys():
            return None
        if not all(type(value) in (str, int, float, bool) for value in arguments.values()):
            return None
        return _PARAMETER.sub(lambda found: str(arguments[found[1]]), tool.action)

    def written(self, action: str) -> str:
        """An action as the call that takes it; the action itself, if no tool does."""
        for tool in self._by_name.values():
            parts = _PARAMETER.split(tool.action)  # texts and names by turns
            pattern = "".join(f"(?P<{part}>.*)" if place % 2 else re.escape(part) for place, part in enumerate(parts))
            if (found := re.fullmatch(pattern, action, re.DOTALL)) is not None:
                return call_text(tool.name, json.dumps(found.groupdict(), ensure_ascii=False))
        return action


def call_text(name: str, arguments: str) -> str:
    """A call as text; its arguments are JSON."""
    quoted = json.dumps(name, ensure_ascii=False)
    return CALL.replace("{arguments}", arguments or "{}").replace("{name}", quoted, 1)


def call_messages(content: str, calls: Sequence[Mapping[str, str]], turn: int) -> dict[str, Any]:
    """An answer whose calls a server took out of its text."""
    listed = [
        {
            "id": f"call_{turn}_{place}",
            "type": "function",
            "function": {"name": each["name"], "arguments": each["arguments"]},
        }
        for place, each in enumerate(calls)
    ]
    return {"role": "assistant", "content": content, "tool_calls": listed}


def _calls_in(text: str) -> list[tuple[Any, Any]]:
    """Names and arguments of the calls that a JSON text holds; one that is none has no name."""
    given = _json_of(text.strip())
    listed = given if isinstance(given, list) else [given]
    calls = list[tuple[Any, Any]]()
    for each in listed:
        each = each.get("function", each) if isinstance(each, dict) else {}
        if not isinstance(each, dict):
            each = {}
        calls.append((each.get("name"), each.get("arguments", each.get("parameters", {}))))
    return calls


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
