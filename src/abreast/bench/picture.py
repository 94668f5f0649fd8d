"""bench.png: bars of ratios, with the limit and the bar of each marked. Needs matplotlib, which is optional."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.bench.machine import told
from abreast.bench.report import figure
from abreast.bench.rows import Row
from abreast.bench.subjects import SUBJECTS
from abreast.errors import ConfigError

if TYPE_CHECKING:
    from abreast.bench.report import Report

FILE = "bench.png"
COLOURS = {"reached": "#4c956c", "missed": "#c8553d", None: "#7d9bb5"}
ROW_INCHES, HEAD_INCHES, WIDE_INCHES = 0.3, 0.75, 11.0
BEYOND = 2.5
"""A limit further to the right than this multiple of the longest bar is told beside it, not drawn: bars stay readable."""


class NoMatplotlib(ConfigError):
    """There is no matplotlib."""


def draw(report: "Report", path: Path) -> bool:
    """Draw all rows that have a ratio; whether there is any."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # no display, and no state of pyplot
        from matplotlib.figure import Figure
    except ImportError:
        raise NoMatplotlib(
            f"matplotlib is not installed, so there is no {FILE}: pip install 'abreast[plot]' adds it; the figures are in"
            " the table and in bench.json."
        ) from None
    shown = with_ratios(report.subjects)
    if not shown:
        return False
    heights = [HEAD_INCHES + ROW_INCHES * len(rows) for rows in shown.values()]
    figure_ = Figure(figsize=(WIDE_INCHES, sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(figure_)
    figure_.suptitle(f"abreast bench, {report.size}: {told(dict(report.machine))}", fontsize=9)
    axes = figure_.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (name, rows) in zip(axes, shown.items(), strict=True):
        _draw_subject(axis, name, rows)
    handles = _legend()
    figure_.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
    figure_.savefig(path, dpi=130)
    return True


def with_ratios(subjects: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """The rows that can be drawn: what is a ratio of something else."""
    drawn = {
        name: [row for row in rows if row.ratio is not None and row.of != "itself"] for name, rows in subjects.items()
    }
    return {name: rows for name, rows in drawn.items() if rows}


def _draw_subject(axis: Any, name: str, rows: Sequence[Row]) -> None:
    ratios = [row.ratio or 0.0 for row in rows]
    longest = max([*ratios, *(_bar_as_ratio(row) or 0.0 for row in rows)])
    right = max([longest, *(row.limit for row in rows if row.limit is not None and row.limit <= BEYOND * longest)])
    axis.barh(range(len(rows)), ratios, color=[COLOURS[row.verdict] for row in rows], height=0.62)
    for place, row in enumerate(rows):
        edges = place - 0.42, place + 0.42
        if row.limit is not None and row.limit <= right:
            axis.plot([row.limit] * 2, edges, color="black", linewidth=2.2)
        bar = _bar_as_ratio(row)
        if bar is not None:
            axis.plot([bar] * 2, edges, color="black", linewidth=1.2, linestyle=":")
        far = f", limit {figure(row.limit)}" if row.limit is not None and row.limit > right else ""
        axis.text(1.01, place, f"{figure(row.ratio)} of {row.of}{far}", transform=axis.get_yaxis_transform(), **_BESIDE)
    axis.set_yticks(range(len(rows)), [row.what for row in rows], fontsize=8)
    axis.tick_params(axis="x", labelsize=7)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlim(0, right * 1.03)
    axis.set_title(f"{name}: {SUBJECTS.get(name, '')}", fontsize=9, loc="left")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


_BESIDE: dict[str, Any] = {"fontsize": 7, "va": "center", "clip_on": False}


def _bar_as_ratio(row: Row) -> float | None:
    """Where the bar stands on the axis of ratios."""
    if row.bar is None or row.bar_of == "ratio":
        return row.bar
    return None if row.limit is None else row.bar * row.limit


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Patch(color=COLOURS["reached"], label="bar reached"),
        Patch(color=COLOURS["missed"], label="bar missed"),
        Patch(color=COLOURS[None], label="no bar"),
        Line2D([], [], color="black", linewidth=2.2, label="limit or floor of this machine"),
        Line2D([], [], color="black", linewidth=1.2, linestyle=":", label="bar"),
    ]
