"""Figures of episodes, each with one definition: of one episode (`metrics_of`), and their means (`summary_of`).

    success          it ended, and not for lack of actions or turns, with info["success"]
    num_actions      actions that were executed
    reward           their sum over the turns; penalty: that of its invalid turns, 0 or less; score: reward + penalty
    invalid_rate     share of the actions given that were unknown, or that the environment called invalid; a turn without
                     any action counts as one. Of several episodes: of all their actions together
    KEY              a number in `info`, action_is_valid and action_is_effective among them: its sum over the turns, divided
                     by how many there are; a turn without it (none of its actions was executed) counts as 0

A mean is over the episodes that have ended. One that could not begin, or not be finished (`info["error"]`), is among them:
it counts as no success, with the reward that it had until then, and `failed` counts such episodes. Where the environment
ends episodes without ever saying info["success"], the success of a tag, and its pass@k, is NaN.

What was measured (`measurements_of`) depends on the machine, so it is kept apart: equal episodes have equal figures.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from math import comb, isnan, nan
from statistics import fmean
from typing import Any

import numpy as np

from abreast.errors import log
from abreast.rollouts.episodes.slot import Slot, Tally

FIGURES = tuple(Tally().figures(0.0))
NUMBERS = (int, float, np.number, np.bool_)
SILENT = (
    'No episode of {tag} ended with info["success"], so its success is not known (– or NaN), rather than 0 %: set'
    ' info["success"] to True or False in the step that ends an episode, or let the factory of the environment return'
    " abreast.rollouts.adapters.TextAdapter(ENV, success_reward=NUMBER), which goes by the rewards."
)
"""Said of a tag where some episodes end without a word of success, and none with one."""
_warn_once = cache(log.warning)


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
                with suppress(OverflowError, TypeError):  # integers too large for a float, complex numbers
                    sums[key] = sums.get(key, 0.0) + float(value)
    sums.pop("success", None)
    by_turn, name = episode.tag.kind.turn_metrics, episode.tag.name
    summed = () if by_turn is None else sums.keys() - by_turn
    return {
        **{f"{name}/{key}": total / len(turns) for key, total in sums.items() if key not in summed},
        **{f"{name}/traj_sum/{key}": sums[key] for key in sums if key in summed},
        **{f"{name}/{figure}": value for figure, value in episode.tally.figures(episode.cache["penalty"]).items()},
    }


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
    told, means = {}, {tag: summary_of(each) for tag, each in tags.items()}
    for group, members in groups.items():
        over, tag = [episode for episode in members if episode.terminated], members[0].tag.name
        chances = pass_at_k(episode.tally.success for episode in over)
        told[group] = {"tag": tag, **(dict.fromkeys(chances, nan) if isnan(means[tag]["success"]) else chances)}
        for episode in over:
            passed = any(other.tally.success for other in over)
            episode.cache["metrics"][f"{episode.tag.name}/pass@{len(over)}"] = float(passed)
    return {"tags": means, "groups": told}


def summary_of(episodes: Sequence[Slot]) -> dict[str, float]:
    """Return means over the episodes of a tag that have ended, and how many have not; a mean of none is NaN."""
    over, tag = [episode for episode in episodes if episode.terminated], episodes[0].tag.name
    tallies = [episode.tally for episode in over]
    given, invalid = sum(tally.given for tally in tallies), sum(tally.invalid for tally in tallies)
    if is_silent := any(tally.is_silent for tally in tallies) and not any(tally.success for tally in tallies):
        _warn_once(SILENT.format(tag=tag))
    metrics = [metrics_of(episode) for episode in over]
    keys = dict.fromkeys(key for each in metrics for key in each)
    means = {key.removeprefix(f"{tag}/"): fmean(each[key] for each in metrics if key in each) for key in keys}
    begun = sum(bool(episode.history) for episode in episodes)
    return {
        **dict.fromkeys(FIGURES, nan),
        **means,
        **({"success": nan} if is_silent else {}),
        "invalid_rate": invalid / given if given else nan,
        "episodes": len(over),
        "unfinished": begun - len(over),
        "failed": sum(episode.error is not None for episode in over),
        "never_begun": len(episodes) - begun,
    }


def measurements_of(episodes: Sequence[Slot]) -> dict[str, dict[str, float]]:
    """Return per tag the latencies of turns, and how many turns took too long: what depends on the machine."""
    told = {}
    for tag in dict.fromkeys(episode.tag.name for episode in episodes):
        tallies = [episode.tally for episode in episodes if episode.tag.name == tag]
        half, most = latencies(second for tally in tallies for second in tally.seconds)
        told[tag] = {"latency_p50_ms": half, "latency_p95_ms": most, "timeouts": sum(each.timeouts for each in tallies)}
    return told


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
