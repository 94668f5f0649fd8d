"""Action spaces of Gymnasium as numbers: what the number of an action stands for."""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from abreast.errors import GameError, short

MOST_ACTIONS = 4096
"""Combinations of a MultiDiscrete action that are enumerated: each is an output of the network."""


class Actions(NamedTuple):
    """What an agent can do."""

    number: int
    """How many actions there are."""
    is_plain: bool
    """Whether an action is its number."""
    of: Callable[[int], Any]
    """The environment's action with a number."""


def actions_of(space: spaces.Space[Any]) -> Actions:
    """What the numbers of actions stand for; spaces that cannot be enumerated are refused, with the words after
    "its actions are".
    """
    if isinstance(space, spaces.Discrete):
        count, start = int(space.n), int(space.start)
        if count > MOST_ACTIONS:
            raise GameError(f"{count:,} in number, and at most {MOST_ACTIONS:,} are supported")
        return Actions(count, not start, int if not start else (lambda action: action + start))
    count = _count(space)
    if count > MOST_ACTIONS:
        raise GameError(
            f"combined ({type(space).__name__}), {count:,} in number, and at most {MOST_ACTIONS:,} are supported: wrap the"
            " environment to offer fewer"
        )
    table = list(_values(space))
    return Actions(count, False, lambda action: copy.deepcopy(table[action]))  # the environment may write into it


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
    what = "continuous" if isinstance(space, spaces.Box) else "not numbered"
    raise GameError(
        f"{what} ({short(space)}), but models choose among numbered actions: Discrete, MultiDiscrete, MultiBinary, and Dict"
        " or Tuple of these; wrap the environment to offer a few values of each"
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
