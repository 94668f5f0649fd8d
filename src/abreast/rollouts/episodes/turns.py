"""The turns that are pending, from the input to the written result, whatever happens to the workers meanwhile.

run ──▶ pending ──QUEUED──▶ taken in the main process, by the thread that waits ──▶ Slot.write ──TAKEN──▶ handed out
                └──SENT──▶ team.submit … team.events ──────────────────────────────▲

An environment is (type, configuration, seed, executed actions), and lives in one process. If that process is gone, the
next order to its successor says how to rebuild it; a digest of an earlier state tells whether that has worked. Nothing is
rebuilt before it is needed, and a death resets nothing here: `Slot.built_in` then differs from the worker's incarnation.

A call waits for its `Job`: for all turns of a batch together, or for the turn of a single episode. One thread handles what
workers say, for all: the first that waits (a thread of its own would cost every batch two wake-ups, 10 % of one of 1 ms),
or, for tasks of asyncio and when that thread has left, a thread that is started for it.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from abreast.errors import RolloutError, StateError
from abreast.processes.cores import cores
from abreast.processes.team import Answered, Died, Lost
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.episodes.episode import SLOW_S, Digest, TurnResult
from abreast.rollouts.episodes.guard import INCOMPLETE, Refused
from abreast.rollouts.episodes.here import SILENCES, MainProcess
from abreast.rollouts.episodes.slot import HERE, OVER, QUEUED, READY, SENT, TAKEN, Cache, Inputs, Slot
from abreast.rollouts.episodes.verifier import Verifier
from abreast.rollouts.workers.messages import AT_ANSWERS, Answer, Order, read_answers
from abreast.rollouts.workers.places import Places

log = logging.getLogger("abreast")

DEATHS = 3
"""How often a worker may die at one turn of an environment before its episode ends as a failure."""
LOOK_S = 0.5
"""How often those who wait look for themselves: an interrupt may keep the thread that handles events from saying it left."""
REST_S = 5.0
"""A thread that handles events ends after so many seconds without any."""
UNDER_WAY = "the turn of this episode is already under way: wait for it first."
ABANDONED = (
    "the turn that was waited for belongs to an episode that was closed, or ended by a reset, or with its manager."
)


class Job:
    """What one call waits for."""

    __slots__ = ("error", "future", "is_waited", "missing", "slots", "task")

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots
        self.missing = 0
        """Turns that workers have not answered."""
        self.future: Future[None] | None = None
        """Done when none is missing; made anew if turns are sent again afterwards. None: nothing was sent."""
        self.error: RolloutError | None = None
        self.task: asyncio.Task[object] | None = None
        """The task that waits for it, if it is one; `recv` leaves its turns alone."""
        self.is_waited = False
        """Whether a thread or a task waits for it."""

    @property
    def is_awaited(self) -> bool:
        """Whether a task still waits for it. (One that was cancelled may have been kept from saying so: it is done.)"""
        return self.task is not None and not self.task.done()

    def sent(self) -> None:
        """A turn was sent to a worker."""
        if not self.missing:
            self.future = Future()
            self.future.set_running_or_notify_cancel()  # a task that is cancelled does not cancel it
        self.missing += 1

    def answered(self, turns: int = 1) -> None:
        """So many turns are not missing any more."""
        self.missing -= turns
        if not self.missing and self.future is not None:
            self.future.set_result(None)

    def end(self, error: RolloutError) -> None:
        """Tell who waits that there will be no result."""
        self.error = error
        if self.missing:
            self.answered(self.missing)


class Turns:
    """All turns of a manager. Only this class changes the phase of a turn."""

    def __init__(self, config: ManagerConfig, places: Places, verify: bool) -> None:
        self.guard, self.places = places.guard, places
        self._cores = cores()
        self._main = MainProcess(config.step_timeout)
        self.pending: dict[int, Slot] = {}
        """Slots that are QUEUED, SENT or TAKEN, by number of the environment, in the order in which they were begun."""
        self._driver = 0
        """The thread that handles what workers say. 0: none."""
        self._awaited: set[Future[None]] = set()
        """Waited for by others."""
        self._thread: threading.Thread | None = None
        self._called = threading.Event()
        self._is_closed = False
        self._arrived = threading.Event()
        """A turn was taken that no job waits for: `recv` may."""
        self.verifier = Verifier() if verify else None
        self._penalty = abs(config.format_penalty)
        self._logged: set[str] = set()
        """Stacks of failures that are in the log."""
        self._last_key = 0

    # ---- begin

    def begin(self, inputs: Mapping[Slot, Inputs | None], together: bool) -> Job:
        """Begin turns, or episodes where the input is None. `together`: the caller waits for all of them."""
        job = Job([*inputs])
        with self.guard:
            for slot in job.slots:
                if slot.env_id in self.pending:
                    raise Refused(UNDER_WAY)
            for slot, given in inputs.items():
                slot.inputs, slot.deaths, slot.is_suspect, slot.job = given, 0, False, job
                self.pending[slot.env_id] = slot
            self._send(job.slots, together)
        return job

    def _send(self, slots: Iterable[Slot], together: bool) -> None:
        """Queue turns for the main process, or send them to the workers in which their environments live."""
        self._last_key += 1
        team, orders = self.places.team, dict[int, tuple[int, Order]]()
        for slot in slots:
            slot.key, was_sent = self._last_key, slot.phase is SENT
            if slot.worker == HERE:
                slot.phase = QUEUED
                if was_sent:  # its worker is lost
                    self._tell(slot)
                continue
            assert team is not None, "a slot lives in a worker"
            if slot.worker not in orders:
                incarnation = team.incarnation(slot.worker)
                orders[slot.worker] = (incarnation, ([], {}, {}, set(), together, self.verifier is not None))
            incarnation, (takes, builds, starts, suspects, _, _) = orders[slot.worker]
            if slot.built_in != incarnation:
                builds[slot.env_id] = self.places.recipe(slot)
                slot.built_in = incarnation
            if slot.started != slot.serial:
                starts[slot.env_id] = (slot.seed, tuple(slot.executed), slot.digest)
                slot.started = slot.serial
            if slot.is_suspect:
                suspects.add(slot.env_id)
            takes.append((slot.env_id, None if slot.inputs is None else slot.inputs["actions"], slot.actions_left))
            slot.phase = SENT
            if not was_sent:
                slot.job.sent()
        if team is not None:
            for worker, (_, order) in orders.items():
                team.submit(worker, self._last_key, order)

    # ---- wait

    def wait(self, job: Job) -> None:
        """Wait until all turns of a job are taken. May be interrupted; the next call goes on."""
        job.is_waited = True
        try:
            self.take_queued(job.slots)
            while job.missing:
                if self._leads():
                    try:
                        while job.missing:
                            self._drive(3600.0, spin=True)
                    finally:
                        self._leave()
                else:
                    self.guard.check()
                    self._drive(0.0)  # its worker may have to be started, which the thread that waits has not seen
                    with suppress(TimeoutError), self._called_for(job) as future:
                        future.exception(LOOK_S)
                self.take_queued(job.slots)  # those that have lost their worker
            if job.error is not None:
                raise job.error
        finally:
            job.is_waited = False

    async def wait_async(self, job: Job) -> None:
        """As `wait`, awaitable: it keeps the event loop waiting for turns in the main process only."""
        job.task, job.is_waited = asyncio.current_task(), True
        try:
            self.take_queued(job.slots)
            while job.missing:
                with self._called_for(job) as future:
                    await asyncio.wrap_future(future)
                self.take_queued(job.slots)
            if job.error is not None:
                raise job.error
        finally:
            job.task, job.is_waited = None, False

    def receive(self, min_ready: int, end: float | None) -> list[Slot]:
        """Wait for turns that no task waits for, until so many are taken, or all, or it is `end`; those that are."""
        while True:
            self._arrived.clear()
            self.take_queued(self.receivable)
            self._drive(0.0)
            begun = self.receivable  # another thread may have begun some anew
            taken = [slot for slot in begun if slot.phase is TAKEN]
            left_s = 3600.0 if end is None else end - time.monotonic()
            if len(taken) >= min(min_ready, len(begun)) or left_s <= 0:
                return taken
            if any(slot.phase is QUEUED for slot in begun):
                continue
            if self._leads():
                try:
                    self._drive(left_s, spin=True)
                finally:
                    self._leave()
            else:
                self.guard.check()
                self._arrived.wait(min(left_s, LOOK_S))

    def take_queued(self, slots: Collection[Slot]) -> None:
        """Take those that are to be taken in the main process, in this thread; or lend them to threads, if they wait."""
        timings = self.places.timings
        for slot in slots:
            if slot.phase is not QUEUED:
                continue
            timing, key = timings[slot.tag.name], slot.key
            if timing.waits and self._lend(slot):
                continue
            result = self._main.take(slot)  # interrupted here, the turn is still queued
            if timing.is_open or result.seconds > SLOW_S or result.waited > SLOW_S:
                timing.note(result, is_start=slot.inputs is None)
            with self.guard:
                if slot.key == key:  # not abandoned by another thread meanwhile
                    slot.started = slot.serial
                    self._finish(slot, result)

    def _lend(self, slot: Slot) -> bool:
        with self.guard:
            is_lent = slot.phase is QUEUED and self.places.lend(slot)
            if is_lent:
                self._send([slot], together=False)
            return is_lent or slot.phase is not QUEUED  # abandoned by another thread meanwhile

    # ---- the thread that handles what workers say

    def _leads(self) -> bool:
        """Whether this thread is the one, or becomes it."""
        me = threading.get_ident()
        with self.guard:
            if self._driver in (0, me):
                self._driver = me
            return self._driver == me

    def _leave(self) -> None:
        """Another thread goes on, if somebody waits."""
        self._driver = 0
        if self._awaited:
            self._call_thread()

    @contextmanager
    def _called_for(self, job: Job) -> "Iterator[Future[None]]":
        """While the caller waits for a job, some thread handles what workers say."""
        future = job.future
        assert future is not None, "turns were sent"
        self._awaited.add(future)
        try:
            if not self._driver:
                self._call_thread()
            yield future
        finally:
            self._awaited.discard(future)

    def _call_thread(self) -> None:
        with self.guard:
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._handle_events, name="abreast rollouts", daemon=True)
                self._thread.start()
            self._called.set()

    def _handle_events(self) -> None:
        """What the thread does. If it cannot go on, all who wait are told."""
        try:
            while True:
                self._called.clear()
                while self._awaited and not self._is_closed:
                    self.guard.check()
                    if self._leads():
                        self._drive(LOOK_S)
                        self._driver = 0
                    else:
                        self._called.wait(LOOK_S)
                        self._drive(0.0)
                if self._is_closed or not self._called.wait(REST_S):
                    with self.guard:
                        if self._is_closed or not self._called.is_set():
                            self._thread = None
                            return
        except BaseException as error:
            self._thread = None
            self.end_all(RolloutError(f"{INCOMPLETE} ({type(error).__name__}: {error})"))

    def _drive(self, wait_s: float, spin: bool = False) -> None:
        """Wait for workers, for `wait_s` seconds at most, and handle what has happened to them.

        May be interrupted while it waits; the next call goes on.
        """
        team = self.places.team
        if team is None or not (busy := team.busy):
            return
        try:
            team.wait(wait_s, spin=spin and busy < self._cores)
        except (ValueError, OSError):
            if team is self.places.team:
                raise
        with self.guard:
            if team is not self.places.team:  # closed by another thread
                return
            for event in team.events():
                if isinstance(event, Answered):
                    for env_id, fields, digest in self._read(event):
                        slot = self.pending.get(env_id)
                        if slot is None or slot.phase is not SENT or slot.key != event.key:
                            continue  # abandoned
                        if isinstance(fields, str):
                            self._stay_here(slot, fields)
                        else:
                            self._finish(slot, TurnResult._make(fields), digest)
                else:
                    self._handle_death(event)

    def _read(self, event: Answered) -> Sequence[Answer]:
        """The answers in an event; if they cannot be read, that is the answer of each that was asked."""
        try:
            return read_answers(event.value)
        except StateError as error:
            asked = (slot for slot in self.pending.values() if slot.phase is SENT and slot.key == event.key)
            return [(slot.env_id, f"what it returned {error}", None) for slot in asked if slot.worker == event.worker]

    def _stay_here(self, slot: Slot, why: str) -> None:
        """An environment cannot live in a worker: if no turn was taken, it begins once more, in the main process."""
        self.places.stay_here(slot, why)
        if slot.inputs is None:
            slot.phase, slot.deaths = QUEUED, 0
            self._tell(slot)
        else:
            remedy = "return plain values (numbers, texts, lists, dicts, arrays), or use threads"
            self._finish(slot, TurnResult("", failure=f"{why}: {remedy}"))

    def _handle_death(self, event: Died) -> None:
        """Send the turns of a dead worker again, to its successor; end the episode that it keeps dying at.

        If it died while it sent answers, each turn is suspect: it is sent again in such a way that the next death is the
        fault of one of them.
        """
        waiting = [slot for slot in self.pending.values() if slot.phase is SENT and slot.worker == event.worker]
        is_lost = isinstance(event, Lost)
        if is_lost:
            self.places.leave(event.worker)
        again = []
        for slot in waiting:
            slot.is_suspect |= event.at == AT_ANSWERS
            is_blamed = slot.env_id == event.at
            if is_blamed:
                slot.deaths += 1
                slot.tally.timeouts += event.silent
            limit = 1 if is_lost else SILENCES if event.silent else DEATHS
            if slot.deaths >= limit and (is_blamed or is_lost):
                self._finish(slot, TurnResult("", failure=f"its worker {event.cause.partition(';')[0]}"))
            else:
                again.append(slot)
        self._send(again, together=False)

    def _finish(self, slot: Slot, result: TurnResult, digest: Digest | None = None) -> None:
        """Write a result; those of workers come with a digest."""
        was_sent, job = slot.phase is SENT, slot.job
        if was_sent and result.failure is None:
            slot.digest = digest
            if self.verifier is not None:
                job.error = job.error or self.verifier.compare(slot, result)
        if result.failure is not None:
            trace = self._new_trace(result)
            log.error("environment %d (%s) cannot go on: %s%s", slot.env_id, slot.tag.name, result.failure, trace)
        slot.write(result, self._penalty)
        timing = self.places.timings[slot.tag.name]
        if was_sent and (timing.is_open or result.seconds > SLOW_S):
            timing.note(result, is_start=slot.inputs is None)
        if slot.is_single:
            del self.pending[slot.env_id]
            slot.phase = OVER if slot.terminated else READY
        else:
            slot.phase = TAKEN
        if was_sent:
            self._tell(slot)

    def _tell(self, slot: Slot) -> None:
        """Its worker is not waited for any more: it is taken, or has to be taken by the thread that waits."""
        slot.job.answered()
        self._arrived.set()

    def _new_trace(self, result: TurnResult) -> str:
        """The traceback of a failure, if one with this stack was not logged before."""
        stack = "".join(line for line in result.trace.splitlines() if line.startswith("  "))
        if not stack or stack in self._logged:
            return ""
        self._logged.add(stack)
        return f"\n{result.trace}"

    # ---- the end of turns

    @property
    def receivable(self) -> list[Slot]:
        """Pending turns of the batch that neither a task nor a reset waits for."""
        with self.guard:
            begun = [slot for slot in self.pending.values() if not slot.is_single and slot.inputs is not None]
            return [slot for slot in begun if not slot.job.is_awaited]

    def hand_out(self, slots: Sequence[Slot]) -> list[Cache]:
        """The caches of those whose episodes go on; these may be given the next input."""
        caches = []
        with self.guard:
            if any(slot.phase is not TAKEN for slot in slots):
                raise Refused(ABANDONED)
            for slot in slots:
                del self.pending[slot.env_id]
                if slot.terminated:
                    slot.phase = OVER
                else:
                    slot.phase = READY
                    caches.append(slot.cache)
        return caches

    def abandon(self, slots: Iterable[Slot]) -> None:
        """Forget pending turns of these; answers to them are dropped. Episodes that have a state are READY afterwards."""
        with self.guard:
            for slot in slots:
                if self.pending.pop(slot.env_id, None) is not None:
                    if slot.phase is SENT:
                        slot.started = 0  # the worker takes the turn all the same
                    elif slot.phase is QUEUED:
                        self._main.abandon(slot)
                    slot.job.end(RolloutError(ABANDONED))
                    self._arrived.set()
                slot.key = 0
                slot.phase = READY if slot.is_live else OVER

    def end_all(self, error: RolloutError) -> None:
        """Tell all who wait that there will be no result."""
        for slot in list(self.pending.values()):
            slot.job.end(error)
        self._arrived.set()

    def close(self) -> None:
        """End the workers; those who wait for a turn are told."""
        self._is_closed = True
        self._called.set()
        self.abandon(list(self.pending.values()))
        self.places.close()
        self._main.close()
        if self.verifier is not None:
            self.verifier.close()

    def start_over(self) -> None:
        """After an interrupt inside the guard: new workers, nothing pending."""
        self.end_all(RolloutError(ABANDONED))
        self.pending.clear()
        self._driver = 0
        self.places.start_over()
        self.guard.repair()
