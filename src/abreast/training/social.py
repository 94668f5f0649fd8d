"""Social outcomes of an epoch: how much a group gets, how it is shared, when, how peacefully.

(The formulas: docs/reference/social-outcomes.md.)
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from statistics import fmean
from typing import Any

from abreast.worlds.playable import Late, Played

OUTCOMES = ("efficiency", "equality", "sustainability", "peace")
"""What the figures are called."""
TIMED_OUT = "timed_out"
"""The figure in which a game says how many agent-turns were spent timed out; without it there were none."""


class RewardTimes:
    """The reward of each step of an epoch, per agent and lane; what comes late belongs to the step before."""

    def __init__(self, agents: int) -> None:
        self._rewards: list[dict[int, list[float]]] = [defaultdict(list) for _ in range(agents)]

    def note(self, agent: int, lanes: Sequence[int], rewards: Sequence[float]) -> None:
        """A step of an agent, in some lanes."""
        own = self._rewards[agent]
        for lane, reward in zip(lanes, rewards, strict=True):
            own[lane].append(reward)

    def note_late(self, late: Iterable[Late]) -> None:
        """What came after a step."""
        for each in late:
            if each.reward and (own := self._rewards[each.agent].get(each.lane)):
                own[-1] += each.reward

    def means(self, lanes: int) -> list[list[float]]:
        """Per lane and agent, the mean number of the steps that brought a reward above 0; NaN: there were none."""
        seen = sorted({lane for own in self._rewards for lane in own})
        if len(seen) != lanes:  # agents that act by themselves, unseen
            return [[math.nan] * len(self._rewards)] * lanes
        return [[_mean_time(own.get(lane, ())) for own in self._rewards] for lane in seen]


def _mean_time(rewards: Sequence[float]) -> float:
    times = [number for number, reward in enumerate(rewards, 1) if reward > 0]
    return fmean(times) if times else math.nan


def social_outcomes(
    turns: int, rewards: Sequence[float], times: Sequence[float], timed_out: float = 0.0
) -> dict[str, float]:
    """The four figures of an epoch; NaN where one is not defined.

    rewards, times: per agent, its return, and the mean turn at which it got a reward above 0 (NaN: it never did).
    """
    agents, total = len(rewards), math.fsum(rewards)
    is_shared = total > 1e-9 * math.fsum(map(abs, rewards))  # less is rounding, where gains and losses add up to 0
    differences = math.fsum(abs(one - other) for one in rewards for other in rewards)
    known = [time for time in times if not math.isnan(time)]
    return {
        "efficiency": total / turns if turns else math.nan,
        "equality": 1 - differences / (2 * agents * total) if is_shared else math.nan,
        "sustainability": fmean(known) if known else math.nan,
        "peace": (agents * turns - timed_out) / turns if turns else math.nan,
    }


def with_social_outcomes(played: Sequence[Played], times: Sequence[Sequence[float]]) -> list[Played]:
    """Epochs, each with its social outcomes beside the game's own figures, which come first; not those of a single agent."""
    return [_with_outcomes(epoch, of_lane) for epoch, of_lane in zip(played, times, strict=True)]


def _with_outcomes(epoch: Played, times: Sequence[float]) -> Played:
    own: Any = epoch.metrics
    if len(epoch.reward_per_agent) < 2 or not isinstance(own, Mapping):  # what is no mapping, the record refuses
        return epoch
    timed_out = own.get(TIMED_OUT)
    missed = float(timed_out) if isinstance(timed_out, Real) else 0.0
    figures = social_outcomes(epoch.turns, [float(reward) for reward in epoch.reward_per_agent], times, missed)
    return epoch._replace(metrics={**own, **{name: value for name, value in figures.items() if name not in own}})
