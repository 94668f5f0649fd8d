"""The lines of trajectories.jsonl, one JSON object an episode: made from what was played, and read again.

A line has
    episode, group_id, tag, seed         which episode it is: its number in the run, and what it was begun with
    reward, penalty, score, success, terminated, truncated, error, unanswered, num_actions, num_given, num_invalid
                                         what came of it; score is reward + penalty; success is null where the environment
                                         ended the episode without info["success"]
    tokens                               {prompt, completion}, as the server counted them, and turns: [prompt, completion] of
                                         each turn, or null where they were not counted
    answers, rewards                     of each turn: what the policy gave, a text or a list of actions; what that brought,
                                         penalties included
    messages                             the whole chat, the last answer included
    prompts                              for each turn: how many of `messages` the policy was shown, or, where it was shown
                                         something else (a history window), those messages themselves
    info, history                        of the cache: what the reset told, and the turns, with file names in place of images
                                         and, of each answer, its finish_reason, the names of its tool_calls, with tools
                                         the calls themselves (text_calls: those in its text), each with its result, or with
                                         `why` it was not executed (the last that was executed led to the next state), and
                                         with --keep-tokens what was `sampled`: ids, logprobs, prompt_ids (or added_ids,
                                         what follows the turn before); null: not told
    sampling                             the settings that a server was sent
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image

from abreast.errors import RunFolderError, short
from abreast.files import write_whole
from abreast.rollouts.context.context import Context, Message
from abreast.rollouts.context.pictures import png_of
from abreast.rollouts.drivers.policies.base import Played
from abreast.rollouts.episodes.slot import Cache

MOST_BITS = 10_000
"""Of a whole number in decimal form; Python refuses to convert longer ones."""
DEEPEST = 100
"""How many containers may be around a value."""

Line = dict[str, Any]
Save = Callable[[Image], str]

_NUMBER = (int, float)
_CALL = {"id": str, "function": {"name": str, "arguments": str}}
_IDS_OR_NONE = ([int], None)
_SAMPLED = (
    {"prompt_ids": _IDS_OR_NONE, "added_ids": _IDS_OR_NONE, "ids": _IDS_OR_NONE, "logprobs": ([(float, int)], None)}, None
)  # fmt: skip
_PART = ({"type": "text", "text": str}, {"type": "image_url", "image_url": {"url": str}})
_MESSAGE = {"role": str, "content": (str, [_PART]), "tool_calls": ([_CALL], None)}
_LIST_OR_NONE = ([object], None)
_SHAPE = {
    "episode": int, "group_id": int, "tag": str, "seed": int, "reward": _NUMBER, "penalty": _NUMBER, "score": _NUMBER,
    "success": (bool, None), "terminated": bool, "truncated": bool, "error": (str, None), "unanswered": bool,
    "num_actions": int, "num_given": int, "num_invalid": int, "tokens": {"prompt": int, "completion": int},
    "answers": [(str, [object])], "rewards": [_NUMBER], "messages": [_MESSAGE], "prompts": [(int, [_MESSAGE])],
    "info": {}, "history": [{"actions": _LIST_OR_NONE, "tool_calls": _LIST_OR_NONE, "sampled": _SAMPLED,
                             **dict.fromkeys(("calls", "text_calls"), ([{"name": str, "arguments": str}], None))}],
}  # fmt: skip
"""What a line holds, for `_fits`; of what infos and actions hold, nothing is expected."""


def line_of(played: Played, save: Save) -> Line:
    """The line of an episode. `save` is called with each image of it, and returns the name that stands for it."""
    history = [
        {**entry, "images": [*map(save, entry["images"])]} if entry.get("images") else entry
        for entry in played.cache["history"]
    ]
    cache, context = {**played.cache, "history": history}, Context(played.tag)
    chat = context.conversation(cache, str) if history else []  # images are their names there
    result: Line = plain(
        {
            "episode": played.number,
            "group_id": played.group_id,
            "tag": played.tag.name,
            "seed": played.seed,
            "reward": played.tally.reward,
            "penalty": cache["penalty"],
            "score": played.tally.reward + cache["penalty"],
            "success": None if played.tally.is_silent else played.tally.success,
            "terminated": played.is_over,
            "truncated": played.truncated,
            "error": played.error,
            "unanswered": played.is_unanswered,
            "num_actions": played.tally.executed,
            "num_given": played.tally.given,
            "num_invalid": played.tally.invalid,
            "tokens": {**played.tokens._asdict(), **({"turns": turns} if any(turns := played.tokens_per_turn) else {})},
            **({} if played.sampling is None else {"sampling": played.sampling}),
            "answers": played.answers,
            "rewards": context.rewards(cache) if history else [],
            "messages": chat,
            "prompts": _prompts(context, cache, chat),
            "info": cache.get("info", {}),
            "history": history,
        }
    )
    return result


def _prompts(context: Context, cache: Cache, chat: Sequence[Message]) -> list[int | list[Message]]:
    """What each turn was asked with: so many of the chat's messages, or, with a history window, these."""
    answers = [number for number, message in enumerate(chat) if message["role"] == "assistant"]
    if context.config.history_window is None:
        return list(answers)
    shown = [context.messages(cache, str, turn) for turn in range(len(answers))]
    return [messages[:-1] if context.opening else messages for messages in shown]


def save_picture(image: Image, folder: Path, name: str) -> str:
    """Write a picture to a file of this name in a folder; returns the name."""
    (folder / name).parent.mkdir(exist_ok=True)
    write_whole(folder / name, png_of(image))
    return name


def encode(line: Mapping[str, Any]) -> bytes:
    """A line as it is written."""
    return json.dumps(line).encode() + b"\n"


def plain(value: Any, inside: tuple[int, ...] = ()) -> Any:
    """A value that JSON can represent; others become null or text, since an info may hold anything, also itself."""
    if isinstance(value, bool | str | None):
        return value
    if isinstance(value, int):
        return value if value.bit_length() < MOST_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), inside)
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return str(value)
    if id(value) in inside or len(inside) >= DEEPEST:
        return "..."
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        return {str(key): plain(each, inside) for key, each in value.items()}
    return [plain(each, inside) for each in value]


# ---- reading


def find_file(run: Path) -> Path:
    """The trajectories of a run: its folder, or the file itself, is given."""
    path = run / "trajectories.jsonl" if run.is_dir() else run
    if not path.is_file():
        raise RunFolderError(f"{run} is no run of `abreast rollout`: there is no {path}.")
    return path


def read_lines(path: Path) -> tuple[list[Line], list[str]]:
    """All episodes of a file, of those with the same number the first; a sentence for each line that is none."""
    found = [read for _, _, read in _scan(path)]
    return [read for read in found if isinstance(read, dict)], [read for read in found if isinstance(read, str)]


def repair(path: Path, stays: Callable[[Line], bool]) -> list[str]:
    """Write a file anew without what is no episode, so that a run can append to it; returns what was wrong with it.

    A run that was killed may leave half a line at the end. Episodes for which `stays` says no are left out, too. There is
    one line in memory at a time: a file may be larger than that.
    """
    faults, dropped, has_end = list[str](), set[int](), True
    for number, raw, read in _scan(path) if path.exists() else ():
        has_end = raw.endswith(b"\n")
        faults += [read] if isinstance(read, str) else []
        if isinstance(read, str) or not stays(read):
            dropped.add(number)
    if dropped or not has_end:
        beside = path.with_name(f".{path.name}.{os.getpid()}.part")
        beside.unlink(missing_ok=True)
        with path.open("rb") as given, beside.open("xb") as file:
            for number, raw in enumerate(given, 1):
                file.write(b"" if number in dropped else raw.rstrip() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    return faults


def _scan(path: Path) -> Iterator[tuple[int, bytes, Line | str]]:
    """Each line of a file with its number and the episode that it holds, or a sentence that says why it holds none."""
    seen = set[int]()
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if not raw.strip():
                continue
            line, fault = _read(raw)
            if line is None:
                yield number, raw, f"line {number} of {path} is no episode: {fault}."
            elif line["episode"] in seen:
                yield number, raw, f"line {number} of {path} holds episode {line['episode']} once more."
            else:
                seen.add(line["episode"])
                yield number, raw, line


def _read(raw: bytes) -> tuple[Line | None, str]:
    """The episode in a line, or what is wrong with it."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None, "it is cut off" if not raw.endswith(b"\n") else "it is not valid JSON"
    if not isinstance(line, dict):
        return None, f"it is {short(line)}"
    wrong = next((key for key, shape in _SHAPE.items() if not _fits(line.get(key), shape)), None)
    if wrong is not None:
        return None, f"its {wrong} is {short(line[wrong])}" if wrong in line else f"it has no {wrong}"
    turns = sum(message["role"] == "assistant" for message in line["messages"])
    if not len(line["rewards"]) == len(line["prompts"]) == turns:
        return None, f"its messages hold {turns} answers, its other keys another number"
    return line, ""


def _fits(value: Any, shape: Any) -> bool:
    """Whether a value is of a type or is what is said; one of several (a tuple), or a list or a dict of such."""
    if isinstance(shape, tuple):
        return any(_fits(value, each) for each in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(each, shape[0]) for each in value)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_fits(value.get(key), each) for key, each in shape.items())
    if not isinstance(shape, type):
        return bool(value == shape)
    return isinstance(value, shape) and (shape in (bool, object) or not isinstance(value, bool))
