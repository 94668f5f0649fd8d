"""comparison.png: the figures of a comparison in five panels, where matplotlib is installed."""

import io
import logging
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from abreast.comparison.compare import SUM, Comparison

log = logging.getLogger("abreast")

COLOURS = ("#2e6f95", "#d1495b", "#3c7a57", "#d98a1f", "#7d5ba6", "#2a9d9b", "#a0522d", "#6c7a92")
LONGEST = 36
"""Characters of a label that are drawn."""


def draw(comparison: Comparison) -> bytes | None:
    """The picture as PNG; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        log.warning('comparison.png is left out: it needs the package matplotlib (pip install "abreast[plot]")')
        return None
    about = comparison.about
    colours = dict(zip(about["algorithms"], cycle(COLOURS), strict=False))
    figure = Figure(figsize=(15, 8), dpi=100, layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    score = "reward" if about["normalise"] == "none" else f"normalised reward ({about['normalise']})"
    _bars(axes[0], [row for row in comparison.summary if row["who"] == SUM], colours, "algorithm")
    axes[0].set(title="Interquartile mean, all agents", xlabel=score)
    _lines(axes[1], comparison.curves, colours, "x", "interquartile_mean")
    axes[1].set(title="Sample efficiency", xlabel=about["x"], ylabel=f"interquartile mean of {score}")
    _lines(axes[2], comparison.profiles, colours, "score", "share")
    axes[2].set(title="Performance profile", xlabel=score, ylabel="share of runs above", ylim=(-0.02, 1.02))
    _agents(axes[3], comparison, colours)
    axes[3].set(title="Interquartile mean, each agent", ylabel=score)
    pairs = [row | {"pair": f"{row['algorithm']} > {row['over']}"} for row in comparison.improvement]
    _bars(axes[4], [row for row in pairs if row["who"] == SUM], colours, "pair", "probability")
    axes[4].set(title="Probability of improvement", xlabel="probability", xlim=(0, 1))
    axes[4].axvline(0.5, color="#888888", linewidth=1, linestyle=":")
    axes[5].axis("off")
    handles = [axes[5].plot([], [], color=colour, linewidth=3)[0] for colour in colours.values()]
    axes[5].legend(handles, [_plain(name) for name in colours], loc="upper left", frameon=False)
    facts = [f"{len(comparison.runs)} runs in {', '.join(about['tasks'])}"]
    facts += [f"{about['episodes']} episodes a checkpoint, {about['absolute_episodes']} at the best"]
    text = "\n".join(_plain(fact, 60) for fact in facts + comparison.notes)
    axes[5].text(0.02, 0.02, text, fontsize=9, transform=axes[5].transAxes)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()


def _bars(
    axes: Any,
    rows: Sequence[Mapping[str, Any]],
    colours: Mapping[str, str],
    name: str,
    value: str = "interquartile_mean",
) -> None:
    """A dot for each row, with its interval; the first is at the top."""
    for place, row in enumerate(reversed(rows)):
        colour = colours[row["algorithm"]]
        if row["low"] is not None:
            axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=6, alpha=0.4)
        axes.plot(row[value], place, "o", color=colour)
    axes.set_yticks(range(len(rows)), [_plain(row[name]) for row in reversed(rows)])
    axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)
    axes.grid(axis="x", alpha=0.3)


def _lines(axes: Any, rows: Sequence[Mapping[str, Any]], colours: Mapping[str, str], x: str, y: str) -> None:
    """A line for each algorithm, with a band where there are intervals."""
    for algorithm, colour in colours.items():
        own = [row for row in rows if row["who"] == SUM and row["algorithm"] == algorithm]
        places = [row[x] for row in own]
        axes.plot(places, [row[y] for row in own], "-" if len(own) > 1 else "o", color=colour)
        if own and own[0].get("low") is not None:
            axes.fill_between(
                places, [row["low"] for row in own], [row["high"] for row in own], color=colour, alpha=0.2
            )
    axes.grid(alpha=0.3)


def _agents(axes: Any, comparison: Comparison, colours: Mapping[str, str]) -> None:
    """For each agent a dot of each algorithm, beside each other."""
    names = [name for name in comparison.about["who"] if name != SUM]
    for number, (algorithm, colour) in enumerate(colours.items()):
        shift = 0.6 * ((number + 0.5) / len(colours) - 0.5)
        for row in comparison.summary:
            if row["algorithm"] == algorithm and row["who"] != SUM:
                place = names.index(row["who"]) + shift
                if row["low"] is not None:
                    axes.plot([place, place], [row["low"], row["high"]], color=colour, linewidth=4, alpha=0.4)
                axes.plot(place, row["interquartile_mean"], "o", color=colour, markersize=4)
    axes.set_xticks(range(len(names)), [_plain(name, 12) for name in names], rotation=45 if len(names) > 6 else 0)
    axes.grid(axis="y", alpha=0.3)


def _plain(text: str, longest: int = LONGEST) -> str:
    """A text that matplotlib takes for no formula, broken into lines."""
    words, lines = text.replace("$", r"\$").split(), [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= longest:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
