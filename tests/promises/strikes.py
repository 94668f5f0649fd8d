"""Harm that is done to a worker a moment after it was given an order, so that it meets it anywhere in its work."""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Collection, Iterator
from unittest import mock

from abreast.processes.team import Team

MOMENT_S = 0.01
"""Within so many seconds after its order."""


@contextlib.contextmanager
def strike(order: type, at: Collection[int], number: int = signal.SIGKILL) -> Iterator[list[int]]:
    """Send a signal to the workers that get the orders with these numbers, counted from 0, of those of this type.

    Yields the process ids of those that were struck.
    """
    given, struck, timers = [], [], []
    submit, chance, is_over = Team.submit, random.Random(1), threading.Event()

    def hit(team: Team, worker: int) -> None:
        """Strike the worker's process; if an earlier strike has ended that one, its successor."""
        while not is_over.is_set():
            pid = team.pids.get(worker)
            if pid is not None and pid not in struck:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                    struck.append(pid)
                    return
            time.sleep(0.001)  # it is being started

    def submit_and_hit(team: Team, worker: int, key: object, what: object) -> None:
        submit(team, worker, key, what)
        if isinstance(what, order):
            if len(given) in at:
                timers.append(threading.Timer(chance.random() * MOMENT_S, hit, (team, worker)))
                timers[-1].start()
            given.append(key)

    with mock.patch.object(Team, "submit", submit_and_hit):
        try:
            yield struck
        finally:
            is_over.set()
            for timer in timers:
                timer.cancel()
                timer.join()
