"""A comparison as files: comparison.json, CSV, LaTeX, marl-eval's JSON."""

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abreast.comparison.compare import Comparison, Evaluated, common_epochs
from abreast.comparison.picture import draw
from abreast.files import write_whole

TABLES = ("runs", "summary", "other_modes", "improvement", "curves", "profiles")
"""What is written as CSV."""
SPECIAL = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {character: f"\\{character}" for character in "&%$#_{}"}
)
"""What LaTeX would take for a command, and how it is written."""


def write_outputs(folder: Path, comparison: Comparison, found: Sequence[Evaluated]) -> list[str]:
    """Write all files, and return their names. The picture is left out where matplotlib is not installed."""
    runs = [row | {"run": os.path.relpath(row["run"], folder)} for row in comparison.runs]  # both may be moved together
    comparison = comparison._replace(runs=runs)
    files = {
        "comparison.json": json.dumps(comparison._asdict(), allow_nan=False, indent=1).encode(),
        **{f"{name}.csv": as_csv(getattr(comparison, name)).encode() for name in TABLES},
        "summary.tex": as_latex(comparison).encode(),
        "marl_eval.json": json.dumps(as_marl_eval(found), allow_nan=False).encode(),
    }
    if (picture := draw(comparison)) is not None:
        files["comparison.png"] = picture
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        write_whole(folder / name, data)
    return list(files)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with a head; what is not known is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_latex(comparison: Comparison) -> str:
    """A table: a row for each algorithm, with the interquartile mean and its interval, in sum and of each agent."""
    who: list[str] = comparison.about["who"]
    cells = {(row["algorithm"], row["who"]): _cell(row) for row in comparison.summary}
    modes = {row["algorithm"]: row["mode"] and f", {row['mode']}" for row in comparison.summary}  # the best is first
    rows = [[(name + mode).translate(SPECIAL), *(cells[name, each] for each in who)] for name, mode in modes.items()]
    lines = [
        "% Interquartile mean over runs and tasks, with its 95 % stratified bootstrap interval.",
        rf"\begin{{tabular}}{{l{'r' * len(who)}}}",
        r"\hline",
        _row(["algorithm", *(each.translate(SPECIAL) for each in who)]),
        r"\hline",
        *map(_row, rows),
        r"\hline",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def as_marl_eval(found: Sequence[Evaluated]) -> dict[str, Any]:
    """What marl-eval reads: environment, task, algorithm, run, evaluation; a list of episodes for each metric.

    It wants evaluations and runs with the same names everywhere, tasks in small letters, and no comma in an algorithm.
    """
    tasks: dict[str, Any] = {}
    places = common_epochs(found, list(dict.fromkeys(each.run.task for each in found)), [])
    for each in found:
        runs = tasks.setdefault(each.run.task.lower(), {}).setdefault(each.run.algorithm.replace(",", ";"), {})
        points = {point.epochs: point for point in each.curve}
        steps = {
            f"step_{number}": {"step_count": point.agent_steps, **_metrics(point.rewards)}
            for number, point in enumerate(points[place[each.run.task]] for place in places)
        }
        runs[f"run_{len(runs)}"] = {**steps, "absolute_metrics": _metrics(each.absolute)}
    return {"abreast": tasks}


def _metrics(rewards: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    agents = {f"return_agent_{number}": list(each) for number, each in enumerate(zip(*rewards, strict=True))}
    return {"return": [sum(each) for each in rewards], **agents}


def _cell(row: Mapping[str, Any]) -> str:
    interval = "" if row["low"] is None else f" [{row['low']:.2f}, {row['high']:.2f}]"
    return f"{row['interquartile_mean']:.2f}{interval}"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
