"""Whether the turns of a tag wait or compute, measured as they are taken."""

import time
from collections import deque
from statistics import median

from abreast.rollouts.episodes.episode import SLOW_S

WINDOW = 16
"""Turns that are looked at."""
WAIT_SHARE = 0.75
"""A turn waits if its CPU share is below a quarter: a request over a network with its parsing is, a computation is not."""
SURE_S, SURE_TURNS = 0.02, 3
"""Turns that wait for less than this are believed after three of them: another thread may have held the interpreter."""
SATURATED = 0.7
"""Share of the time in which some turn computes, above which threads only wait for each other."""


class Meter:
    """Of one tag. Quick turns of a tag that never had a slow one are not counted."""

    def __init__(self) -> None:
        self._turns: deque[tuple[float, float, float]] = deque(maxlen=WINDOW)
        """When it ended, its seconds, and for how many of them it waited."""
        self.waits = False
        """Whether threads are the place for it."""

    def note(self, seconds: float, waited: float, is_start: bool = False) -> None:
        """A turn, or the start of an episode, was taken. (That a start is quick says nothing about turns.)"""
        seconds = max(seconds, waited)
        if seconds < SLOW_S and (is_start or not self._turns):
            return
        self._turns.append((time.perf_counter(), seconds, waited))
        waiting = sum(1 for _, each_s, waited_s in self._turns if each_s >= SLOW_S and waited_s > WAIT_SHARE * each_s)
        enough = len(self._turns) >= SURE_TURNS or seconds >= SURE_S
        self.waits = enough and 2 * waiting > len(self._turns)
        if self.waits and self._is_saturated():
            self._turns.clear()
            self.waits = False

    @property
    def compute_s(self) -> float:
        """What a turn takes, if it computes; 0 if turns are quick."""
        return median(each_s for _, each_s, _ in self._turns) if self._turns and not self.waits else 0.0

    def _is_saturated(self) -> bool:
        """Whether turns that overlap use up one core: then they wait for the interpreter, not for anything outside."""
        span_s = self._turns[-1][0] - min(end - seconds for end, seconds, _ in self._turns)
        cpu_s = sum(seconds - waited for _, seconds, waited in self._turns)
        return len(self._turns) == WINDOW and cpu_s > SATURATED * span_s
