"""Spans: what a thread does when, written into a track in shared memory (read by timeline.py).

    with span("train"):                  track: a ring for each name of spans,
        …                       ──────▶         each of which has the totals of its name so far

A track has one writer at a time, and is a block of its own: the spans of a worker that was killed are there to be read, and
its successor goes on in the same track. Rings overwrite their oldest spans; totals are exact for the whole run. Steps of a
fast loop are recorded in some of its rounds alone (`Details`).
"""

import math
import struct
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from abreast.processes.memory import SharedBlock
from abreast.processes.ring import Ring, ring_layout

WAITS = ("wait", "wait for learners", "wait for actors", "wait for workers", "wait for calls", "paused", "restart")
CALLS = ("model",)
"""Spans that overlap."""
SAMPLED = ("see", "choose", "act", "remember", "turn")
"""Steps of fast loops, whose totals are estimates."""
OWN = "own"
"""Stands for all other names: those of a user's program."""
SPANS = (
    *(*WAITS, *CALLS, *SAMPLED, OWN),
    *("start", "play", "train", "update", "sample", "publish", "record", "film", "checkpoint", "rebuild"),
)
NUMBERS = {name: number for number, name in enumerate(SPANS)}
ROWS = 2048
"""Of each ring: 1.7 MiB in all, of which the system provides what is written to."""
DETAILS_NS = 10_000_000
"""Details are recorded of a round in so many nanoseconds: about 10 µs, 0.1 % of the time."""
PREFIX = "timeline."
COUNT, WHOLE, INSIDE = range(3)
"""Totals: spans, their nanoseconds, those of spans inside them."""
clock = time.monotonic_ns
"""Shared by the processes of a machine; nodes of a cluster have others."""
_PUT = struct.Struct("=QQQQQ").pack_into


def make_track() -> SharedBlock:
    """A track in which nothing is written. (Unsigned: fresh memory is zero without being written to.)"""
    layout = ring_layout(ROWS, len(SPANS), {"spans": ((5,), np.uint64)})
    track = SharedBlock({f"{PREFIX}{name}": what for name, what in layout.items()})
    Ring(track.part(PREFIX)).start()
    return track


def newest(track: SharedBlock, most: int) -> list[list[list[int]]]:
    """The newest spans by number of their name, the oldest of them first: start, end, and the totals by then."""
    ring, lanes = Ring(track.part(PREFIX)), np.arange(len(SPANS))
    found = ring.rows_from(lanes, np.maximum(ring.written() - most, 0))
    ends = np.cumsum(found.written - found.first)
    return [rows.tolist() for rows in np.split(found.fields["spans"], ends[:-1])]


def wall_ahead() -> int:
    """By how much the clock on the wall is ahead of `clock`: the nodes of a cluster have the same on the wall, about."""
    return time.time_ns() - clock()


class Recorder:
    """Writes spans into a track, for one thread."""

    def __init__(self, track: SharedBlock, totals: list[list[int]] | None = None, ahead: int = 0) -> None:
        """`totals`: those of the predecessor, by number of the name. `ahead`: of the clock of the reader."""
        arrays = track.part(PREFIX)
        self._spans, self._cursors = arrays["spans"].reshape(-1).data, arrays["written"].data
        self._written = arrays["written"].tolist()
        self._totals, self._ahead = totals or [[0, 0, 0] for _ in SPANS], ahead
        self.open: list[tuple[int, int]] = []
        """Number of the name and start of each span that has not ended, the outermost first."""
        self._of_name = {name: _Span(self, number) for name, number in NUMBERS.items()}
        self._details: dict[tuple[str, ...], Details] = {}

    def span(self, name: str) -> "_Span":
        """A context: what is done in it is a span of this name."""
        return self._of_name.get(name) or self._of_name[OWN]

    def details(self, *names: str) -> "Details":
        """The steps of a loop, by name; the same object for the same steps."""
        if names not in self._details:
            self._details[names] = Details(self, [NUMBERS[name] for name in names])
        return self._details[names]

    def add(self, number: int, start: int, end: int, times: int = 1) -> None:
        """Record a span, which stands for so many, inside of those that are open."""
        totals, took, written = self._totals[number], (end - start) * times, self._written[number]
        totals[COUNT] += times
        totals[WHOLE] += took
        if self.open:
            self._totals[self.open[-1][0]][INSIDE] += took
        at = 40 * (number * ROWS + written % ROWS)
        _PUT(self._spans, at, start - self._ahead, end - self._ahead, *totals)
        self._written[number] = self._cursors[number] = written + 1


class _Span:
    """The spans of one name, as a context; one may be inside another."""

    def __init__(self, recorder: Recorder, number: int) -> None:
        self._open, self._add, self._number = recorder.open, recorder.add, number

    def __enter__(self) -> None:
        self._open.append((self._number, clock()))

    def __exit__(self, *error: object) -> None:
        end = clock()
        number, start = self._open.pop()
        self._add(number, start, end)


class Details:
    """The steps of a round of a loop, one after the other. After a round that was recorded, as many pass as take DETAILS_NS
    at its speed; the next stands for them.

        while …:
            mark = details.begin()      None: this round is not recorded
            …                           the first step
            if mark: mark()
            …                           the last step
            if mark: mark()
    """

    def __init__(self, recorder: Recorder | None = None, numbers: list[int] | None = None) -> None:
        """Without a recorder, no round is recorded."""
        self._recorder, self._numbers = recorder, numbers or []
        self.left: float = math.inf if recorder is None else 1
        """Rounds until the next that is recorded, itself included."""
        self._every, self._marks = 1, list[int]()

    def begin(self) -> Callable[[], None] | None:
        """A round begins; returns what is to be called after each of its steps, if it is recorded."""
        self.left -= 1
        if self.left > 0:
            return None
        self._marks = [clock()]
        return self._mark

    def _mark(self) -> None:
        marks, recorder = self._marks, self._recorder
        marks.append(clock())
        if recorder is None or len(marks) <= len(self._numbers):
            return
        for number, start, end in zip(self._numbers, marks, marks[1:], strict=False):
            recorder.add(number, start, end, self._every)
        self.left = self._every = 1 + DETAILS_NS // max(marks[-1] - marks[0], 1)


# ---- the recorder of a thread


class OfThread(threading.local):
    """What each thread has of its own."""

    recorder: Recorder | None = None
    timeline: Any = None
    """The `Timeline` to which workers belong that it starts. (Its module stands on this one.)"""


here = OfThread()
_NOTHING, _NO_DETAILS = nullcontext(), Details()


def span(name: str) -> AbstractContextManager[None]:
    """What is done in this context is a span of this thread's track, if it has one."""
    recorder = here.recorder
    return _NOTHING if recorder is None else recorder.span(name)


def details(*names: str) -> Details:
    """The steps of a loop of this thread, by name."""
    return _NO_DETAILS if here.recorder is None else here.recorder.details(*names)


def add_call(name: str, start: int) -> None:
    """Record a call that began then (`clock`) and ends now, beside others: those of a task."""
    if here.recorder is not None:
        here.recorder.add(NUMBERS[name], start, clock())
