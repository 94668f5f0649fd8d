"""Trajectories in the form that trainers read: one row an episode, or one a turn, as JSONL or Parquet.

A row of an episode
    episode, group_id, tag, env_type, seed, success, reward, penalty, score, terminated, truncated, error,
    num_actions, num_turns
    messages        the whole chat: role and content; a picture is <image> there, and a file name in `images`
    answers         as the model wrote them; actions of other policies in the form that a model would write
    rewards         of each turn, penalties included
    prompt_tokens, completion_tokens     as the server counted them
    policy, model   who played, as `abreast rollout` was told; empty for the episodes of a manager
    abreast_version, config_digest
    input_ids, loss_mask, token_rewards  with a tokenizer; the mask is 1 for what the model wrote

A row of a turn has `turn`, the `messages` of its prompt, `answer` and `turn_reward` in place of answers and rewards. It is
what the model saw, also with a history window, or with a chat template that removes earlier reasoning.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import count, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from abreast.errors import RolloutError
from abreast.files import write_whole
from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.context.context import Context
from abreast.rollouts.context.tokens import Tokens as Tokenized
from abreast.rollouts.context.tokens import tokenize, tokenize_turns
from abreast.rollouts.drivers.lines import Line, dumps, find_file, line_of, read_lines, save_picture
from abreast.rollouts.drivers.parquet import to_parquet
from abreast.rollouts.drivers.policies.base import Played, Tokens
from abreast.rollouts.drivers.trajectories import read_run
from abreast.rollouts.manager import EnvStateManager
from abreast.rollouts.registry import Tag, find_tag
from abreast.settings import read_yaml

PICTURE = "<image>"
"""Stands in a text for a picture."""


class Source(NamedTuple):
    """Where rows come from."""

    lines: list[Line]
    tags: Mapping[str, Tag]
    config: RolloutConfig
    abreast_version: str
    policy: str | None = None
    model: str | None = None


def export(
    source: EnvStateManager | Path | str | Source, path: Path | str, tokenizer: Any = None, per_turn: bool = False
) -> int:
    """Write the episodes of a manager, or of a run folder, to a file; returns the number of rows.

    The suffix says the format: .jsonl or .parquet. The file is whole, or not there. `tokenizer` is one of Hugging Face's
    shape, with a chat template.
    """
    path = Path(path)
    if path.suffix not in (".jsonl", ".parquet"):
        raise RolloutError(f"cannot export to {path}: expected a name that ends with .jsonl or .parquet.")
    if isinstance(source, EnvStateManager):
        source = of_manager(source, path)
    elif not isinstance(source, Source):
        source = of_run(Path(source))
    rows = [row for line in source.lines for row in _rows(source, line, tokenizer, per_turn)]
    data = to_parquet(rows, per_turn, tokenizer is not None) if path.suffix == ".parquet" else _to_jsonl(rows)
    write_whole(path, data)
    return len(rows)


def of_run(run: Path) -> Source:
    """The episodes of a run folder."""
    path = find_file(run)
    if not (path.parent / "config.yaml").is_file():
        raise RolloutError(
            f"{path.parent} has no config.yaml, which says what the tags are: give the run folder as it was written."
        )
    has_play = (path.parent / "rollout.yaml").is_file()
    begun = read_run(path.parent) if has_play else None
    config = begun.config if begun else RolloutConfig.parse(read_yaml(path.parent / "config.yaml"))
    lines = sorted(read_lines(path).lines, key=lambda line: int(line["episode"]))
    tags = {
        name: find_tag(name, config.custom_envs, preset=config.preset, context=config.context)
        for name in {line["tag"] for line in lines}
    }
    if begun is None:
        return Source(lines, tags, config, "unknown")
    return Source(lines, tags, config, begun.version, begun.play.policy, begun.play.server.model)


def of_manager(manager: EnvStateManager, path: Path) -> Source:
    """The episodes that a manager has now, over or not; pictures are written to a folder beside the file."""
    names = (f"{path.stem}_images/{number:06d}.png" for number in count())
    lines = []
    for env in manager.envs:
        if env.history:
            answers = [entry.get("llm_raw_response") or entry["actions"] for entry in env.history if "actions" in entry]
            played = Played(
                number=env.env_id, group_id=env.cache["group_id"], seed=env.seed, tag=env.tag, truncated=env.truncated,
                error=env.error, is_unanswered=False, num_actions=env.tally.executed, tally=env.tally, cache=env.cache,
                answers=answers, tokens=Tokens(), is_over=env.terminated,
            )  # fmt: skip
            lines.append(line_of(played, lambda image: save_picture(image, path.parent, next(names))))
    return Source(lines, dict(manager.tags), manager.config, version("abreast"))


# ---- rows


def _rows(source: Source, line: Line, tokenizer: Any, per_turn: bool) -> Iterable[dict[str, Any]]:
    tag, tokens = source.tags[line["tag"]], line["tokens"]
    said = [message["content"] for message in line["messages"] if message["role"] == "assistant"]
    answers = [given if isinstance(given, str) else shown for given, shown in zip(line["answers"], said, strict=False)]
    about = {
        "episode": line["episode"],
        "group_id": line["group_id"],
        "tag": tag.name,
        "env_type": tag.kind.name,
        "seed": line["seed"],
        "success": line["success"],
        "reward": float(line["reward"]),
        "penalty": float(line["penalty"]),
        "score": float(line["score"]),
        "terminated": line["terminated"],
        "truncated": line["truncated"],
        "error": line["error"],
        "num_actions": line["num_actions"],
        "num_turns": len(answers),
        "prompt_tokens": tokens.get("prompt", 0),
        "completion_tokens": tokens.get("completion", 0),
        "policy": source.policy,
        "model": source.model,
        "abreast_version": source.abreast_version,
        "config_digest": digest_of(source.config),
    }
    if per_turn:
        prompts = [line["messages"][:shown] if isinstance(shown, int) else shown for shown in line["prompts"]]
        rows = [
            {"turn": turn, **_texts(prompt), "answer": answer, "turn_reward": reward}
            for turn, (prompt, answer, reward) in enumerate(zip(prompts, answers, line["rewards"], strict=False))
        ]
    else:
        rows = [{**_texts(line["messages"]), "answers": answers, "rewards": line["rewards"]}]
    made = _tokens(Context(tag), line, tokenizer, per_turn) if tokenizer is not None and answers else []
    none: dict[str, list[Any]] = {} if tokenizer is None else {"input_ids": [], "loss_mask": [], "token_rewards": []}
    for row, ids in zip_longest(rows, made):
        trained = (
            {"input_ids": ids.input_ids, "loss_mask": ids.loss_mask, "token_rewards": ids.rewards} if ids else none
        )
        yield {**about, **row, **trained}


def _tokens(context: Context, line: Line, tokenizer: Any, per_turn: bool) -> list[Tokenized]:
    cache = {"history": line["history"], "penalty": line["penalty"], "info": line["info"]}
    return tokenize_turns(context, cache, tokenizer) if per_turn else [tokenize(context, cache, tokenizer)]


def _texts(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Messages whose contents are texts, and the pictures in them, in order."""
    texts, images = [], list[str]()
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            images += [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
            content = "".join(part["text"] if part["type"] == "text" else PICTURE for part in content)
        texts.append({"role": message["role"], "content": content})
    return {"messages": texts, "images": images}


def digest_of(config: RolloutConfig) -> str:
    """The same for configurations that give the same episodes: where environments run, and how many, does not count."""
    values = config.model_dump(mode="json")
    values["es_manager"] = {"format_penalty": config.es_manager.format_penalty}
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _to_jsonl(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(dumps(row) + b"\n" for row in rows)
