"""The first prompt of a tag, as text: for `abreast envs` and the READMEs."""

import json
from collections.abc import Mapping
from typing import Any

from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.context.context import Context
from abreast.rollouts.manager import EnvStateManager


def first_prompt(name: str, config: RolloutConfig | None = None) -> str:
    """Return the messages that ask for the first action of a tag's first episode, in training, and its tools."""
    with (
        EnvStateManager.for_tag(name, config=config, use_multiprocessing=False) as manager,
        manager.episode(seed=manager.config.seed.train) as episode,
    ):
        context = Context(episode.tag)
        tools = [json.dumps(each["function"]) for each in (context.tools.schemas if context.tools else ())]
        return as_text(
            [*context.messages(episode.cache, images="pil"), *({"role": "tool", "content": each} for each in tools)]
        )


def as_text(messages: list[dict[str, Any]]) -> str:
    """Messages as they are shown to people."""
    return "\n\n".join(f"[{message['role']}]\n{_content(message['content'])}" for message in messages)


def _content(content: str | list[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] if part["type"] == "text" else _picture(part) for part in content)


def _picture(part: Mapping[str, Any]) -> str:
    image = part.get("image")
    return "(a picture)" if image is None else f"(a picture of {image.width} x {image.height} pixels)"
