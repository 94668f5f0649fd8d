"""The worker processes of a manager: started once, used for every reset and step, replaced when they die."""

from collections.abc import Callable

import numpy as np

from abreast.errors import WorkerError
from abreast.processes.memory import SharedBlock
from abreast.processes.supervisor import Death, Supervisor
from abreast.processes.worker import Child, Stop, start_server
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.workers.messages import Answer, Orders
from abreast.rollouts.workers.worker import NOBODY, Seat, rollout_worker

STARTS = 5
"""How often in a row a worker may die without having answered, over no environment, before its place is given up."""

OnDeath = Callable[[int, int, Death], None]
"""Called with a worker's number, the environment it was at, and how it ended; the worker in its place knows nothing."""


class WorkerPool:
    """Workers by number. Each obeys the orders it is given, in order."""

    def __init__(self, count: int, config: ManagerConfig, needs_main: bool, on_death: OnDeath) -> None:
        self._config, self._needs_main, self._on_death = config, needs_main, on_death
        self._block = SharedBlock({"heartbeats": ((count,), np.float64), "at": ((count,), np.int64)})
        self._at_death, self._idle_deaths = [NOBODY] * count, [0] * count
        self.lost: set[int] = set()
        """Workers that could not be replaced."""
        start_server(["abreast.rollouts.workers.worker"])
        self._supervisor = Supervisor(
            self._make,
            self._block["heartbeats"],
            timeout=config.step_timeout or float("inf"),
            max_restarts=STARTS,
            on_restart=self._replaced,
            on_give_up=self._give_up,
        )
        self._supervisor.start()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [pid for pid in self._supervisor.pids.values() if pid is not None]

    def order(self, worker: int, orders: Orders) -> None:
        """Give a worker something to do."""
        self._supervisor.send(worker, (*orders,))

    def rest(self, worker: int) -> None:
        """The worker has nothing left to do."""
        self._supervisor.rest(worker)

    def wait(self, wait_s: float, looking_out: bool) -> None:
        """Wait until there is something to `receive`, for about so long at most; at first awake, if a core is free."""
        self._supervisor.wait(wait_s, looking_out)

    def receive(self) -> list[Answer]:
        """What workers have answered; those that have died meanwhile are replaced."""
        heard = self._supervisor.receive(0.0)
        for worker, _ in heard:
            self._idle_deaths[worker] = self._supervisor.restarts[worker] = 0
        return [answer for _, answers in heard for answer in answers]

    def fileno(self) -> int:
        """A file descriptor that is ready when a worker has said something or is gone."""
        return self._supervisor.fileno()

    def close(self) -> None:
        """End all workers."""
        self._supervisor.stop(Stop())

    def _make(self, number: int) -> Child:
        self._at_death[number] = int(self._block["at"][number])
        seat = Seat(number, self._block, self._config.worker_memory_mb)
        return Child(
            f"rollout worker {number}",
            rollout_worker,
            [seat],
            needs_main=self._needs_main,
            start_method=self._config.start_method,
        )

    def _replaced(self, number: int, death: Death) -> None:
        # A worker that dies over an environment is that environment's fault; one that dies over none may never live.
        self._idle_deaths[number] = self._idle_deaths[number] + 1 if self._at_death[number] == NOBODY else 0
        self._supervisor.restarts[number] = self._idle_deaths[number]
        self._on_death(number, self._at_death[number], death)

    def _give_up(self, number: int, error: WorkerError, culprit: int | None) -> bool:
        self.lost.add(number)
        self._on_death(number, self._at_death[number], Death(str(error), was_silent=False))
        return False
