"""Steps that are only consistent together.

(To hold Ctrl-C back meanwhile would be nicer: with the calls of the module `signal` that takes 16 µs a time, as long as a
turn of a single episode may take.)
"""

import threading

from abreast.errors import RolloutError

INCOMPLETE = "an earlier call was interrupted while it wrote results, so they are incomplete: call reset."


class Refused(RolloutError):
    """Raised inside the guard before anything was changed, so the state stays known."""


class Guard:
    """A context manager around such steps: one thread at a time, which may enter again.

    If an exception (Ctrl-C, say) leaves it, it `is_broken`: the state is unknown. `Refused` is the one that may.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._lock = threading.RLock()

    @property
    def is_broken(self) -> bool:
        """Whether steps were begun and not completed. Asked outside of the guard."""
        self._let_go()
        if not self._depth:
            return False
        with self._lock:  # else another thread may be in the middle of them
            return self._depth > 0

    def check(self) -> None:
        """Raise if it is broken."""
        if self.is_broken:
            raise RolloutError(INCOMPLETE)

    def repair(self) -> None:
        """All state was made anew."""
        self._depth = 0
        self._let_go()

    def _let_go(self) -> None:
        """Outside of the guard, an interrupt may have left this thread with the lock."""
        try:
            while True:
                self._lock.release()
        except RuntimeError:  # it has not
            return

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self._depth += 1
        except BaseException:  # an interrupt
            self._lock.release()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        try:
            if kind is None or issubclass(kind, Refused):
                self._depth -= 1
        finally:
            self._lock.release()
