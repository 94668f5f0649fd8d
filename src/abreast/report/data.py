"""All that a report shows of a run, read from its folder, as values that fit into JSON.

metrics.jsonl ─▶ figures by name and agent     trajectories.jsonl ─▶ a table, and packed turns     others ─▶ as they are

A run may be writing meanwhile, or may have been killed: a last line that is cut is left out, and all that could not be
read is named in `unreadable`. Nothing here ends with an error, unless the folder is no run.
"""

import base64
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from abreast.errors import RunFolderError
from abreast.files import is_locked
from abreast.headline import SUM, groups_of
from abreast.report.shares import advice, shares_of, who_waits
from abreast.settings import dotted, parse_yaml

MARKS = ("config.yaml", "metrics.jsonl", "trajectories.jsonl")
"""Files that a run folder has at least one of."""
COMPARISON = "comparison.json"
MOST_POINTS = 10_000
"""Points of a curve. A run with more epochs has the mean of several in each."""
MOST_VALUES = 2_000_000
"""Points of all curves: 14 MB. With hundreds of agents, a point is the mean of several epochs sooner."""
MOST_PACKED = 48_000_000
"""Characters of packed turns; episodes beyond are in the table alone."""
MOST_NAMED = 20
"""Lines that could not be read, by number."""
PER_PACK = 100
"""Episodes that are packed together: what a browser unpacks to show one."""
NUMBERS = ("episode", "group_id", "seed", "reward", "penalty", "score", "num_actions", "num_given", "num_invalid")
TEXTS = ("tag", "error")
"""Keys of an episode; those that are numbers, those that are texts or missing."""
AXES = (("run", "epoch"), ("run", "steps"), ("run", "agent_steps"), ("time", "elapsed_s"))
"""Figures that others are drawn over. They never fall."""

SHARING = ("equality", "peace")
"""Social outcomes of which no curve is drawn where it is constant; of the first, nor where rewards are negative."""

Faults = list[str]
Place = tuple[str, str, int]
"""Where a figure is in a line of metrics: its group, its name, its agent (-1: none)."""

_ENTRY = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\S* (.*?)\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b ?(.*)")
_ENDED = re.compile(r"\b(finished|stopped) after \d")
_GOES_ON = re.compile(r"\b(goes on|resumed) with \d")


def read_run(folder: Path) -> dict[str, Any]:
    """A run of training or a rollout; `kind` says which."""
    faults = Faults()
    try:
        found = {path.name for path in folder.iterdir()}
        if found.isdisjoint(MARKS):
            raise RunFolderError(
                f"{folder} is no run folder: it has none of {', '.join(MARKS)}. `abreast train` and `abreast rollout` print"
                " theirs."
            )
        is_rollout = not found.isdisjoint({"rollout.yaml", "trajectories.jsonl"})
        run = {
            "kind": "rollout" if is_rollout else "training",
            "name": folder.resolve().name,
            "folder": str(folder),
            "is_locked": is_locked(folder),
            "changed": max((folder / name).stat().st_mtime for name in found.intersection((*MARKS, "log.txt"))),
            "settings": _parsed(folder / "config.yaml", faults, _settings)
            | _parsed(folder / "rollout.yaml", faults, _settings),
            "log": _log(folder / "log.txt"),
            "plan": _parsed(folder / "plan.json", faults),
            "timeline": _parsed(folder / "timeline.json", faults, lambda text: _lanes(_loads(text))) or None,
            "films": _films(folder / "replays", faults),
        }
        run |= _episodes(folder, faults) if is_rollout else _epochs(folder, faults)
    except OSError as error:
        raise RunFolderError(f"{folder} is no run folder: {error.strerror or error}.") from None
    return {**run, "unreadable": faults[:MOST_NAMED] + ["…"] * (len(faults) > MOST_NAMED)}


def read_comparison(folder: Path) -> list[dict[str, Any]]:
    """The runs of a comparison that `abreast compare` has left in a folder; the first one has the comparison, too."""
    try:
        told = {**_loads((folder / COMPARISON).read_bytes())}
        runs = [read_run(folder / row["run"]) for row in told["runs"]]
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise RunFolderError(f"{folder / COMPARISON} cannot be read: {type(error).__name__}, {error}.") from None
    picture = folder / "comparison.png"
    data = base64.b64encode(picture.read_bytes()).decode() if picture.is_file() else ""
    told["picture"] = f"data:image/png;base64,{data}" if data else None
    return [{**run, "comparison": told if number == 0 else None} for number, run in enumerate(runs)]


# ---- files


def _loads(text: str | bytes) -> Any:
    """As `json.loads`; what browsers refuse, NaN and others, is None."""
    return json.loads(
        text, parse_constant=lambda name: None, parse_float=lambda text: x if math.isfinite(x := float(text)) else None
    )


def _number(value: Any) -> float | int | None:
    """A number with six digits, which is what a chart can show; None for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        return None
    return value if isinstance(value, int) else float(f"{value:.6g}")


def _text(path: Path) -> str:
    """A file, nothing where there is none."""
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""


def _parsed(path: Path, faults: Faults, parse: Callable[[str], Any] = _loads) -> dict[str, Any]:
    """The mapping in a file, an empty one where there is none."""
    if not (text := _text(path)):
        return {}
    try:
        return {**parse(text)}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        faults.append(f"{path.name} cannot be read: {type(error).__name__}, {' '.join(str(error).split())[:200]}.")
        return {}


def _lines(path: Path, faults: Faults) -> Iterator[tuple[int, dict[str, Any]]]:
    """The mappings in a file of JSON lines, with the numbers of their lines."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                yield number, {**_loads(raw)}
            except (ValueError, TypeError, RecursionError):
                how = "damaged" if raw.endswith(b"\n") else "cut off"  # by a kill, or because it is being written
                faults.append(f"line {number} of {path.name} is {how}, and left out.")


# ---- training


def _epochs(folder: Path, faults: Faults) -> dict[str, Any]:
    """Every figure of metrics.jsonl, as columns."""
    columns, names, epochs = dict[Place, list[float | None]](), list[str](), 0
    for _, record in _lines(folder / "metrics.jsonl", faults):
        told = record.pop("agents", None)
        names = [str(name) for name in told] if isinstance(told, list) and told else names
        for place, value in _figures_of(record, "", "run", -1):
            column = columns.setdefault(place, [])
            column[epochs:] = [*[None] * (epochs - len(column)), value]
        epochs += 1
    size = max(1, math.ceil(epochs / MOST_POINTS), math.ceil(epochs * len(columns) / MOST_VALUES))
    thin = {place: _thinned([*column, *[None] * (epochs - len(column))], size) for place, column in columns.items()}
    agents = 1 + max((agent for _, _, agent in thin), default=-1)
    axes = {name: thin.pop((group, name, -1), []) for group, name in AXES}
    axes["epoch"] = axes["epoch"] or [float(number) for number in range(0, epochs, size)]
    figures = dict[tuple[str, str], dict[str, Any]]()
    for (group, name, agent), column in thin.items():
        figure = figures.setdefault((group, name), {"group": group, "name": name, "all": None, "agents": {}})
        if agent < 0:
            figure["all"] = column
        else:
            figure["agents"][agent] = column
    by_agent = figures.get(("run", "reward"), {"agents": {}})["agents"].values()
    rewards = [row for row in zip(*by_agent, strict=True) if None not in row]
    for name in SHARING:
        known = {value for value in figures.get(("metrics", name), {"all": ()})["all"] or () if value is not None}
        if len(known) < 2 or (name == "equality" and any(min(row) < 0 for row in rewards)):
            figures.pop(("metrics", name), None)
    return {
        "has_sides": SUM not in groups_of(rewards, names),
        "epochs": epochs,
        "epochs_per_point": size,
        "agents": names + [f"agent {number}" for number in range(len(names), agents)],
        "x": {name: list(accumulate((value or 0 for value in column), max)) for name, column in axes.items()},
        "figures": list(figures.values()),
    }


def _figures_of(value: Any, group: str, name: str, agent: int) -> Iterator[tuple[Place, float]]:
    """The numbers in a line of metrics. `learning` has the losses once more."""
    if isinstance(value, dict):
        for key, each in value.items():
            if (name, key) != ("learning", "loss"):
                yield from _figures_of(each, name, str(key), agent)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _figures_of(each, group, name.removesuffix("_per_agent"), number)
    elif (figure := _number(value)) is not None:
        yield (group, name, agent), figure


def _thinned(column: list[float | None], size: int) -> list[float | None]:
    """The means of so many values each."""
    if size == 1:
        return column
    parts = ([value for value in column[at : at + size] if value is not None] for at in range(0, len(column), size))
    return [_number(fmean(part)) if part else None for part in parts]


def _films(folder: Path, faults: Faults) -> list[dict[str, Any]]:
    """The films: the best, the last, then others, the newest first. What they show is told where it is known."""
    told, films = _parsed(folder / "films.json", faults), list[dict[str, Any]]()
    paths = {
        path.stem: path for pattern in ("*.mp4", "*.gif") for path in folder.glob(pattern) if not path.is_symlink()
    }
    for stem in sorted(paths, key=lambda stem: {"best": "~~", "last": "~"}.get(stem, stem), reverse=True):
        path, epoch = paths[stem], re.fullmatch(r"epoch_(\d+)", stem)
        about = {"epoch": int(epoch[1])} if epoch else told.get(path.name, {})
        facts = {key: _number(about.get(key)) for key in ("epoch", "reward")} if isinstance(about, dict) else {}
        films.append({"name": path.name, "bytes": path.stat().st_size, "changed": path.stat().st_mtime, **facts})
    return films


# ---- rollouts


def _episodes(folder: Path, faults: Faults) -> dict[str, Any]:
    """A table of all episodes, by columns; their whole lines in packs, as far as there is room."""
    table: dict[str, list[Any]] = {key: [] for key in (*NUMBERS, *TEXTS, "success", "turns", "prompt", "completion")}
    packs, waiting, size, seen = list[str](), list[dict[str, Any]](), 0, set[float]()
    for number, line in _lines(folder / "trajectories.jsonl", faults):
        row: dict[str, Any] = {key: _number(line.get(key)) for key in NUMBERS}
        answers, tokens = line.get("answers"), line.get("tokens")
        if None in row.values() or not isinstance(answers, list) or not isinstance(tokens, dict):
            faults.append(f"line {number} of trajectories.jsonl is no episode, and left out.")
            continue
        if row["episode"] in seen:
            continue
        seen.add(row["episode"])
        row |= {key: None if line.get(key) is None else str(line[key]) for key in TEXTS}
        row |= {key: _number(tokens.get(key)) or 0 for key in ("prompt", "completion")}
        success = {"success": None if line.get("success", False) is None else line.get("success") is True}
        for key, value in {**row, **success, "turns": len(answers)}.items():
            table[key].append(value)
        if size < MOST_PACKED:
            waiting.append(line)
        if len(waiting) == PER_PACK:
            packs.append(_packed(waiting))
            size, waiting = size + len(packs[-1]), []
    if waiting:
        packs.append(_packed(waiting))
    return {"episodes": len(seen), "table": table, "packs": packs, "per_pack": PER_PACK}


def _packed(lines: Sequence[dict[str, Any]]) -> str:
    """Lines as a browser's DecompressionStream reads them. States and prompts repeat themselves: a tenth is left."""
    return base64.b64encode(zlib.compress(json.dumps(lines, separators=(",", ":")).encode())).decode()


# ---- of both


def _settings(text: str) -> dict[str, str]:
    """All settings by their dotted keys."""
    return {
        key: value if isinstance(value, str) else json.dumps(value, default=str)
        for key, value in dotted(parse_yaml(text))
    }


def _log(path: Path) -> dict[str, Any]:
    """The end of log.txt, warnings and errors with their stacks, and how the run ended, if it has said so."""
    lines, entries, ended = _text(path).splitlines(), list[list[str]](), None
    for line in lines:
        if (found := _ENTRY.match(line)) is not None:
            time, before, level, after = found.groups()
            entries.append([time, level, before + after])
            if (end := _ENDED.search(after)) is not None:
                ended = after[end.start() :]
            elif _GOES_ON.search(after):
                ended = None
        elif entries:
            entries[-1][2] += f"\n{line}"
    problems = [entry for entry in entries if entry[1] not in ("DEBUG", "INFO")]
    return {"ended": ended, "problems": problems[-300:], "tail": lines[-200:]}


def _lanes(told: dict[str, Any]) -> dict[str, Any]:
    """timeline.json, with its spans as rows of numbers: kind, begin, duration in µs. A call that overlaps others has two
    events, which follow each other."""
    run = shares_of(told)
    kinds, lanes, begun = dict[tuple[str, bool], int](), dict[Any, dict[str, Any]](), 0.0
    for process, found in zip(told["abreast"]["processes"], (run.main, *run.workers), strict=True):
        known = {key: process[key] for key in ("name", "totals", "dropped")}
        if not all(each.keys() >= {"count", "seconds"} for each in known["totals"].values()):
            raise ValueError("totals without count or seconds")
        shares = {"waiting": _number(found.waiting), "shares": {name: _number(x) for name, x in found.shares.items()}}
        lanes[process["pid"]] = {**known, **shares, "spans": [], "calls": []}
    for event in (event for event in told["traceEvents"] if event["ph"] in ("X", "b", "e")):
        kind = kinds.setdefault((str(event["name"]), event["cat"] == "wait"), len(kinds))
        if event["ph"] == "X":
            lanes[event["pid"]]["spans"].append([kind, round(event["ts"]), round(event["dur"])])
        elif event["ph"] == "b":
            begun = event["ts"]
        else:
            lanes[event["pid"]]["calls"].append([kind, round(begun), round(event["ts"] - begun)])
    told_of = {"waits": who_waits(run), "advice": advice(run), "kinds": list(kinds), "lanes": list(lanes.values())}
    return {"seconds": run.seconds, **told_of}
