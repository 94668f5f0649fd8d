"""What episodes came to: per tag and per group."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb
from statistics import fmean
from typing import Any

import numpy as np

from abreast.rollouts.messages import Turn


@dataclass
class Tally:
    """Counts of one episode."""

    actions: int = 0
    given: int = 0
    invalid: int = 0
    timeouts: int = 0
    seconds: list[float] = field(default_factory=list)
    numbers: dict[str, list[float]] = field(default_factory=dict)
    """The numeric values of each key of `info`, turn by turn."""
    success: bool = False
    reward: float = 0.0

    def note(self, turn: Turn, given: int) -> None:
        """Take in a turn. One without a valid action costs one too, or an episode might never end."""
        self.actions += max(1, len(turn.executed))
        self.given += max(given, 1)
        self.invalid += turn.dropped + turn.refused if given else 1
        self.seconds.append(turn.seconds)
        self.reward += turn.reward
        for key, value in turn.info.items():
            if isinstance(value, bool | int | float | np.number | np.bool_):
                self.numbers.setdefault(key, []).append(float(value))


def summary_of_tag(tallies: Sequence[Tally]) -> dict[str, float]:
    """Means over the episodes of a tag."""
    seconds = [second for tally in tallies for second in tally.seconds]
    keys = sorted({key for tally in tallies for key in tally.numbers})
    given = sum(tally.given for tally in tallies)
    return {
        **{key: fmean(fmean(tally.numbers[key]) for tally in tallies if key in tally.numbers) for key in keys},
        "success": fmean(tally.success for tally in tallies),
        "num_actions": fmean(tally.actions for tally in tallies),
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
