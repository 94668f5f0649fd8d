"""Action spaces of Gymnasium as numbers: what the number of an action stands for."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from abreast.errors import GameError, short
from abreast.models.action_box import ActionBox

MOST_ACTIONS = 2**20
"""Actions of an agent, and numbers of a continuous one: each is an output of its network. Fewer may fill the memory."""


class Actions(NamedTuple):
    """What an agent can do."""

    number: int
    """How many actions there are."""
    is_plain: bool
    """Whether an action is its number."""
    of: Callable[[Any], Any]
    """The environment's action with a number; of continuous ones, for a vector that a model chose."""
    box: ActionBox | None = None
    """If they are continuous; `number` says how many floats an action has."""

    def drawn(self, choices: np.random.Generator, mask: NDArray[np.bool_] | None) -> Any:
        """One of them at random, among those that are legal."""
        if self.box is not None:
            return choices.uniform(-1.0, 1.0, self.number).astype(np.float32)
        return int(choices.choice(self.number if mask is None else np.flatnonzero(mask)))


def actions_of(space: spaces.Space[Any]) -> Actions:
    """What the numbers of actions stand for; spaces that cannot be enumerated are refused, with the words after
    "its actions are".
    """
    if isinstance(space, spaces.Discrete):
        count, start = int(space.n), int(space.start)
        if count > MOST_ACTIONS:
            raise GameError(f"{count:,} in number, and at most {MOST_ACTIONS:,} are supported")
        return Actions(count, not start, int if not start else (lambda action: action + start))
    if isinstance(space, spaces.Box):
        return _of_box(space)
    count = _count(space)
    if count > MOST_ACTIONS:
        raise GameError(
            f"combined ({type(space).__name__}), {count:,} in number, and at most {MOST_ACTIONS:,} are supported: wrap the"
            " environment to offer fewer"
        )
    return Actions(count, False, lambda action: _value(space, int(action)))


def _of_box(space: spaces.Box) -> Actions:
    size, dtype, shape = math.prod(space.shape), np.dtype(space.dtype), space.shape
    if dtype.kind != "f":
        raise GameError(
            f"whole numbers in a Box ({short(space)}), but a Box is taken for continuous: offer MultiDiscrete, or floats"
        )
    if not 1 <= size <= MOST_ACTIONS:
        raise GameError(f"of shape {shape} ({short(space)}): expected 1 to {MOST_ACTIONS:,} numbers")
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise GameError(
            f"continuous without bounds ({short(space)}), but models choose between a lowest and a highest value: give the"
            " Box a finite low and high, or wrap the environment in one that has them (gymnasium.wrappers.TransformAction)"
        )
    box = ActionBox(tuple(space.low.ravel().tolist()), tuple(space.high.ravel().tolist()))
    return Actions(size, False, lambda action: box.scaled(action).astype(dtype).reshape(shape), box)


def _count(space: spaces.Space[Any]) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(math.prod(int(count) for count in space.nvec.flat))
    if isinstance(space, spaces.MultiBinary):
        return int(2 ** min(math.prod(space.shape), 64))
    if isinstance(space, spaces.Tuple):
        return int(math.prod(_count(inner) for inner in space.spaces))
    if isinstance(space, spaces.Dict):
        return int(math.prod(_count(inner) for inner in space.spaces.values()))
    what = "continuous within others" if isinstance(space, spaces.Box) else "not numbered"
    raise GameError(
        f"{what} ({short(space)}), but models choose among numbered actions (Discrete, MultiDiscrete, MultiBinary, and Dict"
        " or Tuple of these) or floats of one Box: wrap the environment to offer one or the other"
    )


def _value(space: spaces.Space[Any], number: int) -> Any:
    """The action of a space with a number: the last part changes first."""
    if isinstance(space, spaces.Discrete):
        return int(space.start) + number
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        counts, starts = [2] * math.prod(space.shape), np.zeros((), space.dtype)
        if isinstance(space, spaces.MultiDiscrete):
            counts, starts = space.nvec.ravel().tolist(), space.start
        action = np.array(_digits(number, counts), dtype=space.dtype).reshape(space.shape)
        return action + starts.astype(space.dtype)
    parts: Mapping[Any, Any] = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))  # type: ignore[attr-defined]
    digits = _digits(number, [_count(part) for part in parts.values()])
    values = [_value(part, digit) for part, digit in zip(parts.values(), digits, strict=True)]
    return dict(zip(parts, values, strict=True)) if isinstance(space, spaces.Dict) else tuple(values)


def _digits(number: int, counts: Sequence[int]) -> list[int]:
    """A number as digits, of which each has its own base; the last one changes first."""
    return (number // np.cumprod([1, *counts[:0:-1]])[::-1] % np.array(counts, dtype=np.int64)).tolist()  # type: ignore[no-any-return]
