"""Keeping workers alive: start them, wait for what they say *and* for their death, restart them, stop them in order.

A worker is known by its number. It may die (its sentinel), fail (its last message), or fall silent (its heartbeat is older
than the timeout while it has something to do); each is named in the log and followed by a restart, `max_restarts` times.
What a restarted worker has to do again is the business of `on_restart`; `on_give_up` hears of the last straw, and says
whether the worker, relieved of what broke it, is to be tried anew.
"""

import logging
import selectors
import time
from collections.abc import Callable
from multiprocessing import connection as connections
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.errors import WorkerError
from abreast.processes.cores import LOOK_OUT_S, look_out
from abreast.processes.worker import Child, Failed, Ready, RemoteTraceback

log = logging.getLogger("abreast")

START_S = 120.0
"""How long a worker may take to be ready; imports can be slow."""
LOOK_S = 0.5
"""How often heartbeats are looked at while waiting."""


RETRY_S = 0.1
"""How long to wait after a start that failed; longer after each."""


class Death(NamedTuple):
    """How a worker ended that has been replaced."""

    why: str
    was_silent: bool


class Supervisor:
    """Watches over workers made by `make(number)`."""

    def __init__(
        self,
        make: Callable[[int], Child],
        heartbeats: NDArray[np.float64],
        *,
        timeout: float,
        max_restarts: int,
        on_restart: Callable[[int, "Death"], None],
        on_give_up: Callable[[int, WorkerError, int | None], bool],
    ) -> None:
        self._make, self._heartbeats = make, heartbeats
        self._timeout, self._max_restarts = timeout, max_restarts
        self._on_restart, self._on_give_up = on_restart, on_give_up
        self._children: dict[int, Child] = {}
        self._busy: dict[int, float] = {}
        self._failures: dict[int, Failed] = {}
        self._early: dict[int, list[Any]] = {}
        """What workers have said in one breath with being ready."""
        self._replaced = 0
        """How many workers were replaced, or given up, so far."""
        self._selector = selectors.DefaultSelector()  # kept, because making one for every look costs more than the look
        self._looked_at = 0.0
        self.restarts = [0] * len(heartbeats)

    # ---- start and stop

    def start(self) -> None:
        """Start all workers together; returns when each is ready. One that cannot start is an error with its stack."""
        try:
            for number in range(len(self.restarts)):
                self._adopt(number, self._make(number))
            for number in range(len(self.restarts)):
                self._await_ready(number)
        except BaseException:
            self.kill()
            raise

    def stop(self, farewell: Any) -> None:
        """Say goodbye to every worker and wait for it; those that do not listen are killed."""
        for child in self._children.values():
            _try_send(child, farewell)
        patience = time.monotonic() + self._timeout
        for number in list(self._children):
            self._dismiss(number).end(max(0.1, min(3.0, patience - time.monotonic())))

    def kill(self) -> None:
        """End every worker at once."""
        for number in list(self._children):
            self._dismiss(number).kill()

    # ---- work

    @property
    def pids(self) -> dict[int, int | None]:
        """Process ids by worker number."""
        return {number: child.pid for number, child in self._children.items()}

    def fileno(self) -> int:
        """A file descriptor that is ready when a worker has said something or is gone, whoever is replaced meanwhile."""
        return self._selector.fileno()

    def send(self, number: int, message: Any) -> None:
        """Give a worker something to do. If it is gone, it gets it again when it is restarted (`on_restart`)."""
        self._busy.setdefault(number, time.monotonic())
        if number in self._children:
            _try_send(self._children[number], message)

    def watch(self, number: int) -> None:
        """Expect signs of life from a worker from now on, told or not."""
        self._busy.setdefault(number, time.monotonic())

    def rest(self, number: int) -> None:
        """The worker has nothing left to do: its silence means nothing."""
        self._busy.pop(number, None)

    def wait(self, wait_s: float, looking_out: bool) -> None:
        """Wait until there is something to `receive`, for about `wait_s` seconds at most.

        `looking_out`: stay awake for a moment, since a core is free; it takes longer to wake up. Nothing is lost if this is
        interrupted.
        """
        looks_out = looking_out and wait_s >= LOOK_OUT_S
        if not (looks_out and look_out(lambda: self._early or self._selector.select(0.0))) and not self._early:
            self._selector.select(max(0.0, min(LOOK_S, wait_s)))

    def receive(self, wait_s: float) -> list[tuple[int, Any]]:
        """What workers have said within `wait_s` seconds; returns as soon as there is something, or one was replaced."""
        end = time.monotonic() + wait_s
        replaced = self._replaced
        while self._children:
            now = time.monotonic()
            ready = self._selector.select(0.0 if self._early else max(0.0, min(LOOK_S, end - now)))
            said: list[tuple[int, Any]] = []
            for number in sorted({*(key.data for key, _ in ready), *self._early}):
                said += [(number, message) for message in self._hear(number)]
            if said:
                return said  # before anybody is looked at: who has just answered is not silent
            if now - self._looked_at >= LOOK_S or not ready:
                self._looked_at = now
                self._look_for_silence()
            if self._replaced != replaced or time.monotonic() >= end:
                return []
        return []

    # ---- inside

    def _adopt(self, number: int, child: Child) -> None:
        self._children[number] = child
        for source in {child.line, child.sentinel}:
            self._selector.register(source, selectors.EVENT_READ, number)

    def _dismiss(self, number: int) -> Child:
        child = self._children.pop(number)
        self._early.pop(number, None)
        for source in {child.line, child.sentinel}:
            self._selector.unregister(source)
        return child

    def _await_ready(self, number: int) -> None:
        child = self._children[number]
        end = time.monotonic() + START_S
        said: list[Any] = []
        reason = None
        while not said and reason is None:
            sources: list[Any] = list({child.line, child.sentinel})
            ready = connections.wait(sources, max(0.0, end - time.monotonic()))
            try:
                said = child.line.receive()
            except EOFError:
                reason = child.cause_of_death()
            if not ready and not said:
                reason = f"it did not answer within {START_S:g} s"
        if said and isinstance(said[0], Failed):
            raise _error(f"{child.name} could not start: {said[0].error}.", said[0])
        if not said or not isinstance(said[0], Ready):
            raise WorkerError(f"{child.name} could not start: {reason}{child.hint}.")
        if len(said) > 1:
            self._early[number] = said[1:]

    def _hear(self, number: int) -> list[Any]:
        """What a worker has said. One that is gone is replaced, but only when it has nothing more to say: what it did
        counts, and is not to be done again by the one in its place.
        """
        child = self._children[number]
        if number in self._busy:
            self._busy[number] = time.monotonic()  # whole or not, what comes is a sign of life
        try:
            said = self._early.pop(number, [])
            if not said and number not in self._failures:
                said = child.line.receive()
        except (EOFError, OSError):
            self._replace(number, f"died: {child.cause_of_death()}")
            return []
        if said and isinstance(said[-1], Failed):
            self._failures[number] = said.pop()
        if not said and number in self._failures:
            failure = self._failures.pop(number)
            self._replace(number, f"failed: {failure.error}", failure)
        elif not said and not child.is_alive:
            self._replace(number, f"died: {child.cause_of_death()}")
        return said

    def _look_for_silence(self) -> None:
        now = time.monotonic()
        for number, since in list(self._busy.items()):
            heard = max(since, float(np.nan_to_num(self._heartbeats[number], nan=0.0)))
            if number in self._children and now - heard > self._timeout:
                child = self._children[number]
                stack = child.stack()
                why = f"did nothing for {self._timeout:g} s; it was at:\n{stack or '(no stack)'}"
                self._replace(number, why, was_silent=True)

    def _replace(self, number: int, why: str, failure: Failed | None = None, was_silent: bool = False) -> None:
        """Name the dead and start another in its place, again if that one dies too, until it is ready or given up."""
        self._replaced += 1
        reason = why
        child = self._dismiss(number)
        who = f"{child.name} (pid {child.pid})" if child.pid else child.name
        child.kill()
        while True:
            if self.restarts[number] >= self._max_restarts:
                text = f"{who} {why}, and was restarted {self.restarts[number]} times already: given up."
                error = _error(text, failure)
                log.error("%s", error)
                if not self._on_give_up(number, error, failure.culprit if failure else None):
                    self.rest(number)
                    return
                self.restarts[number] = 0
            self.restarts[number] += 1
            log.warning("%s %s; restarted (%d of %d)", who, why, self.restarts[number], self._max_restarts)
            try:
                self._adopt(number, self._make(number))
                self._await_ready(number)
                break
            except WorkerError as error:
                who, why, failure = child.name, str(error).removeprefix(f"{child.name} ").rstrip("."), None
                if number in self._children:
                    self._dismiss(number).kill()
                time.sleep(RETRY_S * self.restarts[number])  # what is lacking may be there in a moment
        if number in self._busy:
            self._busy[number] = time.monotonic()
        self._on_restart(number, Death(reason, was_silent))


def _error(text: str, failure: Failed | None) -> WorkerError:
    error = WorkerError(text)
    if failure is not None:
        error.__cause__ = RemoteTraceback(failure.traceback)
    return error


def _try_send(child: Child, message: Any) -> None:
    try:
        child.line.send(message)
    except OSError:
        log.debug("%s could not be told %r: it is gone", child.name, message)  # `receive` notices and replaces it
