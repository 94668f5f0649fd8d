"""Figures of episodes, each with one definition: of one episode (`metrics_of`), and their means (`summary_of`).

    success          it ended, and not for lack of actions or turns, with info["success"]
    num_actions      actions that were executed
    reward           their sum over the turns; penalty: that of its invalid turns, 0 or less; score: reward + penalty
    invalid_rate     share of the actions given that were unknown, or that the environment called invalid; a turn without
                     any action counts as one
    KEY              a number in `info`, action_is_valid and action_is_effective among them: its sum over the turns, divided
                     by how many there are; a turn without it (none of its actions was executed) counts as 0

A mean is over the episodes that are over. Those that were never begun, are not over, or could not go on (`info["error"]`)
are counted apart.
"""

from collections.abc import Iterable, Sequence
from math import comb, nan
from statistics import fmean
from typing import Any

import numpy as np

from abreast.rollouts.episodes.slot import Slot, Tally

FIGURES = tuple(Tally().figures(0.0))
NUMBERS = (int, float, np.number, np.bool_)


def metrics_of(episode: Slot) -> dict[str, float]:
    """The figures of an episode as TAG/FIGURE, for trainers that read them per trajectory (RAGEN's names).

    If the type names the keys of `info` for which a mean over the turns is right (`EnvKind.turn_metrics`), others are
    TAG/traj_sum/KEY, and not divided.
    """
    turns = [entry["info"] for entry in episode.history if "actions" in entry]
    sums: dict[object, float] = {}
    for info in turns:
        for key, value in info.items():
            if isinstance(value, NUMBERS):
                try:
                    sums[key] = sums.get(key, 0.0) + float(value)
                except (OverflowError, TypeError):  # integers too large for a float, complex numbers
                    continue
    sums.pop("success", None)
    by_turn, name = episode.tag.kind.turn_metrics, episode.tag.name
    figures: dict[str, float] = {}
    for key, total in sums.items():
        if by_turn is None or key in by_turn:
            figures[f"{name}/{key}"] = total / len(turns)
        else:
            figures[f"{name}/traj_sum/{key}"] = total
    for figure, value in episode.tally.figures(episode.cache["penalty"]).items():
        figures[f"{name}/{figure}"] = value
    return figures


def states_of(episodes: Iterable[Slot]) -> dict[str, Any]:
    """Means per tag (`tags`), pass@k per group (`groups`); each cache then has `metrics`, with TAG/pass@k of its group."""
    tags: dict[str, list[Slot]] = {}
    groups: dict[Any, list[Slot]] = {}
    for episode in episodes:
        tags.setdefault(episode.tag.name, []).append(episode)
        if episode.cache:
            episode.cache["metrics"] = metrics_of(episode)
            if episode.cache["group_id"] is not None:  # single episodes need not have one
                groups.setdefault(episode.cache["group_id"], []).append(episode)
    told = {}
    for group, members in groups.items():
        over = [episode for episode in members if is_over(episode)]
        told[group] = {"tag": members[0].tag.name, **pass_at_k(episode.tally.success for episode in over)}
        for episode in over:
            passed = any(other.tally.success for other in over)
            episode.cache["metrics"][f"{episode.tag.name}/pass@{len(over)}"] = float(passed)
    return {"tags": {tag: summary_of(each) for tag, each in tags.items()}, "groups": told}


def is_over(episode: Slot) -> bool:
    """Whether it has come to an end of its own: it was begun, is not under way, and did not fail."""
    return episode.terminated and episode.error is None


def summary_of(episodes: Sequence[Slot]) -> dict[str, float]:
    """Means over the episodes of a tag that are over, and how many are not; a mean of none is NaN."""
    over = [episode for episode in episodes if is_over(episode)]
    begun = [episode for episode in episodes if len(episode.history) > 1 or (episode.history and not episode.error)]
    failed = sum(episode.error is not None for episode in begun)
    prefix = f"{episodes[0].tag.name}/"
    metrics = [metrics_of(episode) for episode in over]
    keys = dict.fromkeys(key for each in metrics for key in each)
    means = {key.removeprefix(prefix): fmean(each[key] for each in metrics if key in each) for key in keys}
    half, most = latencies(second for episode in episodes for second in episode.tally.seconds)
    return {
        **dict.fromkeys(FIGURES, nan),
        **means,
        "episodes": len(over),
        "unfinished": len(begun) - len(over) - failed,
        "failed": failed,
        "never_begun": len(episodes) - len(begun),
        "latency_p50_ms": half,
        "latency_p95_ms": most,
        "timeouts": sum(episode.tally.timeouts for episode in episodes),
    }


def latencies(seconds: Iterable[float]) -> tuple[float, float]:
    """Milliseconds within which half of all turns, or requests, were done, and 95 % of them; NaN if there were none."""
    if not (found := list(seconds)):
        return nan, nan
    half, most = np.percentile(found, [50, 95])
    return 1000 * float(half), 1000 * float(most)


def pass_at_k(successes: Iterable[bool]) -> dict[str, float]:
    """The chance that at least one of k episodes of a group succeeds, for every k: 1 - C(n-c, k) / C(n, k)."""
    results: list[Any] = list(successes)
    n, c = len(results), sum(results)
    return {f"pass@{k}": 1 - comb(n - c, k) / comb(n, k) for k in range(1, n + 1)}
