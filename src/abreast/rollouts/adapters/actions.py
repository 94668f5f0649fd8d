"""Texts as actions of a space, and actions as texts."""

import enum
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Discrete, MultiDiscrete, Text

from abreast.errors import RolloutError, short

LONGEST = 1000
"""Texts longer than this are no action."""
MOST_LISTED = 64
"""Actions of a space that are listed in `info["available_actions"]`; larger spaces are not listed."""
_NUMBER = re.compile(r"[+-]?\d{1,18}")
_BRACKETS = str.maketrans("[](),;", "      ")

Names = Mapping[int, str]


class Actions:
    """The actions of a Discrete, MultiDiscrete or Text space.

    actions = Actions(Discrete(4), {0: "Left"})
    actions.read("left") == actions.read("0") == 0
    actions.read("7") is None
    """

    def __init__(self, space: Space[Any], names: Names | None = None) -> None:
        if not isinstance(space, Discrete | MultiDiscrete | Text):
            raise RolloutError(refusal(space))
        self.space = space
        self.names = {number: name for number, name in (names or {}).items() if number in space}
        starts, sizes = (
            getattr(space, "start", ()),
            space.n if isinstance(space, Discrete) else getattr(space, "nvec", ()),
        )
        self._ranges = [
            range(int(start), int(start + size)) for start, size in zip(np.ravel(starts), np.ravel(sizes), strict=True)
        ]
        """Of each number in an action; empty for texts."""
        self._by_name = {name.strip().casefold(): number for number, name in self.names.items()}

    def read(self, given: Any) -> Any:
        """The action that a text names, or that is given as it is; None if there is no such action."""
        if not isinstance(given, str):
            return given if self._ranges and given in self.space else None
        if isinstance(self.space, Text) or len(given) > LONGEST:
            return given if isinstance(self.space, Text) else None
        is_one, name = isinstance(self.space, Discrete), given.strip()
        if name.casefold() in self._by_name:
            return self._by_name[name.casefold()]
        numbers = [name] if is_one else given.translate(_BRACKETS).split()
        if len(numbers) != len(self._ranges) or not all(map(_NUMBER.fullmatch, numbers)):
            return None
        if not all(int(number) in known for number, known in zip(numbers, self._ranges, strict=True)):
            return None
        return int(name) if is_one else np.array([*map(int, numbers)], self.space.dtype).reshape(self.space.shape)

    def write(self, action: Any) -> str:
        """The text that stands for an action."""
        if isinstance(self.space, Text):
            return str(action)
        if isinstance(self.space, Discrete):
            return self.names.get(int(action), str(int(action)))
        return " ".join(str(int(number)) for number in np.asarray(action).ravel())

    def listed(self, mask: Any = None, only_named: bool = False) -> list[str] | None:
        """All actions as texts, without those that a mask (an array of 0 and 1) excludes; None if they are too many."""
        if not self._ranges or math.prod(map(len, self._ranges)) > MOST_LISTED:
            return None
        if not isinstance(self.space, Discrete):
            return [self.write(action) for action in itertools.product(*self._ranges)]
        numbers = self._ranges[0]
        fits = isinstance(mask, np.ndarray | list | tuple) and len(mask) == len(numbers) and any(mask)
        allowed = mask if fits else [1] * len(numbers)
        shown = [number for number, is_allowed in zip(numbers, allowed, strict=True) if is_allowed]
        return [self.write(number) for number in shown if not only_named or number in self.names]


def refusal(space: object) -> str:
    """Why an environment with this action space cannot be played."""
    return (
        f"its action space is {short(space)}, and texts can name actions of Discrete, MultiDiscrete and Text only: wrap the"
        " environment so that it has one of these."
    )


def action_space_of(env: Any) -> Any:
    """Its action space, as one of Gymnasium's if it is one of the old Gym's; None without one."""
    space = getattr(env, "action_space", getattr(env, "ACTION_SPACE", None))
    if space is None or isinstance(space, Space):
        return space
    kind = type(space).__name__
    if kind == "Discrete" and hasattr(space, "n"):
        return Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    if kind == "MultiDiscrete" and hasattr(space, "nvec"):
        return MultiDiscrete(np.asarray(space.nvec))
    return space


def names_of(env: Any, space: Any) -> Names:
    """The names an environment itself gives to its actions, by number; none if it gives none, or not clearly.

    As in Atari (`get_action_meanings`), in Minigrid (`actions`, an enumeration) or in RAGEN (`ACTION_LOOKUP`).
    """
    if not isinstance(space, Discrete):
        return {}
    inside = getattr(env, "unwrapped", env)
    found: Any = getattr(inside, "ACTION_LOOKUP", None)
    meanings, actions = getattr(inside, "get_action_meanings", None), getattr(inside, "actions", None)
    if callable(meanings):
        found = meanings()
    elif isinstance(actions, type) and issubclass(actions, enum.IntEnum):
        found = {int(each): each.name for each in actions}
    if isinstance(found, Sequence) and not isinstance(found, str):
        found = {int(space.start) + place: name for place, name in enumerate(found)}
    if not isinstance(found, Mapping) or not all(isinstance(name, str) and name.strip() for name in found.values()):
        return {}
    names = {number: name for number, name in found.items() if number in space}
    differ = {name.strip().casefold() for name in names.values()}
    return names if len(differ) == len(names) else {}
