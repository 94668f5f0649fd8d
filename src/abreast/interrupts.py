"""Ctrl-C at a better moment."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait until this is done. Processes started meanwhile are deaf to them from their birth."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
