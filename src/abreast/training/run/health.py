"""Silent faults, named: what looks like learning but is not."""

import math

from abreast.models import BaseModel

LOOKED_AT = 64
"""Newest rows of a replay that are looked at, per lane."""


def symptoms(model: BaseModel, loss: float | None) -> list[str]:
    """Faults of a model that has just been trained, as sentences; usually none."""
    found: list[str] = []
    if loss is None:
        return found
    if not math.isfinite(loss):
        found.append(f"its loss is {loss}: lower model.learning_rate")
    if model.has_no_gradient:
        found.append("its gradient is zero: it has stopped learning")
    newest = model.memory.newest_states(LOOKED_AT)
    if len(newest) >= LOOKED_AT and not newest.any():
        found.append(f"the newest {len(newest)} states in its memory are all zero: is anything written into it?")
    return found
