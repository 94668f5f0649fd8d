"""Calls that await turns, and the event loops that handle the workers' answers meanwhile."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from abreast.processes.team import Team


class Waiter:
    """One call that awaits turns, made in its task. Its turns are reserved for it while it `is_waiting`."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._future: asyncio.Future[None] | None = None
        self._is_woken = self._is_over = False
        self.error: Exception | None = None

    @property
    def is_waiting(self) -> bool:
        """False once it has returned or raised. (An interrupt may have kept it from saying so: then its task is done.)"""
        return not self._is_over and (self._task is None or not self._task.done())

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of its task."""
        return self._loop

    async def sleep(self) -> None:
        """Until it is woken, or has been since the last time; raises the error, if one is set."""
        if not self._is_woken:
            self._future = self._loop.create_future()
            await self._future
        self._is_woken = False
        if self.error is not None:
            raise self.error

    def wake(self) -> None:
        """Let the call look again. From any thread."""
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_woken = True
        if self._future is not None and not self._future.done() and not self._loop.is_closed():
            self._future.set_result(None)

    def end(self) -> None:
        """The call returns or raises; `recv` may have what it has not handed out."""
        self._is_over = True


class Listener:
    """Has event loops call `pump` whenever a worker has sent something, has died, or has to be looked at.

    Each loop has a listener while some of its tasks wait.
    """

    def __init__(self, pump: Callable[[], None]) -> None:
        self._pump = pump
        self._listening: dict[asyncio.AbstractEventLoop, _LoopListener] = {}

    async def wait(self, waiter: Waiter, team: Team) -> None:
        """Wait until the waiter is woken."""
        loop = waiter.loop
        listening = self._listening.get(loop)
        if listening is None or listening.team is not team:
            if listening is not None:
                listening.stop()
            self._listening = {other: each for other, each in self._listening.items() if not other.is_closed()}
            listening = self._listening[loop] = _LoopListener(loop, team, self._pump)
        listening.waiters.add(waiter)
        try:
            await waiter.sleep()
        finally:
            listening.waiters.discard(waiter)
            if not listening.waiters:
                listening.stop()
                if self._listening.get(loop) is listening:
                    del self._listening[loop]

    def stop(self) -> None:
        """Listen no more, because the team is about to end. From any thread."""
        listening, self._listening = self._listening, {}
        for each in listening.values():
            each.stop_from_any_thread()


class _LoopListener:
    """One event loop, and the calls that wait in it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, team: Team, pump: Callable[[], None]) -> None:
        self._loop, self.team, self._pump = loop, team, pump
        self._thread = threading.get_ident()
        self.waiters: set[Waiter] = set()
        self._descriptor = team.fileno()
        self._is_listening = True
        loop.add_reader(self._descriptor, self._handle_events)
        self._timer = loop.call_later(team.due_s, self._handle_events)

    def stop(self) -> None:
        """In the thread of the loop."""
        self._timer.cancel()
        if self._is_listening and not self._loop.is_closed():
            self._loop.remove_reader(self._descriptor)
        self._is_listening = False

    def stop_from_any_thread(self) -> None:
        if threading.get_ident() == self._thread:
            self.stop()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.stop)

    def _handle_events(self) -> None:
        """Called by the event loop. There is no caller to raise to, so every waiter gets the error."""
        try:
            self._pump()
        except Exception as error:
            for waiter in self.waiters:
                waiter.error = error
                waiter.wake()
        if self._is_listening:
            self._timer.cancel()
            self._timer = self._loop.call_later(self.team.due_s, self._handle_events)
