"""curves.png: rewards and losses of a run that has ended, per agent, for those who look into its folder."""

import io
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from abreast.errors import log
from abreast.files import write_whole
from abreast.worlds.painting import agent_colour

MOST_POINTS = 2_000
"""Lines of metrics that are read: of a long run every second, third, and so on."""
MOST_IN_LEGEND, LONGEST_NAME = 8, 24
"""Agents in the legend, which has two lines; characters of a name in it, the last ones, which tell agents apart."""
STYLES = ("-", "--", ":", "-.")
"""Of lines whose colour is that of another agent."""


def draw_curves(folder: Path, epochs: int, colours: Sequence[str | None] = ()) -> None:
    """Draw the file, if matplotlib is there. `colours`: those that agents have of their own, as in films.

    Whatever goes wrong is a line in the log: a run never ends by it."""
    try:
        # Here, because most of what it costs is its import. Without pyplot: no window, and no figure that is never closed.
        from matplotlib.figure import Figure

        with (folder / "metrics.jsonl").open("rb") as file:
            records = [json.loads(line) for line in islice(file, 0, epochs, -(-epochs // MOST_POINTS))]
        figure = Figure(figsize=(10, 3.6), dpi=100)
        figure.subplots_adjust(
            left=0.08, right=0.98, top=0.86, bottom=0.15, wspace=0.22
        )  # to find them out takes longer
        for axes, key in zip(figure.subplots(1, 2), ("reward_per_agent", "loss_per_agent"), strict=True):
            _draw(axes, records, key, colours)
        lines, names = axes.get_legend_handles_labels()
        if len(names) <= MOST_IN_LEGEND:  # above the curves, so that it covers none
            figure.legend(
                lines,
                names,
                loc="upper left",
                ncols=MOST_IN_LEGEND // 2,
                fontsize="small",
                frameon=False,
            )
        image = io.BytesIO()
        figure.savefig(image, format="png")
        write_whole(folder / "curves.png", image.getvalue())
    except ImportError:
        log.info('curves.png is left out: it needs the package matplotlib (pip install "abreast[plot]")')
    except Exception as error:  # of a library, or a full disk
        log.warning("curves.png could not be drawn: %s: %s", type(error).__name__, " ".join(str(error).split())[:200])


def _draw(axes: Any, records: Sequence[dict[str, Any]], key: str, own: Sequence[str | None]) -> None:
    """The curves of all agents, each point the mean of some around it."""
    epochs, window = [record["epoch"] for record in records], np.ones(max(1, len(records) // 30))
    values_AE = np.array([record[key] for record in records], dtype=float).T  # agent, epoch; None is NaN
    names = records[-1].get("agents", [f"agent {number}" for number in range(len(values_AE))])
    used = list[str]()
    for agent, (name, values) in enumerate(zip(names, values_AE, strict=False)):
        used.append((own[agent] if agent < len(own) else None) or agent_colour(agent))
        style = STYLES[(used.count(used[-1]) - 1) % len(STYLES)] if len(epochs) > 1 else "o"
        counts = np.convolve(np.isfinite(values), window, "same")
        means = np.convolve(np.nan_to_num(values), window, "same") / np.where(counts, counts, np.nan)
        axes.plot(epochs, means, style, color=used[-1], label=str(name)[-LONGEST_NAME:].replace("$", r"\$"))
    axes.set_xlabel("epoch" if len(window) == 1 else "epoch (smoothed)")
    axes.set_ylabel(key.replace("_", " "))
    axes.grid(alpha=0.3)
