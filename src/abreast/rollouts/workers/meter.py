"""Whether the turns of a tag wait or compute, measured as they are taken."""

import time
from collections import deque
from statistics import median
from typing import NamedTuple

from abreast.rollouts.episodes.episode import SLOW_S

WINDOW = 16
"""Turns that are looked at."""
WAIT_SHARE = 0.75
"""A turn waits if its CPU share is below a quarter: a request over a network with its parsing is, a computation is not."""
SURE_S, SURE_TURNS = 0.02, 3
"""Turns that wait for less than this are believed after three of them: another thread may have held the interpreter."""
SATURATED = 0.45
"""Share of the time from the begin of the first turn to the end of the last in which one computes, above which threads only
wait for each other. (It is between a half and 1 then, since the first turn began before the others.)"""


class Turn(NamedTuple):
    """A turn that was slow, or came after one."""

    began: float
    cpu_s: float
    waits: bool


class Meter:
    """Of one tag. Quick turns of a tag that never had a slow one are not counted."""

    def __init__(self) -> None:
        self.turns: deque[Turn] = deque()
        """Empty while turns are quick: then nothing need be noted."""
        self._seconds: deque[float] = deque(maxlen=WINDOW)
        self._waiting, self._cpu_s = 0, 0.0
        """Sums over the turns."""
        self.waits = False
        """Whether threads are the place for it."""

    def note(self, seconds: float, waited: float, is_start: bool = False) -> None:
        """A turn, or the start of an episode, was taken. (That a start is quick, or computes, says nothing about turns.)"""
        seconds = max(seconds, waited)
        if (is_start and waited <= WAIT_SHARE * seconds) or (seconds < SLOW_S and (is_start or not self.turns)):
            return
        now = time.perf_counter()
        turn = Turn(now - seconds, seconds - waited, seconds >= SLOW_S and waited > WAIT_SHARE * seconds)
        self.turns.append(turn)
        self._seconds.append(seconds)
        self._waiting, self._cpu_s = self._waiting + turn.waits, self._cpu_s + turn.cpu_s
        if len(self.turns) > WINDOW:
            old = self.turns.popleft()
            self._waiting, self._cpu_s = self._waiting - old.waits, self._cpu_s - old.cpu_s
        if len(self._seconds) == WINDOW and max(self._seconds) < SLOW_S:
            self._forget()
            return
        enough = len(self.turns) >= SURE_TURNS or seconds >= SURE_S
        self.waits = enough and 2 * self._waiting > len(self.turns)
        if self.waits and len(self.turns) == WINDOW and self._cpu_s > SATURATED * (now - self.turns[0].began):
            # Turns that overlap use up one core: they wait for the interpreter, not for anything outside.
            self._forget()

    def _forget(self) -> None:
        self.turns.clear()
        self._seconds.clear()
        self._waiting, self._cpu_s, self.waits = 0, 0.0, False

    @property
    def compute_s(self) -> float:
        """What a turn takes, if it computes; 0 if turns are quick."""
        return median(self._seconds) if self.turns and not self.waits else 0.0
