"""Silent faults, named: what looks like learning but is not."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, pvariance
from typing import Any

from abreast.headline import SUM, groups_of_run
from abreast.models import BaseModel, RandomModel

LOOKED_AT = 64
"""Newest rows of a replay that are looked at, per lane."""
FEW_LANES = 8
"""Lanes that are looked at first."""
FEW_CALLS = 10
"""Calls of `train_step` after which a model should have learned something, with a batch of rows in its memory."""

FEWEST_EPOCHS = 8
"""Epochs in a tenth of a run without which nothing is said of what it has learned."""
COLLAPSED = 0.1
"""Share of the entropy in the first tenth of a run below which that of the last has collapsed."""


def should_have_learned(model: BaseModel) -> bool:
    """Whether there is enough in memory for an update of a model that learns."""
    return type(model).train_step is not RandomModel.train_step and len(model.memory) >= model.config.batch_size


def symptoms(model: BaseModel, figures: Mapping[str, float] | None) -> list[str]:
    """Faults of a model that has just been trained, as sentences; usually none. `figures`: of its updates, if it had any."""
    found: list[str] = []
    if figures is None:
        if type(model).train_step is not RandomModel.train_step and not model.memory.written.any():
            found.append("it learns nothing, for its memory is empty: does its `remember` call `super().remember`?")
        return found
    if not math.isfinite(figures.get("loss", 0.0)):
        own = type(model).replaced_method(("loss_of", "loss", "train_step"))
        cause = f"look in its own {own} for what is no number (log(0), 0 / 0, a root of 0), or " if own else ""
        found.append(f"its loss is {figures['loss']}: {cause}lower model.learning_rate")
    if model.has_no_gradient:
        found.append("its gradient is zero: it has stopped learning" + _cause_of_no_gradient(model))
    if not model.memory.newest_states(LOOKED_AT, lanes=FEW_LANES).any():  # there may be very many
        newest = model.memory.newest_states(LOOKED_AT)
        if len(newest) < LOOKED_AT or newest.any():
            return found
        found.append(f"the newest {len(newest)} states in its memory are all zero: is anything written into it?")
    return found


def _cause_of_no_gradient(model: BaseModel) -> str:
    """What is known of the cause of a gradient of zero."""
    if model.memory.has_outcomes(LOOKED_AT):
        return ""
    return (
        ", for no row has an outcome: episodes of one turn are cut before there is a next state; set world.is_done where the"
        " game ends"
    )


def doubts_of(epochs: Sequence[Mapping[str, Any]], random: Sequence[Sequence[float]] = ()) -> list[str]:
    """Return in sentences why a run seems to have learned nothing: its last tenth is no better than random agents, or the
    entropy of a policy has collapsed while the reward has not risen. Nothing is said of agents with sides.

    Args:
        epochs: the lines of its metrics.jsonl.
        random: what random agents get in the same game, by episode and agent, if that is known.
    """
    tenth = len(epochs) // 10
    if tenth < FEWEST_EPOCHS or SUM not in groups_of_run(epochs):
        return []
    first, last, found = epochs[:tenth], epochs[-tenth:], []
    rewards, chances = [epoch["reward"] for epoch in last], [sum(each) for each in random]
    noise = math.sqrt(sum(pvariance(each) / len(each) for each in (rewards, chances) if each))
    if chances and fmean(rewards) <= fmean(chances) + 2 * noise:
        found.append(
            f"The last {tenth} epochs are no better than random agents ({fmean(rewards):.1f}, random {fmean(chances):.1f})."
        )
    if fmean(rewards) <= fmean(epoch["reward"] for epoch in first):
        before, now = ([_entropies(epoch) for epoch in part] for part in (first, last))
        collapsed = [
            str(agent)
            for agent in now[-1].keys() & before[-1].keys()
            if _mean(now, agent) < COLLAPSED * _mean(before, agent)
        ]
        if collapsed:
            found.append(
                f"The policy of agent {', '.join(sorted(collapsed))} hardly varies, and the reward has not risen."
            )
    return found


def _entropies(epoch: Mapping[str, Any]) -> dict[int, float]:
    """Return the entropy that each agent with one has reported."""
    found = {agent: figures.get("entropy") for agent, figures in enumerate(epoch["learning"])}
    return {agent: value for agent, value in found.items() if value is not None}


def _mean(entropies: Sequence[Mapping[int, float]], agent: int) -> float:
    return fmean([each[agent] for each in entropies if agent in each])
