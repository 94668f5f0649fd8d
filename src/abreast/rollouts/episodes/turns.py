"""The turns that are pending, from the input to the written result, whatever happens to the workers meanwhile.

run ──▶ pending ──QUEUED──▶ taken in the main process, by the thread that waits ──▶ written ──TAKEN──▶ handed out
                └──SENT──▶ team.submit … team.events ──────────────────────────────▲

An environment is (type, configuration, seed, executed actions), and lives in one process. If that process is gone, the
next order to its successor says how to rebuild it; a digest of an earlier state tells whether that has worked. Nothing is
rebuilt before it is needed, and a death resets nothing here: `Slot.built_in` then differs from the worker's incarnation.

A call waits for its `Job` (waiting.py), and one thread handles what workers say, for all.
"""

import asyncio
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from abreast.errors import RolloutError, log, printable
from abreast.processes.cores import cores
from abreast.processes.spans import details, span
from abreast.processes.team import Answered, Died, Lost
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.episodes.episode import SLOW_S, Digest, TurnResult
from abreast.rollouts.episodes.guard import Refused
from abreast.rollouts.episodes.here import SILENCES, MainProcess
from abreast.rollouts.episodes.slot import HERE, OVER, QUEUED, READY, SENT, TAKEN, Cache, Inputs, Slot
from abreast.rollouts.episodes.summary import metrics_of
from abreast.rollouts.episodes.verifier import Verifier
from abreast.rollouts.episodes.waiting import LOOK_S, Job, Listener
from abreast.rollouts.workers.places import Places
from abreast.rollouts.workers.worker import AT_ANSWERS, Order, read_answers

DEATHS = 3
"""How often a worker may die at one turn of an environment before its episode ends as a failure."""
UNDER_WAY = "the turn of this episode is already under way: wait for it first."
ABANDONED = (
    "the turn that was waited for belongs to an episode that was closed, or ended by a reset, or with its manager."
)


class Turns:
    """All turns of a manager. Only this class changes the phase of a turn."""

    def __init__(self, config: ManagerConfig, places: Places, verifier: Verifier | None) -> None:
        self.guard, self.places = places.guard, places
        self._cores = cores()
        self._main = MainProcess(config.step_timeout, places.draws)
        self.pending: dict[int, Slot] = {}
        """Slots that are QUEUED, SENT or TAKEN, by number of the environment, in the order in which they were begun."""
        self._listener = Listener(self.guard, self._drive, self.end_all)
        self._arrived = threading.Event()
        """A turn was taken that no job waits for: `recv` may."""
        self.verifier = verifier
        self._penalty = abs(config.format_penalty)
        self._logged: set[str] = set()
        """Stacks of failures that are in the log."""
        self._last_key = 0

    # ---- begin

    def begin(self, inputs: Mapping[Slot, Inputs | None], together: bool) -> Job:
        """Begin turns, or episodes where the input is None. `together`: the caller waits for all of them."""
        job = Job([*inputs])
        with self.guard:
            if self.pending and any(slot.env_id in self.pending for slot in job.slots):
                raise Refused(UNDER_WAY)
            for slot, given in inputs.items():
                slot.inputs, slot.deaths, slot.is_suspect, slot.job = given, 0, False, job
                self.pending[slot.env_id] = slot
            self._send(job.slots, together)
        return job

    def _send(self, slots: Iterable[Slot], together: bool) -> None:
        """Queue turns for the main process, or send them to the workers in which their environments live."""
        self._last_key = key = self._last_key + 1
        team, orders = self.places.team, dict[int, tuple[int, Order]]()
        for slot in slots:
            worker, was_sent = slot.worker, slot.phase is SENT
            slot.key = key
            if worker == HERE:
                slot.phase = QUEUED
                if was_sent:  # its worker is lost
                    slot.job.answered()
                continue
            assert team is not None, "a slot lives in a worker"
            if worker not in orders:
                orders[worker] = (team.incarnation(worker), ([], {}, {}, set(), together, self.verifier is not None))
            incarnation, (takes, builds, starts, suspects, _, _) = orders[worker]
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
                slot.job.missing += 1
        if team is not None:
            for worker, (_, order) in orders.items():
                team.submit(worker, key, order)

    # ---- wait

    def wait(self, job: Job) -> None:
        """Wait until all turns of a job are taken. May be interrupted; the next call goes on."""
        job.is_waited = True
        try:
            self.take_queued(job.slots)
            while job.missing:
                if self._listener.enter():
                    try:
                        with span("wait for workers"):
                            while job.missing:
                                self._drive(3600.0, spin=True)
                    finally:
                        self._listener.leave()
                else:
                    self.guard.check()
                    self._drive(0.0)  # its worker may have to be started, which the thread that listens has not seen
                    with suppress(TimeoutError), self._listener.awaiting(job) as future:
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
                with self._listener.awaiting(job) as future:
                    await asyncio.wrap_future(future)
                self.take_queued(job.slots)
            if job.error is not None:
                raise job.error
        finally:
            job.task, job.is_waited = None, False

    def receive(self, min_ready: int, end: float | None) -> list[Slot]:
        """Wait for turns that no task waits for, until so many are taken, or all, or it is `end`; those that are."""
        has_looked = False
        while True:
            self._arrived.clear()
            begun = self.receivable
            self.take_queued(begun)
            # Before the next line: a turn that another thread takes in between must not be missed.
            are_all = not any(slot.phase is SENT for slot in begun)  # another thread may have received some
            taken = [slot for slot in begun if slot.phase is TAKEN]
            left_s = 3600.0 if end is None else end - time.monotonic()
            if len(taken) >= min_ready or are_all or (has_looked and left_s <= 0):
                return taken
            has_looked = True
            if self._listener.enter():
                try:
                    self._drive(left_s, spin=True)
                finally:
                    self._listener.leave()
            else:
                self.guard.check()
                self._drive(0.0)
                self._arrived.wait(min(left_s, LOOK_S))

    def take_queued(self, slots: Collection[Slot]) -> None:
        """Take those that are to be taken in the main process, in this thread; or lend them to threads, if they wait."""
        timings = self.places.timings
        if not any(slot.phase is QUEUED for slot in slots):
            return
        mark = details("turn").begin()
        for slot in slots:
            if slot.phase is not QUEUED:
                continue
            key = slot.key
            if timings[slot.tag.name].waits and self._lend(slot):
                continue
            result = self._main.take(slot)  # interrupted here, the turn is still queued
            with self.guard:
                if slot.key == key:  # not abandoned by another thread meanwhile
                    slot.started = slot.serial
                    self._finish(slot, result)
        if mark:
            mark()

    def _lend(self, slot: Slot) -> bool:
        with self.guard:
            is_lent = slot.phase is QUEUED and self.places.lend(slot)
            if is_lent:
                self._send([slot], together=False)
            return is_lent or slot.phase is not QUEUED  # abandoned by another thread meanwhile

    # ---- what workers say

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
                    for env_id, fields, digest in read_answers(event.value):
                        slot = self.pending.get(env_id)
                        if slot is None or slot.phase is not SENT or slot.key != event.key:
                            continue  # abandoned
                        if isinstance(fields, str):
                            self._stay_here(slot, fields)
                        else:
                            self._finish(slot, TurnResult._make(fields), digest)
                else:
                    self._handle_death(event)
            if (
                not self._arrived.is_set()
            ):  # to set it takes 2 µs, so once for all answers, and only if `recv` was called
                self._arrived.set()

    def _stay_here(self, slot: Slot, why: str) -> None:
        """Take the turn of an environment that cannot live in a worker once more, in the main process."""
        self.places.stay_here(slot, why)
        if slot.inputs is None or getattr(slot.tag.kind.env, "replayable", True):
            slot.phase, slot.deaths = QUEUED, 0
            slot.job.answered()
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
        if self.verifier is not None and result.failure is None and (was_sent or self.verifier.compares_here):
            there = slot.here.take_digest() if slot.here is not None and not was_sent else digest
            job.error = job.error or self.verifier.compare(slot, result, there)
        if result.failure is not None:
            stack = "".join(line for line in result.trace.splitlines() if line.startswith("  "))
            told = f"{result.failure}\n{result.trace}" if stack and stack not in self._logged else result.failure
            log.error("environment %d (%s) cannot go on: %s", slot.env_id, slot.tag.name, printable(told))
            self._logged.add(stack)
        if result.draws:
            self.places.note_draws(slot.tag.name, result.draws)
        if slot.inputs is None:
            slot.write_start(result)
        else:
            slot.write_turn(result, slot.inputs, self._penalty)
        if slot.terminated:
            slot.cache["metrics"] = metrics_of(slot)
        timing = self.places.timings[slot.tag.name]
        if timing.cost is None or result.seconds > SLOW_S or (result.waited > SLOW_S and not was_sent):
            timing.note(result, is_start=slot.inputs is None)
        if slot.is_single:
            del self.pending[slot.env_id]
            slot.phase = OVER if slot.terminated else READY
        else:
            slot.phase = TAKEN
        if was_sent:
            slot.job.answered()

    # ---- the end of turns

    @property
    def receivable(self) -> list[Slot]:
        """Pending turns of the batch that neither a task nor a reset waits for."""
        with self.guard:
            begun = [slot for slot in self.pending.values() if not slot.is_single and slot.inputs is not None]
            return [slot for slot in begun if slot.job.task is None or slot.job.task.done()]

    def hand_out(self, slots: Sequence[Slot]) -> list[Cache]:
        """The caches of those whose episodes go on; these may be given the next input."""
        with self.guard:
            for slot in slots:
                if slot.phase is not TAKEN:
                    raise Refused(ABANDONED)
            for slot in slots:
                del self.pending[slot.env_id]
                slot.phase = OVER if slot.terminated else READY
            return [slot.cache for slot in slots if not slot.terminated]

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
        self._listener.close()
        self.abandon(list(self.pending.values()))
        self.places.close()
        self._main.watchdog.close()
        if self.verifier is not None:
            self.verifier.close()

    def start_over(self) -> None:
        """After an interrupt inside the guard: new workers, nothing pending."""
        self.end_all(RolloutError(ABANDONED))
        self.pending.clear()
        self._listener.close()
        self._listener = Listener(self.guard, self._drive, self.end_all)
        self.places.start_over()
        self.guard.repair()
