"""Action spaces of Gymnasium as numbers: what the number of an action stands for."""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from abreast.errors import GameError, short
from abreast.models.action_box import ActionBox

MOST_ACTIONS = 4096
"""Combinations of a MultiDiscrete action that are enumerated: each is an output of the network."""


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
    table = list(_values(space))
    return Actions(count, False, lambda action: copy.deepcopy(table[action]))  # the environment may write into it


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


def _values(space: spaces.Space[Any]) -> Iterator[Any]:
    """Every action of a space, in order."""
    if isinstance(space, spaces.Discrete):
        yield from range(int(space.start), int(space.start) + int(space.n))
    elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        counts = (
            space.nvec.ravel().tolist() if isinstance(space, spaces.MultiDiscrete) else [2] * math.prod(space.shape)
        )
        starts = space.start if isinstance(space, spaces.MultiDiscrete) else 0
        for values in itertools.product(*map(range, counts)):
            yield np.array(values, dtype=space.dtype).reshape(space.shape) + np.asarray(starts, dtype=space.dtype)
    elif isinstance(space, spaces.Tuple):
        yield from itertools.product(*map(list, map(_values, space.spaces)))
    elif isinstance(space, spaces.Dict):
        inner: Mapping[str, Any] = space.spaces
        for values in itertools.product(*(list(_values(each)) for each in inner.values())):
            yield dict(zip(inner, values, strict=True))
