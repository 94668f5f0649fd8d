"""Summaries of episodes, per tag and per group."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import comb
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np


@dataclass
class Tally:
    """Counters of an episode, beside its history."""

    reward: float = 0.0
    success: bool = False
    given: int = 0
    """Actions given; a turn without any counts as one."""
    invalid: int = 0
    """Those that were not known, or that the environment called invalid."""
    timeouts: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of each turn."""

    def count(self, reward: float, given: int, invalid: int, seconds: float) -> None:
        """Add a turn."""
        self.reward += reward
        self.seconds.append(seconds)
        self.given += given or 1
        self.invalid += invalid if given else 1


class Ended(NamedTuple):
    """An episode, ended or not."""

    num_actions: int
    tally: Tally
    history: Sequence[Mapping[str, Any]]

    def mean_info(self) -> dict[str, float]:
        """The mean over the turns of every key of `info` that is a number."""
        values: dict[str, list[float]] = {}
        for entry in self.history:
            for key, number in numbers(entry.get("info", {})):
                values.setdefault(key, []).append(number)
        return {key: fmean(each) for key, each in values.items()}


def numbers(info: Mapping[Any, Any]) -> Iterator[tuple[str, float]]:
    """What is a number in `info`."""
    for key, value in info.items():
        if isinstance(value, bool | int | float | np.number | np.bool_):
            with suppress(OverflowError, TypeError):  # integers too large for a float, complex numbers
                yield str(key), float(value)


def summary_of_tag(episodes: Sequence[Ended]) -> dict[str, float]:
    """Means over the episodes of a tag."""
    tallies = [episode.tally for episode in episodes]
    seconds = [second for tally in tallies for second in tally.seconds]
    infos = [episode.mean_info() for episode in episodes]
    keys = sorted({key for info in infos for key in info})
    given = sum(tally.given for tally in tallies)
    return {
        **{key: fmean(info[key] for info in infos if key in info) for key in keys},
        "success": fmean(tally.success for tally in tallies),
        "num_actions": fmean(episode.num_actions for episode in episodes),
        "reward": fmean(tally.reward for tally in tallies),
        "invalid_rate": sum(tally.invalid for tally in tallies) / given if given else 0.0,
        "latency_p50_ms": 1000 * float(np.percentile(seconds, 50)) if seconds else 0.0,
        "latency_p95_ms": 1000 * float(np.percentile(seconds, 95)) if seconds else 0.0,
        "timeouts": sum(tally.timeouts for tally in tallies),
    }


def pass_at_k(successes: Iterable[bool]) -> dict[str, float]:
    """The chance that at least one of k episodes of a group succeeds, for every k: 1 - C(n-c, k) / C(n, k)."""
    results: list[Any] = list(successes)
    n, c = len(results), sum(results)
    return {f"pass@{k}": 1 - comb(n - c, k) / comb(n, k) for k in range(1, n + 1)}
