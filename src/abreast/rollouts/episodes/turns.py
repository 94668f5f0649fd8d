"""The turns that are pending, from the input to the written result, whatever happens to the workers meanwhile.

begin ──▶ pending: one record per turn ──QUEUED──▶ taken in the main process ──▶ Slot.write ──TAKEN──▶ hand_out
                                       └──SENT──▶ team.submit … team.events ──────▲

An environment is (type, configuration, seed, executed actions), and lives in one process. If that process is gone, the
next order to its successor says how to rebuild it; a digest of an earlier state tells whether that has worked. Nothing is
rebuilt before it is needed, and a death resets nothing here: `Slot.built_in` then differs from the worker's incarnation.
"""

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from abreast.processes.cores import cores
from abreast.processes.team import Answered, Died, Lost
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.episodes.episode import TurnResult
from abreast.rollouts.episodes.guard import Guard
from abreast.rollouts.episodes.pending import DEATHS, OVER, QUEUED, READY, SENT, SILENCES, TAKEN, PendingTurn
from abreast.rollouts.episodes.slot import HERE, Cache, Slot
from abreast.rollouts.episodes.verifier import Verifier
from abreast.rollouts.workers.messages import Answer, Order
from abreast.rollouts.workers.placement import PlacementRules
from abreast.rollouts.workers.places import Places

log = logging.getLogger("abreast")

Inputs = Mapping[str, Any]


class Turns:
    """All turns of a manager. Only this class changes the phase of a turn."""

    def __init__(self, slots: Sequence[Slot], config: ManagerConfig, verify: bool, rules: PlacementRules) -> None:
        self.guard = Guard()
        """Around everything that changes records, slots or the team: interrupted there, only `reset` and `close` work."""
        self._cores = cores()
        workers = min(config.max_workers or min(8, self._cores), len(slots))
        self.places = Places(slots, config, workers, rules, self.guard)
        self.turns = [PendingTurn(slot) for slot in slots]
        """By number of the environment."""
        self.pending: dict[int, PendingTurn] = {}
        """Those that are QUEUED, SENT or TAKEN, in the order in which they were begun."""
        self._queue: deque[PendingTurn] = deque()
        """Those that are QUEUED."""
        self.verifier = Verifier() if verify else None
        self._penalty = abs(config.format_penalty)
        self._batch = 0

    # ---- begin

    def begin(self, inputs: Mapping[int, Inputs | None], together: bool) -> list[PendingTurn]:
        """Begin turns, or episodes where the input is None. `together`: the caller waits for all of them."""
        turns = [self.turns[env_id] for env_id in inputs]
        with self.guard:
            for turn, given in zip(turns, inputs.values(), strict=True):
                turn.inputs, turn.deaths, turn.moved, turn.waiter = given, 0, "", None
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
                self._queue.append(turn)
                continue
            assert team is not None, "a slot lives in a worker"
            if slot.worker not in orders:
                incarnation = team.incarnation(slot.worker)
                orders[slot.worker] = (incarnation, ([], {}, together, self.verifier is not None))
            incarnation, (takes, rebuilds, _, _) = orders[slot.worker]
            if slot.built_in != incarnation or slot.started != slot.serial:  # not in step
                recipe = None if slot.built_in == incarnation else self.places.recipes[slot.tag.name]
                rebuilds[slot.env_id] = (recipe, slot.seed, tuple(slot.executed), slot.digest)
                slot.built_in, slot.started = incarnation, slot.serial
            takes.append((slot.env_id, None if turn.inputs is None else turn.inputs["actions"], slot.actions_left))
            turn.phase, turn.batch = SENT, self._batch
        if team is not None:
            for worker, (_, order) in orders.items():
                team.submit(worker, self._batch, order)

    # ---- wait

    def wait_for(self, turns: Iterable[PendingTurn]) -> None:
        """Wait until all of these are taken."""
        for turn in turns:
            while turn.phase is not TAKEN:
                self.pump(3600.0)

    def pump(self, wait_s: float) -> None:
        """Take what is queued; else wait for workers, for `wait_s` seconds at most, and handle what has happened to them.

        May be interrupted while it waits or takes a turn; the next call goes on.
        """
        has_taken = self._take_queued()
        team = self.places.team
        if team is not None and (busy := team.busy):
            if not has_taken:
                team.wait(wait_s, spin=busy < self._cores)
            with self.guard:
                for event in team.events():
                    if isinstance(event, Answered):
                        for answer in event.value:
                            self._handle_answer(answer)
                    else:
                        self._handle_death(event)
            self._take_queued()  # those that have lost their worker
        if self.verifier is not None:
            self.verifier.check()

    def _take_queued(self) -> bool:
        if not self._queue:
            return False
        local = self.places.local
        local.watchdog.watch()
        while self._queue:
            turn = self._queue[0]
            result = local.take(turn)  # interrupted here, the turn is still queued
            with self.guard:
                turn.slot.started = turn.slot.serial
                self._finish(turn, result)
                self._queue.popleft()
        return True

    def _handle_answer(self, answer: Answer) -> None:
        env_id, fields, digest = answer
        turn = self.pending[env_id]
        slot = turn.slot
        if fields is None:
            turn.moved = "it, or what it returns, cannot be pickled: it lives in the main process from here on"
            log.warning("environment %d (%s): %s", env_id, slot.tag.name, turn.moved)
            self.places.stay_here(slot)
            turn.phase, turn.deaths = QUEUED, 0
            self._queue.append(turn)
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

    def _finish(self, turn: PendingTurn, result: TurnResult) -> None:
        slot = turn.slot
        if result.failure is not None:
            log.error("environment %d (%s) cannot go on: %s", slot.env_id, slot.tag.name, result.failure)
        if turn.moved:
            result = result._replace(info={**result.info, "moved": turn.moved})
        slot.write(result, turn.inputs, self._penalty)
        turn.phase = TAKEN
        if turn.waiter is not None:
            turn.waiter.taken()

    # ---- the end of turns

    def taken(self) -> list[PendingTurn]:
        """Turns that `recv` may hand out."""
        return [turn for turn in self.pending.values() if turn.phase is TAKEN and not turn.is_awaited]

    def hand_out(self, turns: Iterable[PendingTurn]) -> list[Cache]:
        """The caches of those whose episodes go on; these may be given the next input."""
        caches = []
        with self.guard:
            for turn in turns:
                slot = turn.slot
                del self.pending[slot.env_id]
                if slot.terminated:
                    turn.phase = OVER
                else:
                    turn.phase = READY
                    caches.append(slot.cache)
        return caches

    def abandon(self) -> None:
        """Forget the pending turns; answers to them are dropped. Episodes that have a state are READY afterwards."""
        with self.guard:
            for turn in self.pending.values():
                if turn.phase is SENT and self.places.team is not None:
                    self.places.team.forget(turn.slot.worker, turn.batch)
                    turn.slot.started = 0  # the worker takes the turn all the same
            self.pending.clear()
            self._queue.clear()
            for turn in self.turns:
                turn.phase = READY if turn.slot.history and not turn.slot.terminated else OVER

    def close(self) -> None:
        """End the workers and close the environments."""
        self.places.close()
        if self.verifier is not None:
            self.verifier.close()

    def start_over(self) -> None:
        """After an interrupt inside the guard: new workers, nothing pending."""
        self.pending.clear()
        self._queue.clear()
        self.places.start_over()
        self.guard.repair()
