"""The headline of a run: which results of its agents stand for the whole run.

The sum of all rewards says how a run went, unless the agents have sides. Then each side is reported, and nothing is "the
best": what one side gains, the other may lose. Everything that names one result of a run asks `groups_of`.
"""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

SUM = "sum"
"""Name of the group of all agents."""
NUMBERED = re.compile(r"(.*?)[\s_-]*\d+")
"""A name as PettingZoo forms it, from the kind of the agent and a number: adversary_0."""
TOLERANCE = 1e-4
"""Share of the largest reward below which two sums count as equal: rewards are rounded to 32 bits."""
MIN_EPISODES, MIN_ZERO_SUM = 8, 2
"""Episodes with rewards without which a sum does not count as a constant, because fewer may agree by chance. The second is
for a sum of zero.
"""


def groups_of(rewards: Sequence[Sequence[float]], names: Sequence[str] = ()) -> dict[str, list[int]]:
    """Return the agents whose rewards are summed in each result of the headline, by the name of that result.

    There is one group, `SUM`, unless names of all agents have the form kind_number with several kinds, or the rewards of an
    episode always sum to the same constant. Kinds are then groups; where there are none, each agent is. Agents that always
    get the same reward have a common interest, whatever their names are.

    Args:
        rewards: rewards by episode and agent.
        names: names of the agents, if the game has any.
    """
    rewards_EA = np.asarray([*rewards] or [()], dtype=float)
    agents = rewards_EA.shape[1]
    scale = TOLERANCE * np.abs(rewards_EA).max(initial=0.0)
    if agents < 2 or np.ptp(rewards_EA, axis=1).max() <= scale:
        return {SUM: [*range(agents)]}
    kinds, matches = dict[str, list[int]](), [NUMBERED.fullmatch(name) for name in names]
    for agent, match in enumerate(matches if len(matches) == agents else ()):
        kinds.setdefault(match[1] if match else "", []).append(agent)
    if len(kinds) > 1 and all(matches):
        return {names[group[0]] if len(group) == 1 else kind: group for kind, group in kinds.items()}
    sums_E = rewards_EA.sum(axis=1)[np.abs(rewards_EA).max(axis=1) > 0]
    is_zero = np.abs(sums_E).max() <= scale
    is_constant = np.ptp(sums_E) <= scale < np.ptp(rewards_EA, axis=0).max()
    if len(sums_E) < (MIN_ZERO_SUM if is_zero else MIN_EPISODES) or not (is_zero or is_constant):
        return {SUM: [*range(agents)]}
    return {names[agent] if agent < len(names) else f"agent {agent}": [agent] for agent in range(agents)}


def results_of(rewards: Sequence[Sequence[float]], groups: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Return the mean reward of each group over the episodes."""
    return {name: fmean(sums) for name, sums in sums_of(rewards, groups).items()}


def sums_of(rewards: Sequence[Sequence[float]], groups: Mapping[str, Sequence[int]]) -> dict[str, list[float]]:
    """Return what the agents of each group got together, by episode."""
    return {name: [sum(each[agent] for agent in group) for each in rewards] for name, group in groups.items()}


def results_of_run(epochs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the headline of a run by the lines of its metrics.jsonl: means over the last tenth of its epochs."""
    newest = [epoch["reward_per_agent"] for epoch in epochs[-max(1, len(epochs) // 10) :]]
    return results_of(newest, groups_of_run(epochs))


def groups_of_run(epochs: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """Return `groups_of` a run by the lines of its metrics.jsonl."""
    return groups_of([epoch["reward_per_agent"] for epoch in epochs], epochs[-1].get("agents", ()))


def as_text(results: Mapping[str, float]) -> str:
    """Return the results as part of a sentence: the sum alone, or each side with its name."""
    return ", ".join(f"{value:.1f}" if name == SUM else f"{name} {value:.1f}" for name, value in results.items())
