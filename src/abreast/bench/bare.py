"""Processes that compute and do nothing else: what all cores together can do at most."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from abreast.bench.turns import rate_of
from abreast.processes.backend import ChildContext, ChildSpec, Work
from abreast.processes.events import Died, RestartPolicy
from abreast.processes.process import ProcessBackend
from abreast.processes.team import Team

Task = Callable[[], object]
OF_LEARNERS = ("abreast.training",)
"""What learners have preloaded."""
MOST_S = 120.0
"""Seconds after which a process is taken for stuck."""


class Computing(Work):
    """What such a process does: `make(*arguments)` returns its task; an order is a number of seconds to repeat it for."""

    def __init__(self, context: ChildContext, make: Callable[..., Task], arguments: tuple[Any, ...]) -> None:
        self._context, self._task = context, make(*arguments)

    def obey(self, key: Any, order: float) -> None:
        """Answer with calls per second; 0 seconds is one call."""
        if order:
            self._context.answer(key, rate_of(self._task, order))
        else:
            self._task()
            self._context.answer(key, None)


class BareProcesses(AbstractContextManager["BareProcesses"]):
    """So many of them; `arguments` are those of each.

    `preload`: modules for the process that all others are forked from, if this is the first to start one in the program.
    """

    def __init__(
        self, make: Callable[..., Task], arguments: Sequence[tuple[Any, ...]], preload: Sequence[str] = ()
    ) -> None:
        def spec(number: int) -> ChildSpec:
            return ChildSpec(f"bare process {number}", Computing, (make, arguments[number]))

        self._team = Team(ProcessBackend(preload=preload), spec, len(arguments), RestartPolicy(0, MOST_S))
        self._count = len(arguments)
        self._team.start()

    def batch(self) -> None:
        """Each does its task once."""
        self._ask(self._count, 0.0)

    def rate(self, seconds: float, processes: int | None = None) -> float:
        """Calls per second of the first so many, at the same time, together; default: of all."""
        return sum(self._ask(processes or self._count, seconds))

    def _ask(self, processes: int, order: float) -> list[float]:
        answers: dict[int, float] = {}
        for worker in range(processes):
            self._team.submit(worker, "order", order)
        while len(answers) < processes:
            self._team.wait(spin=not order)
            for event in self._team.events():
                if isinstance(event, Died):
                    raise event.error
                answers[event.worker] = event.value
        return list(answers.values())

    def close(self) -> None:
        """End them."""
        self._team.stop()

    def __exit__(self, *error: object) -> None:
        self.close()


def nothing() -> Task:
    """The task that takes no time."""
    return lambda: None


def seconds_to_start() -> float:
    """Seconds until one more process is ready."""
    started = time.perf_counter()
    with BareProcesses(nothing, [()]):
        return time.perf_counter() - started
