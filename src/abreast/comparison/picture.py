"""comparison.png: the figures of a comparison in five panels, where matplotlib is installed."""

import io
from collections.abc import Mapping, Sequence
from itertools import cycle, product
from typing import Any

import numpy as np

from abreast.comparison.compare import Comparison
from abreast.errors import log
from abreast.headline import SUM

COLOURS = ("#2e6f95", "#d1495b", "#3c7a57", "#d98a1f", "#7d5ba6", "#2a9d9b", "#a0522d", "#6c7a92")
ENDS = {"solid_capstyle": "butt"}
"""Lines of intervals end where the interval does."""
LONGEST, LONGEST_NAME = 48, 20
"""Characters in a line of the legend, and of a name that is written at an axis."""
MOST_NAMED = 4
"""Algorithms whose names, and pairs of names, are written at an axis; of more, numbers are."""
DASHES = ("-", "--", ":", "-.")
"""Styles of the lines of the first sides."""
MARGINS = (-0.04, 1.04)
"""Limits of an axis of shares, so that points at 0 and 1 are drawn whole."""
FEW_AGENTS = 48
"""Characters of the names of all agents that have room beside each other."""


def draw(comparison: Comparison) -> bytes | None:
    """The picture as PNG; None without matplotlib."""
    try:
        import matplotlib as mpl
        from matplotlib.colors import to_hex
        from matplotlib.figure import Figure
    except ImportError:
        log.warning('comparison.png is left out: it needs the package matplotlib (pip install "abreast[plot]")')
        return None
    about = comparison.about
    algorithms: list[str] = about["algorithms"]
    palette = (
        COLOURS if len(algorithms) <= len(COLOURS) else [to_hex(mpl.colormaps["tab20"](number)) for number in range(20)]
    )
    colours = dict(zip(algorithms, cycle(palette), strict=False))
    shown: list[str] = about["headline"][:MOST_NAMED]
    are_pairs_named = len(algorithms) * len(shown) <= MOST_NAMED
    is_named = are_pairs_named and max(map(len, algorithms)) <= LONGEST_NAME
    tags = {name: _plain(name) if is_named else str(number) for number, name in enumerate(algorithms, 1)}
    figure = Figure(figsize=(15, 8 + 0.4 * max(0, len(algorithms) - len(COLOURS))), dpi=100, layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    score = "reward" if about["normalise"] == "none" else f"normalised reward ({about['normalise']})"
    beside = {who: "" if who == SUM else f", {who}" for who in shown}
    summary = [
        row | {"tag": f"{tags[row['algorithm']]}{beside[row['who']]}"}
        for row in comparison.summary
        if row["who"] in shown
    ]
    _bars(axes[0], summary, colours)
    axes[0].set(title=f"Interquartile mean, {'all agents' if SUM in shown else 'each side'}", xlabel=score)
    _lines(axes[1], comparison.curves, colours, shown, "x", "interquartile_mean")
    axes[1].set(title="Sample efficiency", xlabel=about["x"], ylabel=f"interquartile mean of {score}")
    _lines(axes[2], comparison.profiles, colours, shown, "score", "share", drawstyle="steps-post")
    axes[2].set(title="Performance profile", xlabel=score, ylabel="share of runs above", ylim=MARGINS)
    _agents(axes[3], comparison, colours)
    axes[3].set(title="Interquartile mean, each agent", ylabel=score)
    pairs = [row for row in comparison.improvement if row["who"] in shown]
    if are_pairs_named:
        named = [(row, f"{tags[row['algorithm']]} > {tags[row['over']]}{beside[row['who']]}") for row in pairs]
        _bars(axes[4], [row | {"tag": tag} for row, tag in named], colours, "probability")
        axes[4].set(title="Probability of improvement", xlabel="probability", xlim=MARGINS)
        axes[4].axvline(0.5, color="#888888", linewidth=1, linestyle=":")
    else:
        _matrix(axes[4], [row for row in pairs if row["who"] == shown[0]], algorithms)
        axes[4].set(title=f"Probability that a row is better than a column{beside[shown[0]]}")
    axes[5].axis("off")
    handles = [axes[5].plot([], [], color=colour, linewidth=3)[0] for colour in colours.values()]
    names = [_plain(name if is_named else f"{tags[name]}: {name}") for name in algorithms]
    if SUM not in shown:
        handles += [axes[5].plot([], [], dash, color="k")[0] for _, dash in zip(shown, DASHES, strict=False)]
        names += map(_plain, shown)
    axes[5].legend(handles, names, loc="upper left", frameon=False, fontsize=9)
    facts = [
        f"{len(comparison.runs)} runs in {', '.join(about['tasks'])}",
        f"{about['episodes']} episodes a checkpoint, {about['absolute_episodes']} at the best",
    ]
    if any(row["low"] is not None for row in summary):
        facts.append("bars and bands: 95 % stratified bootstrap intervals")
    text = "\n".join(_plain(fact, 200) for fact in ["; ".join(facts), *comparison.notes])
    figure.supxlabel(text, x=0.01, ha="left", fontsize=9)
    image = io.BytesIO()
    figure.savefig(image, format="png")
    return image.getvalue()


def _bars(
    axes: Any,
    rows: Sequence[Mapping[str, Any]],
    colours: Mapping[str, str],
    value: str = "interquartile_mean",
) -> None:
    """A dot for each row, with its interval; the first is at the top."""
    for place, row in enumerate(reversed(rows)):
        colour = colours[row["algorithm"]]
        if row["low"] is not None:
            axes.plot([row["low"], row["high"]], [place, place], color=colour, linewidth=6, alpha=0.4, **ENDS)
        axes.plot(row[value], place, "o", color=colour)
    axes.set_yticks(range(len(rows)), [row["tag"] for row in reversed(rows)])
    axes.set_ylim(-0.6, max(len(rows), 1) - 0.4)
    axes.grid(axis="x", alpha=0.3)


def _lines(
    axes: Any,
    rows: Sequence[Mapping[str, Any]],
    colours: Mapping[str, str],
    shown: Sequence[str],
    x: str,
    y: str,
    **style: str,
) -> None:
    """Draw a line for each algorithm, in another style for each side, with a band where there are intervals."""
    for (algorithm, colour), (who, dash) in product(colours.items(), zip(shown, DASHES, strict=False)):
        own = [row for row in rows if row["who"] == who and row["algorithm"] == algorithm]
        places = [row[x] for row in own]
        axes.plot(places, [row[y] for row in own], dash if len(own) > 1 else "o", color=colour, **style)
        if own and own[0].get("low") is not None:
            axes.fill_between(
                places, [row["low"] for row in own], [row["high"] for row in own], color=colour, alpha=0.2
            )
    axes.grid(alpha=0.3)


def _agents(axes: Any, comparison: Comparison, colours: Mapping[str, str]) -> None:
    """For each agent a dot of each algorithm, beside each other."""
    names = comparison.about["agents"]
    for number, (algorithm, colour) in enumerate(colours.items()):
        shift = 0.6 * ((number + 0.5) / len(colours) - 0.5)
        for row in comparison.summary:
            if row["algorithm"] == algorithm and row["who"] in names:
                place = names.index(row["who"]) + shift
                if row["low"] is not None:
                    axes.plot([place, place], [row["low"], row["high"]], color=colour, linewidth=4, alpha=0.4, **ENDS)
                axes.plot(place, row["interquartile_mean"], "o", color=colour, markersize=4)
    slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, names)) > FEW_AGENTS else {}
    axes.set_xticks(range(len(names)), map(_plain, names), **slanted)
    axes.grid(axis="y", alpha=0.3)


def _matrix(axes: Any, rows: Sequence[Mapping[str, Any]], algorithms: Sequence[str]) -> None:
    """The probabilities of all pairs, as a table of numbers in colours."""
    places = {name: place for place, name in enumerate(algorithms)}
    table = np.full((len(places), len(places)), np.nan)
    for row in rows:
        one, two = places[row["algorithm"]], places[row["over"]]
        table[one, two] = row["probability"]
        dark = abs(row["probability"] - 0.5) > 0.35
        axes.text(
            two, one, f"{row['probability']:.2f}", ha="center", va="center", color="w" if dark else "k", fontsize=7
        )
    axes.imshow(table, cmap="RdBu", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(places)), range(1, len(places) + 1))
    axes.set_yticks(range(len(places)), range(1, len(places) + 1))


def _plain(text: str, longest: int = LONGEST) -> str:
    """A text that matplotlib takes for no formula, broken into lines."""
    words, lines = text.replace("$", r"\$").split(), [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= longest:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
