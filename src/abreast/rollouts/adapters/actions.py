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
        self._by_name = {name.strip().casefold(): number for number, name in self.names.items()}
        if isinstance(space, Discrete) and space.n <= MOST_LISTED:
            numbers = range(int(space.start), int(space.start + space.n))
            self._by_name = {str(number): number for number in numbers} | self._by_name

    def read(self, given: Any) -> Any:
        """The action that a text names, or that is given as it is; None if there is no such action."""
        if not isinstance(given, str):
            return given if not isinstance(self.space, Text) and given in self.space else None
        if isinstance(self.space, Text):
            return given
        if len(given) > LONGEST:
            return None
        if isinstance(self.space, Discrete):
            return self._read_one(given.strip())
        numbers = given.translate(_BRACKETS).split()
        if len(numbers) != self.space.nvec.size or not all(_NUMBER.fullmatch(number) for number in numbers):
            return None
        action = np.array([int(number) for number in numbers], dtype=np.int64).reshape(self.space.nvec.shape)
        return action.astype(self.space.dtype) if action in self._wide else None

    def write(self, action: Any) -> str:
        """The text that stands for an action."""
        if isinstance(self.space, Text):
            return str(action)
        if isinstance(self.space, Discrete):
            return self.names.get(int(action), str(int(action)))
        return " ".join(str(int(number)) for number in np.asarray(action).ravel())

    def listed(self, mask: Any = None, only_named: bool = False) -> list[str] | None:
        """All actions as texts, without those that a mask (an array of 0 and 1) excludes; None if they are too many."""
        if isinstance(self.space, Discrete):
            first, count = int(self.space.start), int(self.space.n)
            if count > MOST_LISTED:
                return None
            allowed = mask if _fits(mask, count) else [1] * count
            numbers = [first + place for place in range(count) if allowed[place]]
            return [self.write(number) for number in numbers if not only_named or number in self.names]
        if not isinstance(self.space, MultiDiscrete) or math.prod(self.space.nvec.ravel().tolist()) > MOST_LISTED:
            return None
        starts = np.asarray(getattr(self.space, "start", np.zeros_like(self.space.nvec))).ravel()
        ranges = [
            range(int(start), int(start + count)) for start, count in zip(starts, self.space.nvec.ravel(), strict=True)
        ]
        return [" ".join(map(str, numbers)) for numbers in itertools.product(*ranges)]

    def _read_one(self, text: str) -> int | None:
        number = self._by_name.get(text.casefold())
        if number is None and _NUMBER.fullmatch(text) and int(text) in self.space:
            number = int(text)
        return number

    @property
    def _wide(self) -> MultiDiscrete:
        """The space with numbers of 64 bits, in which no number overflows."""
        assert isinstance(self.space, MultiDiscrete)
        start = getattr(self.space, "start", None)
        return MultiDiscrete(self.space.nvec, dtype=np.int64, **({} if start is None else {"start": start}))


def refusal(space: object) -> str:
    """Why an environment with this action space cannot be played."""
    return (
        f"its action space is {short(space)}, and texts can name actions of Discrete, MultiDiscrete and Text only: wrap the"
        " environment so that it has one of these."
    )


def action_space_of(env: Any) -> Any:
    """Its action space, as one of Gymnasium's if it is one of the old Gym's; None without one."""
    space = getattr(env, "action_space", None)
    if space is None:
        space = getattr(env, "ACTION_SPACE", None)
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


def _fits(mask: Any, count: int) -> bool:
    return isinstance(mask, np.ndarray | list | tuple) and len(mask) == count and any(mask)
