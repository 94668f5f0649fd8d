"""Children as threads of this process: they share its interpreter, and what they are given need not be picklable."""

import queue
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from abreast.processes.backend import NOWHERE, STOP, ChildSpec, SignOfLife, label
from abreast.processes.child import NO_ORDER, Replaced, serve


class ThreadBackend:
    """Starts threads."""

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> "ThreadChild":
        return ThreadChild(number, spec, wake)


class ThreadChild:
    """A thread, and its context. It cannot be killed: once cut off, its next sign of life raises in it, and nothing it
    answers is received.
    """

    pid = None
    hint = ""
    was_killed = False
    fds: tuple[int, ...] = ()

    def __init__(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> None:
        self.number, self.name, self._wake = number, spec.name, wake
        self._orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._sign = SignOfLife(0, NOWHERE, 0.0)
        self._is_cut_off = False
        self.is_alive = True
        self.send = self._orders.put
        threading.Thread(target=self._run, args=(spec,), name=label(spec.name), daemon=True).start()

    # ---- for the parent

    def receive(self) -> list[Any]:
        is_alive, messages = self.is_alive, []  # in this order: it may end after its last message
        with suppress(queue.Empty):
            while True:
                messages.append(self._messages.get_nowait())
        if not is_alive and not messages:
            raise EOFError
        return messages

    def sign_of_life(self) -> SignOfLife:
        return self._sign

    def cause_of_death(self) -> str:
        return "its thread ended"

    def stack(self) -> str:
        return ""

    def kill(self) -> None:
        self._is_cut_off = True
        self.send(STOP)

    # ---- in the thread

    def beat(self, at: int = NOWHERE, allow_s: float = 0.0) -> None:
        if self._is_cut_off:
            raise Replaced
        self._sign = SignOfLife(self._sign.beats + 1, at, allow_s)

    def answer(self, key: Hashable, value: Any, last: bool = True) -> None:
        self._tell((key, value, last))

    def _run(self, spec: ChildSpec) -> None:
        try:
            serve(self, self._receive_order, self._tell, spec.make, spec.arguments)
        finally:
            self.is_alive = False
            self._wake()

    def _receive_order(self, wait_s: float | None) -> Any:
        try:
            return self._orders.get(timeout=wait_s)
        except queue.Empty:
            return NO_ORDER

    def _tell(self, message: Any) -> None:
        self._messages.put(message)
        self._wake()
