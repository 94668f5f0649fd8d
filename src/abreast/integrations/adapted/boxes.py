"""A Box of Gymnasium as an array: vectors, pictures, stacks of pictures; and what is scaled."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from abreast.errors import GameError, short
from abreast.models.observation import PlainObservation

MOST_NUMBERS = 2**24
"""Numbers in an observation."""
SCALED = (10.0, 10_000.0)
"""Bounds from here to there are brought to 1. Larger ones usually stand for none."""
BYTES = (np.uint8, np.int8, np.bool_)
CHANNELS = (1, 3, 4)
"""Of a picture: grey, colours, colours with transparency."""
LONGEST_STACK, SMALLEST_STACKED = 8, 16
"""As many pictures of one channel, each larger than so many pixels a side, are a stack."""


class View(NamedTuple):
    """What an agent sees."""

    observation: PlainObservation
    read: Callable[[Any], NDArray[Any]]
    """Makes a new array of an observation; raises `GameError` with words that follow "observes"."""
    has_mask: bool = False
    """Whether the observation holds `action_mask`."""
    left_out: Sequence[str] = ()
    """Parts of the observation that are not seen, in words."""
    bounds: tuple[NDArray[Any] | None, NDArray[Any] | None] = (None, None)
    """The lowest and highest values that a Box says, as `read` returns them."""


def box_view(space: spaces.Box) -> View:
    shape, dtype = space.shape, space.dtype
    of_bytes = dtype in BYTES
    kind = (np.dtype(np.uint8) if dtype == np.bool_ else np.dtype(dtype)) if of_bytes else np.dtype(np.float32)
    if math.prod(shape) > MOST_NUMBERS or not math.prod(shape):
        raise GameError(f"of shape {shape}: expected 1 to {MOST_NUMBERS:,} numbers")
    order = _channels_last(shape)
    seen = shape if len(shape) == 3 else (math.prod(shape),)
    if len(shape) == 2 and of_bytes:
        seen = (*shape, 1)
    elif order is not None:
        seen = (shape[1], shape[2], math.prod(shape) // (shape[1] * shape[2]))
    factor = None if of_bytes else _factor(space)
    largest = max(abs(float(space.low.min())), abs(float(space.high.max())))
    scale = 1.0 / largest if of_bytes and largest > 1 else 1.0

    def arranged(array: NDArray[Any]) -> NDArray[Any]:
        if factor is not None:
            array = array * factor
        if order is not None:
            return np.ascontiguousarray(array.transpose(order)).reshape(seen)
        return array if shape == seen else array.reshape(seen)

    def read(given: Any) -> NDArray[Any]:
        try:
            array = np.array(given, dtype=kind)  # a copy: the environment may write into its own array
        except (TypeError, ValueError, OverflowError):
            raise GameError(f"{short(given)}: expected an array of shape {shape}, as its space says.") from None
        if array.shape != shape:
            raise GameError(
                f"an array of shape {array.shape}, but its space says {shape}: give every observation the shape of the"
                " space; pad what is not there."
            )
        if of_bytes:
            if getattr(given, "dtype", None) != dtype and not np.array_equal(array, given):
                raise GameError(
                    f"{short(given)}, which cannot be {dtype}, as its space says: let the space say what the numbers are."
                )
        elif not math.isfinite(np.vdot(array, array)) and not np.isfinite(array).all():  # the first takes half the time
            odd = array[~np.isfinite(array)].tolist()[0]
            raise GameError(f"{odd}, which is no number to learn from: return finite numbers (of 32 bits).")
        return arranged(array)

    low, high = (arranged(bound.astype(kind)) for bound in (space.low, space.high))
    return View(PlainObservation(seen, kind, scale), read, bounds=(low, high))


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order of dimensions that makes a picture of rows x columns x channels of one that is not, or of a stack."""
    if len(shape) == 4 and shape[3] in CHANNELS and min(shape[1:3]) > max(CHANNELS):
        return 1, 2, 0, 3
    if len(shape) != 3 or shape[2] in CHANNELS:
        return None
    is_first = shape[0] in CHANNELS and min(shape[1:]) > max(CHANNELS)
    return (1, 2, 0) if is_first or (shape[0] <= LONGEST_STACK and min(shape[1:]) > SMALLEST_STACKED) else None


def _factor(space: spaces.Box) -> NDArray[np.float32] | None:
    bounds = np.maximum(np.abs(space.low.astype(np.float64)), np.abs(space.high.astype(np.float64)))
    is_scaled = np.isfinite(bounds) & (bounds > SCALED[0]) & (bounds <= SCALED[1])
    if not is_scaled.any():
        return None
    return np.where(is_scaled, 1.0 / np.where(is_scaled, bounds, 1.0), 1.0).astype(np.float32)
