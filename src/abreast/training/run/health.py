"""Silent faults, named: what looks like learning but is not."""

import math
from collections.abc import Mapping

from abreast.models import BaseModel, RandomModel

LOOKED_AT = 64
"""Newest rows of a replay that are looked at, per lane."""
FEW_LANES = 8
"""Lanes that are looked at first."""
FEW_CALLS = 10
"""Calls of `train_step` after which a model should have learned something, with a batch of rows in its memory."""


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
