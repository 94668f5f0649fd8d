"""The turns that are pending, from the input to the written result, whatever happens to the workers meanwhile.

begin ──▶ pending: one record per turn ──QUEUED──▶ taken in the main process ──▶ Slot.write ──TAKEN──▶ hand_out
                                       └──SENT──▶ team.submit … team.events ──────▲

An environment is (type, configuration, seed, executed actions), and lives in one process. If that process is gone, the
next order to its successor says how to rebuild it; a digest of an earlier state tells whether that has worked. Nothing is
rebuilt before it is needed, and a death resets nothing here: `Slot.built_in` then differs from the worker's incarnation.

Any thread may begin turns of its own slots and wait for them. A QUEUED turn is taken by the thread that waits for it. One of
the waiting threads, the leader, handles what workers say, also for the others, and wakes those that it concerns.
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from abreast.errors import RolloutError
from abreast.processes.cores import cores
from abreast.processes.team import Answered, Died, Lost
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.episodes.episode import SLOW_S, Episode, TurnResult
from abreast.rollouts.episodes.guard import Guard, Refused
from abreast.rollouts.episodes.pending import DEATHS, OVER, QUEUED, READY, SENT, SILENCES, TAKEN, PendingTurn
from abreast.rollouts.episodes.slot import HERE, Cache, Slot
from abreast.rollouts.episodes.verifier import Verifier
from abreast.rollouts.episodes.waiters import Waiter
from abreast.rollouts.workers.messages import Answer, Order
from abreast.rollouts.workers.placement import PlacementRules
from abreast.rollouts.workers.places import Places

log = logging.getLogger("abreast")

Inputs = Mapping[str, Any]
LOOK_S = 0.5
"""How often a waiting thread looks whether there still is a leader."""
ANY = -1
"""Stands for the number of an environment where a thread waits for whichever turn is taken next."""
UNDER_WAY = "the turn of this episode is already under way: wait for it first."
ABANDONED = (
    "the turn that was waited for belongs to an episode that was closed, or ended by a reset, or with its manager."
)


class Turns:
    """All turns of a manager. Only this class changes the phase of a turn."""

    def __init__(self, slots: Sequence[Slot], config: ManagerConfig, verify: bool, rules: PlacementRules) -> None:
        self.guard = Guard()
        """Around everything that changes records, slots or the team: interrupted there, only `reset` and `close` work."""
        self._cores = cores()
        workers = min(config.max_workers or min(8, self._cores), len(slots))
        self.places = Places(slots, config, workers, rules, self.guard)
        self.turns = [PendingTurn(slot) for slot in slots]
        """By number of the environment. A record is used again once its turn was handed out; that of an abandoned turn never
        is, since its caller may still look at it."""
        self.pending: dict[int, PendingTurn] = {}
        """Those that are QUEUED, SENT or TAKEN, in the order in which they were begun."""
        self._leader = 0
        """The thread that waits for workers. 0: none."""
        self._followers: dict[int, threading.Event] = {}
        """Threads that wait for a turn to be taken, or to become the leader; by number of the environment, or ANY."""
        self.verifier = Verifier() if verify else None
        self._penalty = abs(config.format_penalty)
        self._logged: set[str] = set()
        """Stacks of failures that are in the log."""
        self._batch = 0

    # ---- begin

    def begin(
        self, inputs: Mapping[int, Inputs | None], together: bool, waiter: Waiter | None = None
    ) -> list[PendingTurn]:
        """Begin turns, or episodes where the input is None. `together`: the caller waits for all of them."""
        with self.guard:
            if not self.pending.keys().isdisjoint(inputs):
                raise Refused(UNDER_WAY)
            turns = [self.turns[env_id] for env_id in inputs]
            for turn, given in zip(turns, inputs.values(), strict=True):
                turn.inputs, turn.deaths, turn.waiter = given, 0, waiter
                self.pending[turn.slot.env_id] = turn
            self._route(turns, together)
        return turns

    def _route(self, turns: Iterable[PendingTurn], together: bool) -> None:
        """Queue turns for the main process, or send them to the workers in which their environments live."""
        self._batch += 1
        team, orders = self.places.team, dict[int, tuple[int, Order]]()
        for turn in turns:
            slot = turn.slot
            if slot.worker == HERE:
                turn.phase = QUEUED
                continue
            assert team is not None, "a slot lives in a worker"
            if slot.worker not in orders:
                incarnation = team.incarnation(slot.worker)
                orders[slot.worker] = (incarnation, ([], {}, {}, together, self.verifier is not None))
            incarnation, (takes, builds, starts, _, _) = orders[slot.worker]
            if slot.built_in != incarnation:
                builds[slot.env_id], is_live = self.places.recipe(slot)
                slot.built_in, slot.started = incarnation, slot.started if is_live else 0
            if slot.started != slot.serial:
                starts[slot.env_id] = (slot.seed, tuple(slot.executed), slot.digest)
                slot.started = slot.serial
            takes.append((slot.env_id, None if turn.inputs is None else turn.inputs["actions"], slot.actions_left))
            turn.phase, turn.batch = SENT, self._batch
        if team is not None:
            for worker, (_, order) in orders.items():
                team.submit(worker, self._batch, order)

    # ---- wait

    def wait_for(self, turns: Sequence[PendingTurn]) -> None:
        """Wait until all of these are taken. May be interrupted; the next call goes on."""
        self.take_queued(turns)
        for turn in turns:
            while turn.phase is not TAKEN:
                if turn.phase is QUEUED:  # it has lost its worker
                    self.take_queued([turn])
                elif turn.phase is not SENT:
                    raise RolloutError(ABANDONED)
                elif self._leads():
                    try:
                        while turn.phase is SENT:
                            self.pump(3600.0)
                    finally:
                        self._leader = 0
                        self._wake_a_follower()
                else:
                    self.pump(0.0)  # its worker may have to be started, which the leader has not seen
                    self._follow(turn.slot.env_id, [turn], LOOK_S)
        if self._followers and not self._leader:
            self._wake_a_follower()  # this thread may have been asked to lead, and has not

    def wait_for_any(self, turns: Sequence[PendingTurn], wait_s: float) -> None:
        """Wait until one of these may be taken, for `wait_s` seconds at most. May be interrupted; the next call goes on."""
        if self._leads():
            try:
                self.pump(wait_s)
            finally:
                self._leader = 0
                self._wake_a_follower()
        else:
            self._follow(ANY, [turn for turn in turns if turn.phase is not TAKEN], min(wait_s, LOOK_S))

    def _leads(self) -> bool:
        """Whether this thread is the leader, or becomes it."""
        me = threading.get_ident()
        with self.guard:
            if self._leader in (0, me):
                self._leader = me
            return self._leader == me

    def _follow(self, key: int, turns: Sequence[PendingTurn], wait_s: float) -> None:
        """Wait until the leader has something for this thread, or has left."""
        woken = self._followers[key] = threading.Event()
        try:
            if self._leader and all(turn.phase is SENT for turn in turns):
                woken.wait(wait_s)  # not for ever: an interrupt may keep a leader from saying that it leaves
        finally:
            self._followers.pop(key, None)

    def _wake_a_follower(self) -> None:
        with suppress(RuntimeError):  # they change meanwhile, so one is awake
            follower = next(iter(self._followers.values()), None)
            if follower is not None:
                follower.set()

    def pump(self, wait_s: float) -> None:
        """Wait for workers, for `wait_s` seconds at most, and handle what has happened to them.

        May be interrupted while it waits; the next call goes on.
        """
        team = self.places.team
        if team is not None and (busy := team.busy):
            try:
                team.wait(wait_s, spin=busy < self._cores)
            except (ValueError, OSError):
                if team is self.places.team:
                    raise
            with self.guard:
                if team is not self.places.team:  # closed by another thread
                    return
                for event in team.events():
                    if isinstance(event, Answered):
                        for answer in event.value:
                            turn = self.pending.get(answer[0])
                            if turn is not None and turn.phase is SENT and turn.batch == event.key:  # not abandoned
                                self._handle_answer(turn, answer)
                    else:
                        self._handle_death(event)
        if self.verifier is not None:
            self.verifier.check()

    def take_queued(self, turns: Iterable[PendingTurn]) -> None:
        """Take those that are to be taken in the main process, in this thread; or lend them to threads, if they wait."""
        local = self.places.local
        for turn in turns:
            if turn.phase is not QUEUED:
                continue
            if self.places.meters[turn.slot.tag.name].waits and self._lend(turn):
                continue
            result = local.take(turn)  # interrupted here, the turn is still queued
            with self.guard:
                if turn.phase is QUEUED:  # not abandoned by another thread meanwhile
                    turn.slot.started = turn.slot.serial
                    self._finish(turn, result)

    def _lend(self, turn: PendingTurn) -> bool:
        with self.guard:
            if turn.phase is not QUEUED:  # abandoned by another thread meanwhile
                return True
            is_lent = self.places.lend(turn.slot)
            if is_lent:
                self._route([turn], together=False)
            return is_lent

    def _handle_answer(self, turn: PendingTurn, answer: Answer) -> None:
        (_, fields, digest), slot = answer, turn.slot
        if isinstance(fields, str):
            self.places.stay_here(slot, fields)
            if turn.inputs is None:  # no turn was taken yet: it begins once more, in the main process
                turn.phase, turn.deaths = QUEUED, 0
                self._tell(turn)
            else:
                remedy = "return values that can be pickled, or use threads"
                self._finish(turn, TurnResult("", failure=f"{fields}: {remedy}"))
            return
        if isinstance(fields, Episode):
            self.places.take_back(slot, fields)
            turn.phase = QUEUED
            self._tell(turn)
            return
        result = TurnResult._make(fields)
        slot.digest = digest
        if self.verifier is not None and result.failure is None:
            self.verifier.compare(slot, turn.inputs, result)
        self._finish(turn, result)

    def _handle_death(self, event: Died) -> None:
        """Send the turns of a dead worker again, to its successor; end the episode that it keeps dying at."""
        waiting = [t for t in self.pending.values() if t.phase is SENT and t.slot.worker == event.worker]
        is_lost = isinstance(event, Lost)
        self.places.placement.epoch.is_spoiled = True
        if is_lost:
            self.places.leave(event.worker)
        again = []
        for turn in waiting:
            is_blamed = turn.slot.env_id == event.at
            if is_blamed:
                turn.deaths += 1
                turn.slot.tally.timeouts += event.silent
            limit = 1 if is_lost else SILENCES if event.silent else DEATHS
            if turn.deaths >= limit and (is_blamed or is_lost):
                self._finish(turn, TurnResult("", failure=f"its worker {event.cause.partition(';')[0]}"))
            else:
                again.append(turn)
        self._route(again, together=False)
        for turn in again:
            if turn.phase is QUEUED:
                self._tell(turn)

    def _tell(self, turn: PendingTurn) -> None:
        """Wake what waits for this turn: it is taken, or has to be taken by the thread that waits."""
        if turn.waiter is not None:
            turn.waiter.wake()
        if self._followers:
            for key in (turn.slot.env_id, ANY):
                if (woken := self._followers.get(key)) is not None:
                    woken.set()

    def _finish(self, turn: PendingTurn, result: TurnResult) -> None:
        slot = turn.slot
        if result.failure is not None:
            trace = self._new_trace(result)
            log.error("environment %d (%s) cannot go on: %s%s", slot.env_id, slot.tag.name, result.failure, trace)
        slot.write(result, turn.inputs, self._penalty)
        meter = self.places.meters[slot.tag.name]
        if meter.turns or result.seconds > SLOW_S or result.waited > SLOW_S:
            meter.note(result.seconds, result.waited, is_start=turn.inputs is None)
        turn.phase = TAKEN
        if turn.waiter is not None or self._followers:
            self._tell(turn)

    def _new_trace(self, result: TurnResult) -> str:
        """The traceback of a failure, if one with this stack was not logged before."""
        stack = "".join(line for line in result.trace.splitlines() if line.startswith("  "))
        if not stack or stack in self._logged:
            return ""
        self._logged.add(stack)
        return f"\n{result.trace}"

    # ---- the end of turns

    @property
    def receivable(self) -> list[PendingTurn]:
        """Pending turns that `recv` waits for: those of batches that no other call waits for."""
        with self.guard:
            return [turn for turn in self.pending.values() if not turn.is_awaited and not turn.slot.lease]

    def hand_out(self, turns: Sequence[PendingTurn]) -> list[Cache]:
        """The caches of those whose episodes go on; these may be given the next input."""
        caches = []
        with self.guard:
            if any(turn.phase is not TAKEN for turn in turns):
                raise Refused(ABANDONED)
            for turn in turns:
                slot = turn.slot
                del self.pending[slot.env_id]
                if slot.terminated:
                    turn.phase = OVER
                else:
                    turn.phase = READY
                    caches.append(slot.cache)
        return caches

    def abandon(self, env_ids: Iterable[int]) -> None:
        """Forget pending turns of these; answers to them are dropped. Episodes that have a state are READY afterwards."""
        with self.guard:
            for env_id in env_ids:
                turn = self.turns[env_id]
                if turn.phase is SENT:
                    turn.slot.started = 0  # the worker takes the turn all the same
                elif turn.phase is QUEUED:
                    self.places.local.abandon(turn)
                if self.pending.pop(env_id, None) is not None:
                    turn.phase = OVER
                    self._tell(turn)
                    turn = self.turns[env_id] = PendingTurn(turn.slot)
                turn.phase = READY if turn.slot.history and not turn.slot.terminated else OVER

    def end(self, env_id: int) -> None:
        """The episode is over for its caller, in whichever state it is."""
        self.abandon([env_id])
        turn = self.turns[env_id]
        if not turn.slot.terminated:
            turn.slot.terminated = turn.slot.truncated = True
        turn.phase = OVER

    def close(self) -> None:
        """End the workers and close the environments; those who wait for a turn are told."""
        self.abandon(list(self.pending))
        self.places.close()
        if self.verifier is not None:
            self.verifier.close()

    def start_over(self) -> None:
        """After an interrupt inside the guard: new workers, nothing pending."""
        self.pending.clear()
        self.places.start_over()
        self.guard.repair()
