"""Variants that take turns, so that a slow moment of the machine hits them alike."""

import random
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")
Clock = Callable[[], float]


def in_turns(variants: Mapping[str, Callable[[], T]], repeats: int) -> dict[str, list[T]]:
    """What each variant returns, `repeats` times, in another order every time.

    (The variant that comes before makes a difference of up to 10 %: in a fixed order it was taken for a gain of the next.)
    """
    found: dict[str, list[T]] = {name: [] for name in variants}
    chance = random.Random(0)
    for _ in range(repeats):
        for name in chance.sample(list(variants), len(variants)):
            found[name].append(variants[name]())
    return found


def seconds_of(function: Callable[[], object], times: int = 1, clock: Clock = time.perf_counter) -> float:
    """Seconds of one call, the mean of so many."""
    started = clock()
    for _ in range(times):
        function()
    return (clock() - started) / times


def rate_of(function: Callable[[], object], seconds: float, clock: Clock = time.perf_counter) -> float:
    """Calls per second, for so many seconds."""
    count, started = 0, clock()
    while (spent := clock() - started) < seconds or not count:
        function()
        count += 1
    return count / spent
