"""What a call waits for, and which thread handles what workers say meanwhile.

The first thread that waits does, for all: a thread of its own would cost every batch two wake-ups, 10 % of one of 1 ms. For
tasks of asyncio, and when that thread has left, one is started.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

from abreast.errors import RolloutError
from abreast.rollouts.episodes.guard import INCOMPLETE, Guard
from abreast.rollouts.episodes.slot import Slot

LOOK_S = 0.5
"""How often those who wait look for themselves: an interrupt may keep the thread that handles events from saying it left."""
REST_S = 5.0
"""A thread that was started ends after so many seconds in which nobody waited."""


@dataclass(slots=True, eq=False)
class Job:
    """What one call waits for: all turns of a batch together, or the turn of a single episode."""

    slots: Sequence[Slot]
    missing: int = 0
    """Turns that workers have not answered."""
    future: Future[None] | None = None
    """Done when none is missing; made only if a task, or a thread that does not handle events, waits for it."""
    error: RolloutError | None = None
    task: asyncio.Task[object] | None = None
    """The task that waits for it, if it is one, and is not done; `recv` leaves its turns alone."""
    is_waited: bool = False
    """Whether a thread or a task waits for it."""

    def promise(self) -> Future[None]:
        """A future that is done when no turn is missing. Called inside the guard."""
        future = self.future or Future[None]()
        if self.missing and self.future is None:
            future.set_running_or_notify_cancel()  # a task that is cancelled does not cancel it
            self.future = future
        elif not self.missing:
            future.set_result(None)
        return future

    def answered(self, turns: int = 1) -> None:
        """So many turns are not missing any more."""
        self.missing -= turns
        if self.future is not None and not self.missing:
            future, self.future = self.future, None
            future.set_result(None)

    def end(self, error: RolloutError) -> None:
        """Tell who waits that there will be no result."""
        self.error = error
        self.answered(self.missing)


class Listener:
    """Decides which thread handles what workers say (`handle`); if that becomes impossible, all are told (`fail`)."""

    def __init__(self, guard: Guard, handle: Callable[[float], None], fail: Callable[[RolloutError], None]) -> None:
        self._guard, self._handle, self._fail = guard, handle, fail
        self._listens = 0
        """The thread that does. 0: none."""
        self._awaited: set[Future[None]] = set()
        """Waited for by others."""
        self._thread: threading.Thread | None = None
        self._called = threading.Event()
        self.is_closed = False

    def enter(self) -> bool:
        """Whether the calling thread is the one, or becomes it."""
        me = threading.get_ident()
        with self._guard:
            if self._listens in (0, me):
                self._listens = me
            return self._listens == me

    def leave(self) -> None:
        """Another thread goes on, if some call waits."""
        self._listens = 0
        if self._awaited:
            self._call_thread()

    @contextmanager
    def awaiting(self, job: Job) -> Iterator[Future[None]]:
        """While the caller waits for a job, some other thread handles what workers say."""
        with self._guard:
            future = job.promise()
        self._awaited.add(future)
        try:
            if self._listens in (0, threading.get_ident()):  # an interrupt may have kept this thread from leaving
                self.leave()
            yield future
        finally:
            self._awaited.discard(future)

    def close(self) -> None:
        """Let the thread end."""
        self.is_closed = True
        self._called.set()

    def _call_thread(self) -> None:
        with self._guard:
            if self._thread is None and not self.is_closed:
                self._thread = threading.Thread(target=self._run, name="abreast rollouts", daemon=True)
                self._thread.start()
            self._called.set()

    def _run(self) -> None:
        try:
            while self._is_needed():
                self._guard.check()
                if self.enter():
                    self._handle(LOOK_S)
                    self._listens = 0
                else:
                    self._called.wait(LOOK_S)
                    self._handle(0.0)
        except BaseException as error:
            self._thread, self._listens = None, 0
            self._fail(RolloutError(f"{INCOMPLETE} ({type(error).__name__}: {error})"))

    def _is_needed(self) -> bool:
        """Whether some call waits, now or within REST_S seconds."""
        self._called.clear()
        if not self._awaited and not self.is_closed:
            self._called.wait(REST_S)
        with self._guard:
            if self.is_closed or not (self._awaited or self._called.is_set()):
                self._thread = None
            return self._thread is not None
