"""Turns in the main process that never end are interrupted there, as far as Python lets itself be interrupted.

A worker that hangs is killed; the main process cannot be. So a thread looks at it now and then; when it has been at one turn
for too long, the thread sends it a signal, whose handler raises. That ends loops, sleeps and waits; what never comes back
from native code goes on, and the log says where it is.
"""

import logging
import signal
import sys
import threading
import time
import traceback
import weakref
from types import FrameType

from abreast.rollouts.episodes.slot import EnvState

log = logging.getLogger("abreast")

SIGNAL = signal.SIGURG
"""Means nothing where nobody expects it, and hardly anybody does."""
LOOKS = 4
"""How often to look within the time that a turn may take."""
FRAMES = 4
"""How much of the stack of one that hangs is told."""
DEBUGGERS = {"bdb", "pydevd"}
"""Who sits before one of these is thinking."""

Moment = tuple[int, int, int, int]
"""Tells a turn from every other: number of the environment and of its episode, turns before, and turns played again."""


class TookTooLong(BaseException):
    """Turns took longer than they may, those watched by its arguments. Not an Exception: environments may catch those."""


class Patience:
    """Watches over the turns that are taken here. While one is, `at` tells whose."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.at: EnvState | None = None
        self.has_raised = False
        """Whether the turn under way was interrupted; whoever sets `at` sets this back."""
        self._beats = 0
        self.extra_s = 0.0
        self._late: Moment | None = None
        self._thread = 0
        self._is_over = threading.Event()
        self._is_watched = False

    def beat(self, patience: float = 0.0) -> None:
        """Another part of a longer story begins: that is no hang. It may take so much longer than a turn."""
        self._beats += 1
        self.extra_s = patience

    def watch(self) -> None:
        """Turns are about to be taken, by the thread that calls this."""
        if self.seconds is None:
            return
        if self._thread != threading.get_ident():
            self._thread = threading.get_ident()
            _listen()
        if not self._is_watched:
            self._is_watched = True
            _watched.add(self)
            threading.Thread(target=_look, args=(weakref.ref(self), self._is_over, self.seconds), daemon=True).start()

    def end(self) -> None:
        """No more turns will be taken."""
        self._is_over.set()
        self._is_watched, self._is_over = False, threading.Event()

    def moment(self) -> Moment | None:
        """The turn under way."""
        env = self.at
        return None if env is None else (env.env_id, env.serial, len(env.executed), self._beats)

    def interrupt(self, moment: Moment) -> None:
        """Have the turn interrupted, if it is still under way."""
        env, stack = self.at, list(traceback.walk_stack(sys._current_frames().get(self._thread)))
        if env is None or any(frame.f_globals.get("__name__") in DEBUGGERS for frame, _ in stack):
            return
        can_be = self._thread == threading.main_thread().ident and signal.getsignal(SIGNAL) is _raise_if_late
        log.warning(
            "environment %d (%s) has been at one turn in the main process for %g s%s; it is at:\n%s",
            env.env_id, env.tag.name, self.seconds,
            "" if can_be else ", and cannot be interrupted: the main thread could be, unless SIGURG is used by others",
            "".join(traceback.StackSummary.extract(stack[:FRAMES][::-1]).format()),
        )  # fmt: skip
        if can_be:
            self._late = moment
            signal.pthread_kill(self._thread, SIGNAL)

    def is_late(self) -> bool:
        """Whether the turn that was to be interrupted is still under way; asked in the thread that takes it."""
        late, self._late = self._late, None
        is_it = late is not None and late == self.moment()
        self.has_raised |= is_it
        return is_it


_watched: "weakref.WeakSet[Patience]" = weakref.WeakSet()


def _listen() -> None:
    """Be ready for the signal. Only the main thread can be, and nobody's handler is taken away."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(SIGNAL) in (signal.SIG_DFL, signal.SIG_IGN):
        signal.signal(SIGNAL, _raise_if_late)


def _raise_if_late(number: int, frame: FrameType | None) -> None:
    late = [patience for patience in list(_watched) if patience.is_late()]
    if late:
        raise TookTooLong(*late)


def _look(patience: "weakref.ref[Patience]", is_over: threading.Event, seconds: float) -> None:
    """Look at it now and then, until it is over or gone."""
    seen, since = None, 0.0
    pause = min(max(seconds / LOOKS, 0.01), 10.0)
    while not is_over.wait(pause) and (watched := patience()) is not None:
        moment, now = watched.moment(), time.monotonic()
        if moment != seen:
            seen, since = moment, now
        elif moment is not None and now - since >= seconds + watched.extra_s:
            watched.interrupt(moment)
            since = now
        del watched
