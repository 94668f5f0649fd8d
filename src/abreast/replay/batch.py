"""What learning asks of a replay."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Batch(NamedTuple):
    """What an off-policy update needs. `target = rewards + discounts * value(next_states)`, where `valid`."""

    states: NDArray[Any]
    """(B, T, …) stacked frames, oldest first; frames before the start of the episode are zero."""
    actions: NDArray[Any]
    """Numbers of actions, (B,); of continuous ones vectors, (B, size)."""
    rewards: NDArray[np.float32]
    """True n-step returns: discounted sums of the next rewards, up to n of them, fewer where the episode ends."""
    next_states: NDArray[Any]
    """(B, T, …) the state to bootstrap from."""
    discounts: NDArray[np.float32]
    """Discount per sample to the power of the steps summed; 0 where the episode ended for good."""
    valid: NDArray[np.bool_]
    """False where a row has no successor (its episode was cut, or it is the newest): leave it out of the loss."""
    extras: Mapping[str, NDArray[Any]] = MappingProxyType({})
    """What else was remembered with `states`, by name."""
    next_extras: Mapping[str, NDArray[Any]] = MappingProxyType({})
    """And with `next_states`."""


class Trajectory(NamedTuple):
    """Consecutive rows of one lane, for on-policy updates."""

    states: NDArray[Any]
    actions: NDArray[Any]
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    """The episode ended for good after this row."""
    valid: NDArray[np.bool_]
    """The row is `done`, or the next row goes on from it."""
    last: NDArray[np.bool_]
    """The episode ended with this row, for good or cut."""
    extras: dict[str, NDArray[Any]]

    def part(self, begin: int, end: int) -> "Trajectory":
        """Rows `begin` to `end` of it."""
        rows = slice(begin, end)
        extras = {name: array[rows] for name, array in self.extras.items()}
        return Trajectory(*(array[rows] for array in self[:-1]), extras)  # type: ignore[arg-type,call-arg]


def joined(trajectories: Sequence[Trajectory]) -> Trajectory:
    """Trajectories one after the other. The last row of each has no next one: it is `done`, or not `valid`."""
    columns = [np.concatenate(column) for column in zip(*(each[:-1] for each in trajectories), strict=True)]
    extras = {name: np.concatenate([each.extras[name] for each in trajectories]) for name in trajectories[0].extras}
    return Trajectory(*columns, extras)  # type: ignore[arg-type,call-arg]
