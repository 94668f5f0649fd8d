"""Waking a selector from any thread."""

import socket
import threading
from contextlib import suppress


class Alarm:
    """Wakes a selector from any thread, for children without file descriptors.

    Who rings has left a message before; who resets looks for messages afterwards. So none is missed if nobody rings twice.
    """

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)
        self._there.setblocking(False)
        self._lock = threading.Lock()
        self._rings = False

    def fileno(self) -> int:
        return self._here.fileno()

    def ring(self) -> None:
        if self._rings:
            return
        with self._lock, suppress(OSError):  # closed: the team is gone
            self._rings = True
            self._there.send(b"\0")

    def reset(self) -> None:
        with suppress(BlockingIOError):
            while self._here.recv(4096):
                pass
        self._rings = False  # last: a ring that is not sent before this has its message looked for

    def close(self) -> None:
        with self._lock:
            self._here.close()
            self._there.close()
