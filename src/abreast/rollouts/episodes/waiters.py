"""Calls of `step_async` that wait for turns, and the event loop that handles the workers' answers meanwhile."""

import asyncio
from collections.abc import Callable

from abreast.processes.team import Team


class Waiter:
    """One call of `step_async`, made in its task. Its turns are reserved for it while it `is_waiting`."""

    def __init__(self, turns: int) -> None:
        self._left = turns
        self._task = asyncio.current_task()
        self._is_over = False
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: Exception | None = None
        self.is_abandoned = False
        """Whether a reset has ended the episodes it waits for."""
        if not turns:
            self.wake()

    @property
    def is_waiting(self) -> bool:
        """False once it has returned or raised. (An interrupt may have kept it from saying so: then its task is done.)"""
        return not self._is_over and (self._task is None or not self._task.done())

    def taken(self) -> None:
        """One of its turns is taken."""
        self._left -= 1
        if not self._left:
            self.wake()

    def wake(self) -> None:
        """Let the call go on, or raise the error, if one is set."""
        if not self.future.done() and not self.future.get_loop().is_closed():
            self.future.set_result(None)

    def end(self) -> None:
        """The call returns or raises; `recv` may have what it has not handed out."""
        self._is_over = True


class Listener:
    """Has an event loop call `pump` whenever a worker has sent something, has died, or has to be looked at."""

    def __init__(self, pump: Callable[[], None]) -> None:
        self._pump = pump
        self._waiters: set[Waiter] = set()
        self._listening: tuple[asyncio.AbstractEventLoop, Team] | None = None
        self._descriptor = -1
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, waiter: Waiter, team: Team | None) -> None:
        """Wait until the turns of this waiter are taken, or it is woken for another reason."""
        if waiter.future.done() or team is None:
            return
        self._waiters.add(waiter)
        try:
            self._listen(asyncio.get_running_loop(), team)
            await waiter.future
        finally:
            self._waiters.discard(waiter)
            if not self._waiters:
                self._stop()
        if waiter.error is not None:
            raise waiter.error

    def abandon_all(self) -> None:
        """The turns that are waited for will not be taken."""
        self._stop()
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            waiter.is_abandoned = True
            waiter.wake()

    def _listen(self, loop: asyncio.AbstractEventLoop, team: Team) -> None:
        if self._listening != (loop, team):
            self._stop()
            self._descriptor = team.fileno()
            loop.add_reader(self._descriptor, self._handle_events)
            self._timer = loop.call_later(team.due_s, self._handle_events)
            self._listening = (loop, team)  # last: an interrupt before this leads to another try

    def _stop(self) -> None:
        listening, self._listening = self._listening, None
        if self._timer is not None:
            self._timer.cancel()
        if listening is not None and not listening[0].is_closed():
            listening[0].remove_reader(self._descriptor)

    def _handle_events(self) -> None:
        """Called by the event loop. There is no caller to raise to, so every waiter gets the error."""
        try:
            self._pump()
        except Exception as error:
            for waiter in self._waiters:
                waiter.error = error
                waiter.wake()
        if self._listening is not None and self._timer is not None:
            loop, team = self._listening
            self._timer.cancel()
            self._timer = loop.call_later(team.due_s, self._handle_events)
