"""Children as threads of this process: they share its interpreter, and what they are given need not be picklable."""

import queue
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any

from abreast.processes.backend import NOWHERE, ChildSpec, SignOfLife
from abreast.processes.child import NO_ORDER, Replaced, serve


class ThreadBackend:
    """Starts threads."""

    may_spin = False  # it would hold the interpreter that the threads need

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> "ThreadChild":
        return ThreadChild(number, spec, wake)


class ThreadChild:
    """A thread. It cannot be killed; once cut off, its next sign of life raises in it, and nothing it says is received."""

    pid = None
    hint = ""
    fds: tuple[int, ...] = ()

    def __init__(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> None:
        self.name, self._wake = spec.name, wake
        self._orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._has_ended = False
        self._context = ThreadContext(number, self._tell)
        threading.Thread(target=self._run, args=(spec,), name=spec.name, daemon=True).start()

    def _run(self, spec: ChildSpec) -> None:
        try:
            serve(self._context, self._receive_order, self._tell, spec.make, spec.arguments)
        finally:
            self._has_ended = True
            self._wake()

    def _receive_order(self, wait_s: float | None) -> Any:
        try:
            return self._orders.get(timeout=wait_s)
        except queue.Empty:
            return NO_ORDER

    def _tell(self, message: Any) -> None:
        self._messages.put(message)
        self._wake()

    @property
    def is_alive(self) -> bool:
        return not self._has_ended

    def send(self, message: Any) -> None:
        self._orders.put(message)

    def receive(self) -> list[Any]:
        has_ended, messages = self._has_ended, []  # in this order: it may end after its last message
        with suppress(queue.Empty):
            while True:
                messages.append(self._messages.get_nowait())
        if has_ended and not messages:
            raise EOFError
        return messages

    def sign_of_life(self) -> SignOfLife:
        return self._context.sign

    def cause_of_death(self) -> str:
        return "its thread ended"

    def stack(self) -> str:
        return ""

    def kill(self) -> None:
        self._context.is_cut_off = True
        self._orders.put(None)


class ThreadContext:
    """A thread's side."""

    def __init__(self, number: int, tell: Callable[[Any], None]) -> None:
        self.number, self._tell = number, tell
        self.sign = SignOfLife(0, NOWHERE, 0.0)
        self.is_cut_off = False

    def beat(self, at: int = NOWHERE, allow_s: float = 0.0) -> None:
        if self.is_cut_off:
            raise Replaced
        self.sign = SignOfLife(self.sign.beats + 1, at, allow_s)

    def answer(self, key: Hashable, value: Any, last: bool = True) -> None:
        if self.is_cut_off:
            raise Replaced
        self._tell((key, value, last))
