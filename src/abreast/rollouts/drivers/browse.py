"""Looking at trajectories: which of them, a table of many, the whole of one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any

from rich.table import Table

from abreast.errors import RolloutError
from abreast.rollouts.context.preview import as_text
from abreast.rollouts.drivers.lines import Line

SORT_KEYS = ("episode", "reward", "score", "success", "turns", "seed")


def select_lines(
    lines: Iterable[Line],
    equal: Mapping[str, Any],
    errors: bool = False,
    min_reward: float | None = None,
    max_reward: float | None = None,
    contains: str | None = None,
) -> list[Line]:
    """The episodes for which all conditions hold: keys of a line that have these values, unless they are None; an error; a
    reward within bounds; a text in what was said or shown."""
    text, wanted = (contains or "").casefold(), {key: value for key, value in equal.items() if value is not None}
    least, most = -inf if min_reward is None else min_reward, inf if max_reward is None else max_reward
    return [
        line
        for line in lines
        if all(line[key] == value for key, value in wanted.items())
        and (line["error"] is not None or not errors)
        and least <= line["reward"] <= most
        and (not text or text in _said(line))
    ]


def _said(line: Line) -> str:
    messages = as_text(line["messages"])
    states = "\n".join(str(entry.get("state", "")) for entry in line["history"])
    return f"{messages}\n{states}\n{line['error'] or ''}".casefold()


def sort_lines(lines: Iterable[Line], key: str) -> list[Line]:
    """Episodes in an order; -KEY is the other way round."""
    name = key.removeprefix("-")
    if name not in SORT_KEYS:
        raise RolloutError(
            f"cannot sort by {key!r}: expected one of {', '.join(SORT_KEYS)}, with a - before it for descending."
        )
    value: Callable[[Line], Any] = {
        "turns": lambda line: len(line["answers"]),
        "success": lambda line: 0.5 if line["success"] is None else line["success"],  # unknown: between no and yes
    }.get(name, itemgetter(name))
    return sorted(lines, key=lambda line: (value(line), line["episode"]), reverse=key.startswith("-"))


SUCCESS = {True: "yes", False: "no", None: "–"}


def table_of(lines: Sequence[Line], width: int | None) -> Table:
    """A line for each episode; reasons are cut where they would not fit into the width."""
    table = Table(box=None)
    for name in ("episode", "tag", "seed", "group", "reward", "penalty", "score", "success", "turns", "tokens"):
        table.add_column(name, justify="left" if name in ("tag", "success") else "right", no_wrap=True)
    taken = 80 + max((len(line["tag"]) for line in lines), default=0)
    table.add_column(
        "error", no_wrap=True, overflow="ellipsis", max_width=None if width is None else max(20, width - taken)
    )
    for line in lines:
        tokens, penalty = line["tokens"]["prompt"] + line["tokens"]["completion"], line["penalty"]
        table.add_row(
            str(line["episode"]),
            line["tag"],
            str(line["seed"]),
            str(line["group_id"]),
            f"{line['reward']:.3f}",
            f"{penalty:.3f}" if penalty else "",
            f"{line['score']:.3f}",
            SUCCESS[line["success"]],
            str(len(line["answers"])),
            f"{tokens:,}" if tokens else "",
            " ".join((line["error"] or "").split()),
        )
    return table


def text_of(line: Line) -> str:
    """Return all of an episode as text: prompts, answers, rewards, and how it ended."""
    about = f"episode {line['episode']}: {line['tag']}, seed {line['seed']}, group {line['group_id']}"
    parts, messages = [about], list[dict[str, Any]](line["messages"])
    turn, rewards = 0, line["rewards"]
    for message in messages:
        parts.append(as_text([message]))
        if message["role"] == "assistant":
            entry = line["history"][turn] if turn < len(line["history"]) else {}
            actions = " || ".join(map(str, entry.get("actions") or ())) or "(none)"
            reward = f"{rewards[turn]:g}" if turn < len(rewards) else "?"
            called = f"; called: {', '.join(map(str, entry['tool_calls']))}" if entry.get("tool_calls") else ""
            ended = f"; finish_reason: {entry['finish_reason']}" if entry.get("finish_reason", "stop") != "stop" else ""
            parts.append(f"[turn {turn + 1}] valid actions: {actions}; reward with penalties: {reward}{called}{ended}")
            turn += 1
    if line["history"]:
        parts.append(f"[last state]\n{line['history'][-1].get('state', '')}")
    how = {True: "success", False: "no success", None: "success unknown"}[line["success"]]
    parts.append(
        f"[end] {how}, score {line['score']:g} (reward {line['reward']:g}, penalty {line['penalty']:g}),"
        f" {len(line['answers'])} turns, {line['num_actions']} actions"
    )
    if line["error"]:
        parts.append(f"[error] {line['error']}")
    return "\n\n".join(parts)
