"""Interrupts turns in the main process that take too long, as far as Python lets itself be interrupted.

A worker that hangs is killed; the main process cannot be. So a thread looks at it several times within the time a turn may
take. If the main process is still at the same turn, the thread sends it a signal, whose handler raises. That ends loops,
sleeps and waits; native code that does not return goes on, and the log says where it is.
"""

import signal
import sys
import threading
import time
import traceback
import weakref
from types import FrameType

from abreast.errors import log
from abreast.rollouts.episodes.slot import Slot

SIGNAL = getattr(signal, "SIGURG", None)
"""Ignored by default, and hardly used by programs. None where a system has no such signal: no turn can be interrupted."""
LOOKS = 4
"""How often to look within the time that a turn may take."""
FRAMES = 4
"""Innermost frames of the stack that are logged."""
DEBUGGERS = {"bdb", "pydevd"}
"""These modules belong to debuggers: while one is active, no timeout is enforced."""

Moment = tuple[int, int, int, int]
"""Identifies the work under way: number of the environment, of its episode, of its turn, and beats so far."""


class TookTooLong(BaseException):
    """A turn took too long; the arguments are its watchdogs. Not an Exception: environments may catch those."""


class Watchdog:
    """Watches the turns that are taken in the main process. `at` is the slot at work, or None."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self.at: Slot | None = None
        self.has_raised = False
        """Whether the turn under way was interrupted; set back by the owner when a turn begins."""
        self.allow_s = 0.0
        self._beats = 0
        self._late: Moment | None = None
        self._thread = 0
        self._stop: threading.Event | None = None
        """Ends the thread that looks; None: there is none."""

    def beat(self, allow_s: float) -> None:
        """Another part of longer work begins; it may take `allow_s` seconds longer than a turn."""
        self._beats += 1
        self.allow_s = allow_s

    def watch(self) -> bool:
        """Watch the calling thread, which is to take a turn, if there is a timeout; False if it watches another thread."""
        if self.timeout_s is None:
            return True
        me = threading.get_ident()
        if self._thread != me:
            if self.at is not None:
                return False
            self._thread = me
            # Only the main thread can have a signal handler; one that the program has installed is left in place.
            is_main = threading.current_thread() is threading.main_thread()
            if SIGNAL is not None and is_main and signal.getsignal(SIGNAL) in (signal.SIG_DFL, signal.SIG_IGN):
                signal.signal(SIGNAL, _raise_if_late)
        if self._stop is None:
            self._stop = threading.Event()
            _watchdogs.add(self)
            arguments = (weakref.ref(self), self._stop, self.timeout_s)
            threading.Thread(target=_look, args=arguments, name="abreast watchdog", daemon=True).start()
        return True

    def close(self) -> None:
        """Stop watching; `watch` starts again."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def moment(self) -> Moment | None:
        """The work under way."""
        slot = self.at
        return None if slot is None else (slot.env_id, slot.serial, len(slot.executed), self._beats)

    def interrupt(self, moment: Moment) -> None:
        """Log that this work takes too long, and send the signal, if that can help."""
        slot, stack = self.at, list(traceback.walk_stack(sys._current_frames().get(self._thread)))
        if slot is None or any(frame.f_globals.get("__name__") in DEBUGGERS for frame, _ in stack):
            return
        is_main = self._thread == threading.main_thread().ident
        can_interrupt = SIGNAL is not None and is_main and signal.getsignal(SIGNAL) is _raise_if_late
        log.warning(
            "environment %d (%s) has been at one turn in the main process for %g s%s; it is at:\n%s",
            slot.env_id, slot.tag.name, self.timeout_s,
            "" if can_interrupt
            else ", and cannot be interrupted: that needs the main thread, and SIGURG must not be used by the program",
            "".join(traceback.StackSummary.extract(stack[:FRAMES][::-1]).format()),
        )  # fmt: skip
        if can_interrupt and SIGNAL is not None:
            self._late = moment
            signal.pthread_kill(self._thread, SIGNAL)

    def check_late(self) -> bool:
        """Whether the work that was to be interrupted is still under way. Called by the signal handler."""
        late, self._late = self._late, None
        is_late = late is not None and late == self.moment()
        self.has_raised |= is_late
        return is_late


_watchdogs: "weakref.WeakSet[Watchdog]" = weakref.WeakSet()


def _raise_if_late(number: int, frame: FrameType | None) -> None:
    late = [watchdog for watchdog in list(_watchdogs) if watchdog.check_late()]
    if late:
        raise TookTooLong(*late)


def _look(reference: "weakref.ref[Watchdog]", stop: threading.Event, timeout_s: float) -> None:
    """The thread: look several times per timeout, until the watchdog is closed or garbage."""
    seen, since = None, 0.0
    pause = min(max(timeout_s / LOOKS, 0.01), 10.0)
    while not stop.wait(pause) and (watchdog := reference()) is not None:
        moment, now = watchdog.moment(), time.monotonic()
        if moment != seen:
            seen, since = moment, now
        elif moment is not None and now - since >= timeout_s + watchdog.allow_s:
            watchdog.interrupt(moment)
            since = now
        del watchdog
