"""The first prompt of a tag, as text: for `abreast envs` and the READMEs."""

from collections.abc import Mapping
from typing import Any

from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.context.context import Context
from abreast.rollouts.manager import EnvStateManager


def first_prompt(name: str, config: RolloutConfig | None = None) -> str:
    """The messages that ask for the first action of a tag's first episode, in training."""
    given = config or RolloutConfig()
    groups = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": [name], "n_groups": [1]}}
    alone = given.es_manager.model_copy(
        update={"use_multiprocessing": False, "train": type(given.es_manager.train).parse(groups)}
    )
    with EnvStateManager(given.model_copy(update={"es_manager": alone})) as manager:
        (cache,) = manager.reset()
        return as_text(Context(manager.tag_of(0)).messages(cache, images="pil"))


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
