"""Signals that ask a run to end.

The first Ctrl-C or SIGTERM is noted; the run ends between two passes, where a checkpoint can be written. A second one is
handled at once, by whoever would have handled it without us.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SAID = "Stopping after this pass, with a checkpoint; Ctrl-C once more stops at once."


class Stopping:
    """Used as a context. Where signals cannot be handled (other threads) or are ignored, nothing changes."""

    def __init__(self, show: Callable[[str], bool] = lambda text: False) -> None:
        """`show`: shows a sentence in the live display, if there is one; called in a signal handler."""
        self._show = show
        self._before: dict[signal.Signals, Any] = {}
        self.noted: signal.Signals | None = None
        """The signal that asks the run to end, if there was one."""

    def __enter__(self) -> "Stopping":
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if handler is not None and handler is not signal.SIG_IGN:
                    self._before[number] = handler
                    signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted is not None:
            self._restore()
            signal.raise_signal(number)
            return
        self.noted = signal.Signals(number)
        if number == signal.SIGINT and sys.stderr is not None and sys.stderr.isatty() and not self._show(SAID):
            os.write(2, f"\n{SAID}\n".encode())  # not by print, which the signal may have interrupted

    def let_through(self) -> None:
        """Have the signal that was noted handled now: by KeyboardInterrupt, usually."""
        noted = self.noted
        self._restore()
        if noted is not None:
            signal.raise_signal(noted)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before, self.noted = {}, None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.let_through()  # it came after the last pass
        else:
            self._restore()
