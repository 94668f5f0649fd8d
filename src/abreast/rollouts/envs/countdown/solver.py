"""Countdown solved by exhaustive search, from the text of the state alone.

Every expression splits the numbers into a smaller and a larger part. For the smaller one, all values are listed; each
value says what the larger part must come to. That goal is sought in the same way, until three numbers are left, whose
values are listed too. So nothing is left out, and six numbers take about a second.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

from abreast.rollouts.envs.countdown.config import CountdownConfig

_STATE = re.compile(r"Numbers: ([0-9, ]+)\nTarget: ([0-9]+)")
_MOST_SEARCHED = 6
_MOST_LISTED = 3

Numbers = tuple[int, ...]


def solve(config: CountdownConfig, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The answer; where there is none (or too many numbers to search), the right numbers at least."""
    seen = _STATE.match(history[-1]["state"])
    if seen is None or history[-1]["actions_left"] < 1:
        return []
    numbers = tuple(int(number) for number in seen[1].split(","))
    expression = find_expression(numbers, int(seen[2])) if len(numbers) <= _MOST_SEARCHED else None
    return [expression or " + ".join(map(str, numbers))]


def find_expression(numbers: Numbers, target: int) -> str | None:
    """An expression of that value that uses every number once, or None if there is none."""
    expression = _reach(tuple(sorted(numbers)), Fraction(target))
    return expression and expression.removeprefix("(").removesuffix(")")  # the outermost pair, around the whole


def _reach(numbers: Numbers, goal: Fraction) -> str | None:
    if len(numbers) <= _MOST_LISTED:
        return _values(numbers).get(goal)
    for few, rest in _splits(numbers):
        for value, left in _values(few).items():
            for needed, form in _complements(value, goal):
                right = _reach(rest, needed)
                if right is not None:
                    return form.format(left, right)
    return None


@lru_cache(maxsize=256)
def _values(numbers: Numbers) -> dict[Fraction, str]:
    """Every value these numbers can come to, with one expression for it."""
    if len(numbers) == 1:
        return {Fraction(numbers[0]): str(numbers[0])}
    found: dict[Fraction, str] = {}
    for few, rest in _splits(numbers):
        for a, left in _values(few).items():
            for b, right in _values(rest).items():
                found.setdefault(a + b, f"({left} + {right})")
                found.setdefault(a - b, f"({left} - {right})")
                found.setdefault(b - a, f"({right} - {left})")
                found.setdefault(a * b, f"({left} * {right})")
                if b:
                    found.setdefault(a / b, f"({left} / {right})")
                if a:
                    found.setdefault(b / a, f"({right} / {left})")
    return found


def _complements(a: Fraction, goal: Fraction) -> Iterator[tuple[Fraction, str]]:
    """What the rest must come to, so that it and `a` give the goal; and how the two are then put together.

    Nothing times anything, for the goal 0, is found from the other side: the part that is 0 is then the rest.
    """
    yield goal - a, "({0} + {1})"
    yield a - goal, "({0} - {1})"
    yield goal + a, "({1} - {0})"
    if a:
        yield goal / a, "({0} * {1})"
        yield goal * a, "({1} / {0})"
        if goal:
            yield a / goal, "({0} / {1})"


def _splits(numbers: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """Every way to part the numbers in two, the smaller part first."""
    places = range(len(numbers))
    for size in range(1, len(numbers) // 2 + 1):
        for chosen in combinations(places, size):
            few = tuple(numbers[place] for place in chosen)
            rest = tuple(numbers[place] for place in places if place not in chosen)
            yield few, rest
