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
    sampling        the settings that the server was sent, as JSON
    finish_reasons  why each answer ended, as the server says (one: `finish_reason`, in a row of a turn)
    input_ids, loss_mask, token_rewards  with a tokenizer, or as the server told them (server.keep_tokens), which nothing
                    tokenises again; the mask is 1 for what the model wrote
    logprobs        of each token, as the server told them; null for tokens that it did not sample, or if it told none

A row of a turn has `turn`, the `messages` of its prompt, `answer` and `turn_reward` in place of answers and rewards. It is
what the model saw, also with a history window, or with a chat template that removes earlier reasoning.
"""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from abreast.errors import RolloutError, log
from abreast.files import write_whole
from abreast.plugins import import_extra
from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.context.cleaning import encodable
from abreast.rollouts.context.context import Context
from abreast.rollouts.context.sampled import recorded, recorded_turns
from abreast.rollouts.context.tokens import Tokens as Tokenized
from abreast.rollouts.context.tokens import tokenize, tokenize_turns
from abreast.rollouts.context.tools import call_text
from abreast.rollouts.drivers.lines import Line, encode, find_file, line_of, read_lines, save_picture
from abreast.rollouts.drivers.policies.base import Played, Tokens
from abreast.rollouts.drivers.trajectories import read_run
from abreast.rollouts.manager import EnvStateManager
from abreast.rollouts.registry import Tag, find_tag

NONE = Tokenized([], [], [], [], 0)
PICTURE = "<image>"
"""Stands in a text for a picture."""


class Source(NamedTuple):
    """Where rows come from."""

    lines: list[Line]
    tags: Mapping[str, Tag]
    shared: dict[str, Any]
    """What all rows have: policy, model, abreast_version, config_digest."""


def export(
    source: EnvStateManager | Path | str | Source,
    path: Path | str,
    tokenizer: Any = None,
    per_turn: bool = False,
    skipped: dict[int, str] | None = None,
) -> int:
    """Write the episodes of a manager, or of a run folder, to a file; returns the number of rows.

    The file is whole, or not there. An episode that cannot be exported is skipped, and the log says which and why. If that
    is true of all, an error is raised.

    Args:
        source: where the episodes come from.
        path: name of the file; its suffix says the format: .jsonl or .parquet.
        tokenizer: a tokenizer of Hugging Face's shape, with a chat template.
        per_turn: whether there is a row for each turn, not for each episode.
        skipped: filled with the numbers of the episodes that are skipped, and why.
    """
    path = Path(path)
    if path.suffix not in (".jsonl", ".parquet"):
        raise RolloutError(f"cannot export to {path}: expected a name that ends with .jsonl or .parquet.")
    if isinstance(source, EnvStateManager):
        source = of_manager(source, path)
    elif not isinstance(source, Source):
        source = of_run(Path(source))
    rows, skipped = list[dict[str, Any]](), {} if skipped is None else skipped
    for line in source.lines:
        try:
            rows += _rows(source, line, tokenizer, per_turn)
        except RolloutError as error:
            skipped[line["episode"]] = str(error)
    if skipped and len(skipped) == len(source.lines):
        raise RolloutError(f"no episode could be exported to {path}: {next(iter(skipped.values()))}")
    for why in dict.fromkeys(skipped.values()):
        which = [number for number in skipped if skipped[number] == why]
        log.warning(
            "%d of %d episodes are not in %s, because %s Skipped: %s",
            len(which),
            len(source.lines),
            path,
            why,
            ", ".join(map(str, which)),
        )
    is_parquet, has_tokens = path.suffix == ".parquet", any("input_ids" in row for row in rows) or tokenizer is not None
    write_whole(path, _to_parquet(rows, per_turn, has_tokens) if is_parquet else b"".join(map(encode, rows)))
    return len(rows)


def of_run(run: Path) -> Source:
    """The episodes of a run folder."""
    path = find_file(run)
    config, play, version_ = read_run(path.parent)
    lines = sorted(read_lines(path)[0], key=lambda line: int(line["episode"]))
    tags = {
        name: find_tag(name, config.custom_envs, preset=config.preset, context=config.context)
        for name in {line["tag"] for line in lines}
    }
    return Source(lines, tags, _shared(config, version_, play.policy, play.server.model))


def of_manager(manager: EnvStateManager, path: Path) -> Source:
    """The episodes that a manager has now, over or not; pictures are written to a folder beside the file."""
    names = (f"{path.stem}_images/{number:06d}.png" for number in count())
    lines = []
    for env in manager.envs:
        if env.history:
            answers = [entry.get("llm_raw_response") or entry["actions"] for entry in env.history if "actions" in entry]
            played = Played(
                number=env.env_id, group_id=env.cache["group_id"], seed=env.seed, tag=env.tag, truncated=env.truncated,
                error=env.error, is_unanswered=False, tally=env.tally, cache=env.cache,
                answers=answers, tokens=Tokens(), is_over=env.terminated,
            )  # fmt: skip
            lines.append(line_of(played, lambda image: save_picture(image, path.parent, next(names))))
    return Source(lines, manager.tags, _shared(manager.config, version("abreast")))


def _shared(config: RolloutConfig, version: str, policy: str | None = None, model: str | None = None) -> dict[str, Any]:
    return {"policy": policy, "model": model, "abreast_version": version, "config_digest": digest_of(config)}


# ---- rows


def _rows(source: Source, line: Line, tokenizer: Any, per_turn: bool) -> list[dict[str, Any]]:
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
        **source.shared,
        "sampling": json.dumps(line["sampling"]) if line.get("sampling") else None,
    }
    reasons = [entry.get("finish_reason") for entry in line["history"][: len(answers)]]
    if per_turn:
        prompts = [line["messages"][:shown] if isinstance(shown, int) else shown for shown in line["prompts"]]
        rows = [
            {"turn": turn, **_texts(prompt), "answer": answer, "turn_reward": reward, "finish_reason": reason}
            for turn, (prompt, answer, reward, reason) in enumerate(
                zip(prompts, answers, line["rewards"], reasons, strict=False)
            )
        ]
    else:
        rows = [{**_texts(line["messages"]), "answers": answers, "rewards": line["rewards"], "finish_reasons": reasons}]
    made = _tokens(Context(tag), {key: line[key] for key in ("history", "penalty", "info")}, tokenizer, per_turn)
    if tokenizer is not None or made:
        for row, ids in zip(rows, made or [NONE] * len(rows), strict=True):
            row |= {
                "input_ids": ids.input_ids,
                "loss_mask": ids.loss_mask,
                "token_rewards": ids.rewards,
                "logprobs": ids.logprobs,
            }
    return [{**about, **row} for row in rows]


def _tokens(context: Context, cache: Mapping[str, Any], tokenizer: Any, per_turn: bool) -> list[Tokenized]:
    """The tokens of each row: those that the server told, or else those of the tokenizer, if there is one."""
    if not context.answered(cache):
        return []
    told = recorded_turns(context, cache) if per_turn else [whole] if (whole := recorded(context, cache)) else None
    if told is not None or tokenizer is None:
        return told or []
    return tokenize_turns(context, cache, tokenizer) if per_turn else [tokenize(context, cache, tokenizer)]


def _texts(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Messages whose contents are texts, and the pictures in them, in order."""
    texts, images = [], list[str]()
    for message in messages:
        content = message["content"]
        if not isinstance(content, str):
            images += [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
            content = "".join(part["text"] if part["type"] == "text" else PICTURE for part in content)
        calls = [call["function"] for call in message.get("tool_calls") or ()]
        content += "".join(call_text(call["name"], call["arguments"]) for call in calls)
        texts.append({"role": message["role"], "content": content})
    return {"messages": texts, "images": images}


def digest_of(config: RolloutConfig) -> str:
    """The same for configurations that give the same episodes: where environments run, and how many, does not count."""
    values = config.model_dump(mode="json")
    values["es_manager"] = {"format_penalty": config.es_manager.format_penalty}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


# ---- Parquet


def _to_parquet(rows: Sequence[Mapping[str, Any]], per_turn: bool, with_tokens: bool) -> bytes:
    """The bytes of a file whose columns are the same for any episodes, also where a list is empty."""
    pyarrow = import_extra("pyarrow", "writing Parquet needs", "parquet", RolloutError, ", or write .jsonl.")
    written = json.loads(encodable(json.dumps(rows, ensure_ascii=False)))  # Parquet cannot hold halves of characters
    file, parquet = io.BytesIO(), import_module("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(written, schema=_schema(pyarrow, per_turn, with_tokens)), file)
    return file.getvalue()


def _schema(pyarrow: Any, per_turn: bool, with_tokens: bool) -> Any:
    text, number, real, truth = pyarrow.string(), pyarrow.int64(), pyarrow.float64(), pyarrow.bool_()
    of = pyarrow.list_
    turn = [("turn", number), ("answer", text), ("turn_reward", real), ("finish_reason", text)]
    episode = [("answers", of(text)), ("rewards", of(real)), ("finish_reasons", of(text))]
    tokens = [
        ("input_ids", of(number)),
        ("loss_mask", of(pyarrow.int8())),
        ("token_rewards", of(real)),
        ("logprobs", of(real)),
    ]
    return pyarrow.schema(
        [
            ("episode", number),
            ("group_id", number),
            ("tag", text),
            ("env_type", text),
            ("seed", pyarrow.uint64()),
            ("success", truth),
            ("reward", real),
            ("penalty", real),
            ("score", real),
            ("terminated", truth),
            ("truncated", truth),
            ("error", text),
            ("num_actions", number),
            ("num_turns", number),
            ("prompt_tokens", number),
            ("completion_tokens", number),
            ("policy", text),
            ("model", text),
            ("abreast_version", text),
            ("config_digest", text),
            ("sampling", text),
            ("messages", of(pyarrow.struct([("role", text), ("content", text)]))),
            ("images", of(text)),
            *(turn if per_turn else episode),
            *(tokens if with_tokens else []),
        ]
    )
