"""A team of workers: orders outstanding, answers, deaths, restarts.

    while …:
        team.submit(worker, key, order)
        team.wait(seconds)
        for event in team.events():        Answered, Died or Lost

What happened is told as events, in order; nothing is called back, and a restart is a condition of a worker, not a wait:

    STARTING ──ready──▶ UP          a worker that dies is PAUSED for a moment and started again by a later `events`;
       ▲                 │          one that keeps dying without an answer in between, at no item, is LOST.
       └── PAUSED ◀─death┘

Invariants:
1. An order is outstanding until its last answer, `forget`, or its return in `Died.keys`. The team never sends it again: its
   owner does, once it has dealt with the death (rewound rows, rebuilt environments).
2. Answers to orders that are not outstanding are dropped, here and nowhere else.
3. A worker's messages come before its death.
4. A worker is silent if it has outstanding orders and has shown no new sign of life for the time allowed.
5. The successor starts in the next call of `events`, so it is made from what its owner knows by then.
6. Deaths at an item (`Died.at`) are counted by the owner, who knows when the item made progress; the others here.
7. After an exception inside `submit` or `events` (an interrupt, say), only `stop` and `kill` may be called.
"""

import logging
import selectors
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from abreast.errors import WorkerError, WorkerInputError, log
from abreast.processes.alarm import Alarm
from abreast.processes.backend import NOWHERE, STOP, Backend, Child, ChildSpec, Failed
from abreast.processes.cores import SPIN_S, spin_wait
from abreast.processes.events import START_S, Answered, Died, Event, Lost, RemoteTraceback, RestartPolicy
from abreast.processes.spans import here

CHECK_S = 0.5
"""How often signs of life are checked while waiting; more often where silence is found after less than four of these."""
RETRY_S = 0.1
"""Pause after a start that failed, times the number of deaths: what is lacking may be there a moment later."""
INPUT_ERRORS = ("ConfigError: ", "ModuleNotFoundError: ")
"""What a worker fails with at its start where it is what it was given, or this machine, that has to change."""


class Condition(Enum):
    """Of a worker."""

    PAUSED = "paused"
    STARTING = "starting"
    UP = "up"
    LOST = "lost"


PAUSED, STARTING, UP, LOST = Condition  # a look-up of a global takes 13 ns, of a member of an enum 85


@dataclass
class _Worker:
    condition: Condition = PAUSED
    child: Child | None = None
    outstanding: dict[Hashable, None] = field(default_factory=dict)
    queued: list[tuple[Hashable, Any]] = field(default_factory=list)
    """Orders that arrived while it was paused."""
    incarnation: int = 0
    deaths: int = 0
    since: float = 0.0
    """When it last showed a sign of life, or became busy; while paused: when it may start."""
    beats: int = 0
    has_to_start: bool = False
    """Whether it was started with `start`, and was never ready."""


class Team:
    """Workers by number. `spec(number)` says what to start; it must not call back. Owned by one thread at a time."""

    def __init__(self, backend: Backend, spec: Callable[[int], ChildSpec], size: int, policy: RestartPolicy) -> None:
        self._backend, self._spec, self._policy = backend, spec, policy
        self._timeline = here.timeline
        self._workers = {number: _Worker() for number in range(size)}
        self.lost: set[int] = set()
        """Workers that are not replaced any more."""
        self._busy: set[int] = set()
        """Workers with outstanding orders."""
        self._selector = selectors.DefaultSelector()  # kept, because making one for every look costs more than the look
        self._alarm = Alarm()
        self._selector.register(self._alarm, selectors.EVENT_READ, None)
        self._without_fds: set[int] = set()
        self._woken: deque[int] = deque()
        """Workers without descriptors that have something to receive, or have ended; appended to by their threads."""
        self._paused: set[int] = set()
        self._check_s = min(CHECK_S, policy.silence_s / 4)
        self._checked = 0.0
        self._undelivered: list[Event] = []
        """Events of other workers while some were started."""

    # ---- start and stop

    def start(self, numbers: Iterable[int] | None = None, wait: bool = True) -> None:
        """Start workers together, those that are there already aside; returns when each is ready. Default: all.

        If one cannot start, raises its error, and there are none of these numbers; one that was killed at its start is
        replaced like any other. Without `wait`, returns at once, and `events` or `wait_started` raises the error.
        """
        started = {number for number, worker in self._workers.items() if worker.incarnation}
        new = [number for number in (self._workers if numbers is None else numbers) if number not in started]
        try:
            for number in new:
                self._workers[number] = _Worker(has_to_start=True)
                self._start(number)
            while wait and any(self._workers[number].has_to_start for number in new):
                self.wait(CHECK_S)
                for event in self.events():
                    if isinstance(event, Died) and event.worker in new and (event.silent or isinstance(event, Lost)):
                        raise event.error
                    self._undelivered.append(event)
        except BaseException:
            if numbers is None:
                self.kill()
            else:
                for number in new:
                    self._end_child(number)
                    self._paused.discard(number)
                    self._workers.pop(number, None)
            raise

    def wait_started(self) -> None:
        """Wait for workers that `start` did not wait for: until each was ready once, or is lost."""
        while any(worker.has_to_start and worker.condition is not LOST for worker in self._workers.values()):
            self.wait(CHECK_S)
            self._undelivered = self.events()

    def add(self, number: int) -> None:
        """Have another worker, if there is none of this number. Its orders wait until it is ready; nothing else does."""
        if number not in self._workers:
            self._workers[number] = _Worker()
            self._paused.add(number)  # `events` starts it, and tells if it cannot

    def stop(self, grace_s: float = 3.0) -> None:
        """Tell every worker to stop and wait for it; those that have not ended by then are killed."""
        end = time.monotonic() + grace_s
        for worker in self._workers.values():
            if worker.child is not None:
                with suppress(OSError):
                    worker.child.send(STOP)
        for worker in self._workers.values():
            while worker.child is not None and worker.child.is_alive and time.monotonic() < end:
                time.sleep(0.005)  # not `select`: what is ready is not read here
                # A child that writes a long message cannot end before it is read; what it answers is not wanted, nor whole,
                # if a call was interrupted.
                with suppress(Exception):
                    _without_logged(worker.child.receive())
        self.kill()

    def retire(self, worker: int) -> None:
        """Do without a worker from now on: it is ended and not replaced."""
        self._end_child(worker)
        self._paused.discard(worker)
        self._busy.discard(worker)
        self.lost.add(worker)
        self._workers[worker] = _Worker(LOST, incarnation=self._workers[worker].incarnation)

    def kill(self) -> None:
        """End every worker at once. Nothing can be asked of the team afterwards."""
        for number in self._workers:
            self.retire(number)
        self._alarm.close()
        self._selector.close()

    # ---- orders

    def submit(self, worker: int, key: Hashable, order: Any) -> None:
        """Give a worker something to do. If it dies before the last answer, the key is in `Died.keys`."""
        it = self._workers[worker]
        if it.condition is LOST:
            raise WorkerError(f"worker {worker} is lost: it cannot be given orders.")
        if not it.outstanding:
            it.since = max(it.since, time.monotonic())
        it.outstanding[key] = None
        self._busy.add(worker)
        if it.child is None:
            it.queued.append((key, order))
        else:
            with suppress(OSError):  # it is gone, which `events` will tell
                it.child.send((key, order))

    def forget(self, worker: int, key: Hashable) -> None:
        """The answer to an order is not wanted any more."""
        it = self._workers[worker]
        it.outstanding.pop(key, None)
        if not it.outstanding:
            self._busy.discard(worker)
        it.queued = [(other, order) for other, order in it.queued if other != key]

    # ---- events

    def wait(self, wait_s: float = CHECK_S, spin: bool = False) -> None:
        """Wait until there may be events, for `wait_s` seconds at most. Changes nothing, so it may be interrupted.

        `spin`: at first without sleeping, since a core is free; to be woken takes 50 µs.
        """
        now = time.monotonic()
        wait_s = min([wait_s, self._check_s, *(self._workers[number].since - now for number in list(self._paused))])
        if wait_s <= 0:  # a restart is due. (Another thread may pause a worker meanwhile.)
            return
        may_spin = spin and self._busy.isdisjoint(self._without_fds)  # threads need the interpreter themselves
        if not (may_spin and wait_s >= SPIN_S and spin_wait(partial(self._selector.select, 0.0))):
            self._selector.select(wait_s)

    def events(self) -> list[Event]:
        """What has happened since the last call; never blocks."""
        events, self._undelivered = self._undelivered, []
        now = time.monotonic()
        for number in sorted(self._paused):
            if self._workers[number].since <= now:
                try:
                    self._start(number)
                except WorkerError as error:
                    died = Died(number, str(error), NOWHERE, False, (), error)
                    events.append(self._replace_later(died, was_starting=True))
        ready = {key.data for key, _ in self._selector.select(0.0)}
        if None in ready:
            ready.discard(None)
            self._alarm.reset()
        while self._woken:
            ready.add(self._woken.popleft())
        for number in sorted(ready):
            if number in self._workers and self._workers[number].child is not None:
                self._receive(number, events)
        if not events or now - self._checked >= self._check_s:
            self._checked = now
            for number, worker in self._workers.items():
                if worker.child is not None and (worker.outstanding or worker.condition is STARTING):
                    self._check_silence(number, now, events)
        return events

    def incarnation(self, worker: int) -> int:
        """Which child of this worker the next order will reach, counted from 1: it grows with every death."""
        it = self._workers[worker]
        return it.incarnation + (it.child is None)

    @property
    def restarts(self) -> int:
        """How often workers were replaced so far."""
        return sum(max(0, worker.incarnation - 1) for worker in self._workers.values())

    @property
    def busy(self) -> int:
        """How many workers have outstanding orders."""
        return len(self._busy)

    @property
    def pids(self) -> dict[int, int]:
        """Process ids of the workers that are processes, by number."""
        children = {number: worker.child for number, worker in self._workers.items()}
        return {number: child.pid for number, child in children.items() if child is not None and child.pid is not None}

    # ---- for a display, from any thread

    @property
    def at_work(self) -> list[str]:
        """Workers that have something to do, by name."""
        return [each.child.name for each in list(self._workers.values()) if each.outstanding and each.child is not None]

    def stacks(self) -> dict[str, str]:
        """Where each worker is now, by its name; nothing is told by one that is starting."""
        return {child.name: child.stack() for each in list(self._workers.values()) if (child := each.child) is not None}

    # ---- inside

    def _start(self, number: int) -> None:
        worker = self._workers[number]
        worker.incarnation += 1
        spec = self._spec(number)
        if self._timeline is not None:
            spec = self._timeline.recorded(spec)
        child = self._backend.start(number, spec, partial(self._wake, number))
        self._paused.discard(number)
        if worker.incarnation > 1:
            log.warning("%s is restarted (restart %d)", child.name, worker.incarnation - 1)
        worker.child, worker.condition = child, STARTING
        worker.since, worker.beats = time.monotonic(), 0
        for fd in child.fds:
            self._selector.register(fd, selectors.EVENT_READ, number)
        if not child.fds:
            self._without_fds.add(number)
        queued, worker.queued = worker.queued, []
        for message in queued:
            with suppress(OSError):
                child.send(message)

    def _wake(self, number: int) -> None:
        """Called from any thread: worker `number`, which has no descriptors, has something to receive."""
        self._woken.append(number)
        self._alarm.ring()

    def _receive(self, number: int, events: list[Event]) -> None:
        """Take in the messages of a worker, then its end, if it has ended."""
        worker = self._workers[number]
        child = worker.child
        assert child is not None
        try:
            arrived = child.receive()
            if not arrived and not child.is_alive:
                arrived = child.receive()  # it may have ended right after its last message
                if not arrived:
                    raise EOFError
            messages = _without_logged(arrived)
        except (EOFError, OSError):
            events.append(self._child_died(number, f"died: {child.cause_of_death()}"))
            return
        except Exception as error:
            events.append(self._child_died(number, f"sent a message that cannot be read: {error!r}"))
            return
        for message in messages:
            worker.since = time.monotonic()
            if type(message) is tuple:
                key, value, last = message
                if key in worker.outstanding:
                    worker.deaths = 0
                    if last:
                        self.forget(number, key)
                    events.append(Answered(number, key, value, last))
            elif isinstance(message, Failed):
                events.append(self._child_died(number, f"failed: {message.error}", failure=message))
                return
            else:
                worker.condition, worker.has_to_start = UP, False
        if arrived and not child.fds and not child.is_alive:
            self._wake(number)  # its end was announced once, perhaps before its last message was read

    def _check_silence(self, number: int, now: float, events: list[Event]) -> None:
        """Tell a worker that is silent from one that takes its time."""
        worker = self._workers[number]
        assert worker.child is not None
        sign = worker.child.sign_of_life()
        if sign.beats != worker.beats:
            worker.beats, worker.since = sign.beats, max(now, worker.since)
        elif not worker.child.is_alive:  # and another process, which it has forked, keeps its end of the socket open
            self._receive(number, events)
            return
        starts = worker.condition is STARTING
        allowed = self._policy.start_s if starts else self._policy.silence_s
        if now - worker.since > allowed + sign.allow_s:
            what = f"did not answer within {allowed:g} s" if starts else f"did nothing for {allowed:g} s"
            stack = worker.child.stack() or "(no stack)"
            events.append(self._child_died(number, f"{what}; it was at:\n{stack}", silent=True))

    def _child_died(self, number: int, cause: str, silent: bool = False, failure: Failed | None = None) -> Died:
        """The event for a child that has ended, or has to."""
        worker = self._workers[number]
        child, was_starting = worker.child, worker.condition is STARTING
        assert child is not None
        at, pid = child.sign_of_life().at, child.pid
        self._end_child(number)
        kind = WorkerError
        if was_starting:
            cause = cause.removeprefix("failed: ").removeprefix("died: ").rstrip(".")
            kind = WorkerInputError if cause.startswith(INPUT_ERRORS) else WorkerError
            cause = f"could not start: {cause.removeprefix(INPUT_ERRORS[0])}{child.hint}"
        who = f"{child.name} (pid {pid})" if pid is not None and not was_starting else child.name
        error = kind(f"{who} {cause.rstrip('.')}.")
        if failure is not None and kind is WorkerError:
            error.__cause__ = RemoteTraceback(failure.traceback)
        if worker.has_to_start and (failure is not None or not (silent or child.was_killed)):
            raise error
        return self._replace_later(Died(number, cause, at, silent, (), error), was_starting)

    def _replace_later(self, died: Died, was_starting: bool) -> Died:
        """Decide what becomes of a worker without a child, and complete the event."""
        worker = self._workers[died.worker]
        died = died._replace(keys=tuple(worker.outstanding))
        worker.outstanding, worker.queued = {}, []
        self._busy.discard(died.worker)
        if died.at == NOWHERE:
            worker.deaths += 1
        text = str(died.error).rstrip(".")
        if worker.deaths > self._policy.limit:
            worker.condition = LOST
            self.lost.add(died.worker)
            self._paused.discard(died.worker)
            log.error("%s; not restarted again after %d deaths without an answer", text, worker.deaths)
            return Lost(*died)
        worker.condition = PAUSED
        worker.since = time.monotonic() + (RETRY_S * worker.deaths if was_starting else 0.0)
        self._paused.add(died.worker)
        log.warning("%s", text)
        return died

    def _end_child(self, number: int) -> None:
        worker = self._workers.get(number, _Worker())
        child, worker.child = worker.child, None
        self._without_fds.discard(number)
        if child is not None:
            for fd in child.fds:
                self._selector.unregister(fd)
            child.kill()


def _without_logged(messages: list[Any]) -> list[Any]:
    """Log what children have logged; returns the other messages."""
    for message in messages:
        if isinstance(message, logging.LogRecord) and log.isEnabledFor(message.levelno):
            log.handle(message)
    return [message for message in messages if not isinstance(message, logging.LogRecord)]


__all__ = ["START_S", "Answered", "Died", "Event", "Lost", "RemoteTraceback", "RestartPolicy", "Team"]
