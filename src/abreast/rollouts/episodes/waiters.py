"""Those who await turns (`step_async`): an event loop hears what workers say, and wakes whom it concerns, nobody else."""

import asyncio
from collections.abc import Callable, Set
from typing import NamedTuple

from abreast.rollouts.workers.pool import WorkerPool

LOOK_S = 0.5
"""How often somebody who waits looks whether workers have fallen silent."""


class Awaited(NamedTuple):
    """Somebody who waits."""

    future: "asyncio.Future[None]"
    env_ids: set[int]
    """Whose turns are still to be taken."""

    def wake(self, error: Exception | None = None) -> None:
        """Let it go on, or raise."""
        if self.future.done() or self.future.get_loop().is_closed():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(error)


class Awaiting:
    """Who awaits the turn of which environment. `hear` takes in what has been said; it tells of turns by `taken`."""

    def __init__(self, hear: Callable[[], None]) -> None:
        self._hear = hear
        self._waiting: dict[int, Awaited] = {}
        self._listening: tuple[asyncio.AbstractEventLoop, int] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting)

    async def until_taken(self, env_ids: Set[int], pool: WorkerPool | None) -> None:
        """Wait until the turns of these are taken, or nobody can wait for them any more."""
        if not env_ids or pool is None:
            return
        loop = asyncio.get_running_loop()
        awaited = Awaited(loop.create_future(), set(env_ids))
        self._waiting.update(dict.fromkeys(env_ids, awaited))
        try:
            while not awaited.future.done():
                self._listen(loop, pool)
                await asyncio.wait([awaited.future], timeout=LOOK_S)
                if not awaited.future.done():
                    self._hear()
            awaited.future.result()
        finally:
            for env_id in env_ids:
                if self._waiting.get(env_id) is awaited:
                    del self._waiting[env_id]
            if not self._waiting:
                self._stop_listening()

    def taken(self, env_id: int) -> None:
        """The turn of this one is taken; perhaps it was the last that somebody waits for."""
        awaited = self._waiting.pop(env_id, None)
        if awaited is not None:
            awaited.env_ids.discard(env_id)
            if not awaited.env_ids:
                awaited.wake()

    def wake_all(self, error: Exception | None = None) -> None:
        """Nobody waits any more."""
        waiting, self._waiting = self._waiting, {}
        self._stop_listening()
        for awaited in waiting.values():
            awaited.wake(error)

    def _listen(self, loop: asyncio.AbstractEventLoop, pool: WorkerPool) -> None:
        if self._listening != (loop, pool.fileno()):
            self._stop_listening()
            self._listening = (loop, pool.fileno())
            loop.add_reader(pool, self._hear_for_all)

    def _stop_listening(self) -> None:
        now, self._listening = self._listening, None
        if now is not None and not now[0].is_closed():
            now[0].remove_reader(now[1])

    def _hear_for_all(self) -> None:
        """Called by the event loop: a worker has said something, or is gone."""
        try:
            self._hear()
        except Exception as error:  # nobody called this, so all who wait are told
            self.wake_all(error)
