"""What a model needs to know of an observation."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import DTypeLike


class ObservationShape(Protocol):
    """What a model needs to know of an observation; every ObservationSpec has it."""

    dtype: DTypeLike
    scale: float

    @property
    def input_size(self) -> tuple[int, ...]: ...


def is_masked(observation: ObservationShape) -> bool:
    """Whether every observation comes with a mask of the actions that are legal then (`Decision.masks`)."""
    return bool(getattr(observation, "is_masked", False))


@dataclass
class PlainObservation:
    """The shape of an observation and nothing more, to build a model in another process."""

    input_size: tuple[int, ...]
    dtype: DTypeLike
    scale: float
    is_masked: bool = False

    @classmethod
    def of(cls, seen: ObservationShape) -> Self:
        """The shape of another observation."""
        return cls(tuple(seen.input_size), np.dtype(seen.dtype), seen.scale, is_masked(seen))
