"""Which environments are leased to single episodes, and the callers that wait for one.

    take ──free slot──▶ lease ──close, exception, cancelled task, garbage, idle for too long──▶ free, or the next claim's
      └──none free────▶ claim, first come first served

A lease is a number; `Slot.lease` holds that of its episode. A holder whose number is not there any more has lost its slot.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from abreast.rollouts.config import EpisodesConfig
from abreast.rollouts.episodes.guard import Refused
from abreast.rollouts.episodes.pending import OVER
from abreast.rollouts.episodes.slot import Slot
from abreast.rollouts.episodes.turns import Turns

Held = tuple[Slot, int]
"""A slot, and the number of its lease."""
BATCH = -1
"""Stands for the number of a lease while a reset begins the episodes of a batch."""
LOOK_S = 1.0
"""How often those who wait look for holders that are gone: garbage is not announced."""
SHORT_S = 0.01
"""One look is enough for all who wait within this time: a thousand may wait."""


class Claim:
    """A caller that waits for a slot of a tag."""

    def __init__(self, tag: str, wake: Callable[[], object]) -> None:
        self.tag, self.wake = tag, wake
        self.held: Held | None = None
        """What it was given."""


class Leases:
    """All leases of a manager."""

    def __init__(self, turns: Turns, config: EpisodesConfig) -> None:
        self._turns, self._config = turns, config
        self._tags: dict[str, deque[Slot]] = {}
        """By tag, in the order in which they are looked at."""
        for turn in turns.turns:
            self._tags.setdefault(turn.slot.tag.name, deque()).append(turn.slot)
        self.tags = list(self._tags)
        self._used_at: dict[int, float] = {}
        """By environment: when its lease was last used."""
        self.claims: deque[Claim] = deque()
        self.dropped: deque[Held] = deque()
        """Leases whose holders were garbage. (Appended to at any moment, by any thread, so nothing else happens then.)"""
        self._last = 0
        self._looked_at = 0.0
        self._is_closed = False

    # ---- take and give back

    def take(self, tag: str) -> Held:
        """Lease a slot; waits, or raises, if none is free."""
        event = threading.Event()
        held, claim, end = self._begin(tag, event.set)
        try:
            while held is None:
                event.wait(self._wait_s(end))
                held = self._look_again(claim, end)
            return held
        except BaseException:
            self._withdraw(claim)
            raise

    async def take_async(self, tag: str) -> Held:
        """As `take`, awaitable."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(woken.set)

        held, claim, end = self._begin(tag, wake)
        try:
            while held is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._wait_s(end)):  # `wait_for` of 3.11 may lose a cancellation
                        await woken.wait()
                held = self._look_again(claim, end)
            return held
        except BaseException:  # the task was cancelled, say
            self._withdraw(claim)
            raise

    def give_back(self, held: Held) -> bool:
        """End a lease, whatever state its episode is in; False if it has ended already."""
        slot, lease = held
        with self._turns.guard:
            if slot.lease != lease:
                return False
            slot.lease = 0
            self._used_at.pop(slot.env_id, None)
            self._turns.end(slot.env_id)
            self.offer()
        return True

    def touch(self, held: Held) -> None:
        """The lease is used; raises if it has ended."""
        slot, lease = held
        if slot.lease != lease:
            raise Refused(
                "this episode has ended: it was closed, idle for longer than es_manager.episodes.idle_timeout"
                f" ({self._config.idle_timeout} s), or its manager was reset or closed. Begin another one."
            )
        self._used_at[slot.env_id] = time.monotonic()

    def offer(self) -> None:
        """Give slots that have become free to those who wait for them."""
        if not self.claims:
            return
        with self._turns.guard:
            none_free: set[str] = set()
            for claim in list(self.claims):
                held = None if claim.tag in none_free else self._take(claim.tag)
                if held is None:
                    none_free.add(claim.tag)
                else:
                    self.claims.remove(claim)
                    claim.held = held
                    claim.wake()

    def count(self) -> int:
        """How many leases there are; those that are garbage or idle for too long are taken back first."""
        with self._turns.guard:
            self._reclaim()
            return len(self._used_at)

    def reserve(self, slots: Sequence[Slot]) -> None:
        """For a reset: until `unreserve`, these cannot be leased. Raises if some are leased."""
        with self._turns.guard:
            self._reclaim()
            leased = [str(slot.env_id) for slot in slots if slot.lease > 0]
            if leased:
                some = ", ".join(leased[:5]) + (", …" if len(leased) > 5 else "")
                raise Refused(
                    f"{len(leased)} environments (number {some}) belong to single episodes: close these before a reset, or"
                    " reset others, with env_ids."
                )
            for slot in slots:
                slot.lease = BATCH

    def unreserve(self, slots: Sequence[Slot]) -> None:
        """The reset is over."""
        for slot in slots:
            slot.lease = 0
        self.offer()

    def end_all(self, close: bool) -> None:
        """A reset with an unknown state, or the end of the manager: nothing is leased any more."""
        self._is_closed = close
        for turn in self._turns.turns:
            turn.slot.lease = 0
        self._used_at.clear()
        for claim in list(self.claims):
            claim.wake()

    # ---- inside

    def _begin(self, tag: str, wake: Callable[[], object]) -> tuple[Held | None, Claim, float]:
        config, claim = self._config, Claim(tag, wake)
        end = time.monotonic() + (float("inf") if config.wait_timeout is None else config.wait_timeout)
        with self._turns.guard:
            held = None if any(other.tag == tag for other in self.claims) else self._take(tag)
            if held is None:
                self._reclaim()  # which may serve those who came first
                held = None if any(other.tag == tag for other in self.claims) else self._take(tag)
            if held is None and config.when_full == "refuse":
                raise Refused(f"{self._in_use(tag)} (es_manager.episodes.when_full is refuse).")
            if held is None:
                self.claims.append(claim)
        return held, claim, end

    def _look_again(self, claim: Claim, end: float) -> Held | None:
        """What a claim was given, after a look for leases that are idle for too long."""
        with self._turns.guard:
            if claim.held is None:
                if self._is_closed:
                    raise Refused("the manager is closed: make a new one.")
                if time.monotonic() - self._looked_at > SHORT_S:  # one of those who wait looks for all
                    self._reclaim()
                    self.offer()
                    self._looked_at = time.monotonic()
            if claim.held is None and time.monotonic() >= end:
                waited = f"waited for {self._config.wait_timeout:g} s (es_manager.episodes.wait_timeout)"
                raise Refused(f"{self._in_use(claim.tag)}: {waited}.")
            return claim.held

    def _withdraw(self, claim: Claim) -> None:
        with self._turns.guard:
            if claim in self.claims:
                self.claims.remove(claim)
            if claim.held is not None:
                self.give_back(claim.held)

    def _take(self, tag: str) -> Held | None:
        slots, turns = self._tags[tag], self._turns.turns
        for _ in range(len(slots)):
            slot = slots[0]
            slots.rotate(-1)
            if not slot.lease and turns[slot.env_id].phase is OVER:
                self._last += 1
                slot.lease = self._last
                self._used_at[slot.env_id] = time.monotonic()
                return slot, self._last
        return None

    def _reclaim(self) -> None:
        while self.dropped:
            self.give_back(self.dropped.popleft())
        if self._config.idle_timeout is not None:
            since = time.monotonic() - self._config.idle_timeout
            for env_id in [env_id for env_id, used_at in self._used_at.items() if used_at < since]:
                if not self._is_under_way(env_id):
                    slot = self._turns.turns[env_id].slot
                    self.give_back((slot, slot.lease))

    def _is_under_way(self, env_id: int) -> bool:
        """Whether its holder waits for a turn. (A task that was cancelled has left one that nobody waits for.)"""
        turn = self._turns.pending.get(env_id)
        return turn is not None and (turn.waiter is None or turn.is_awaited)

    def _wait_s(self, end: float) -> float:
        """Until a lease may be idle for too long, or the caller has waited long enough."""
        until = end
        if self._config.idle_timeout is not None:
            used = [used_at for env_id, used_at in self._used_at.copy().items() if not self._is_under_way(env_id)]
            until = min(until, min(used, default=until) + self._config.idle_timeout)
        return min(max(until - time.monotonic(), 2 * SHORT_S), LOOK_S)

    def _in_use(self, tag: str) -> str:
        slots = self._tags[tag]
        leased = sum(1 for slot in slots if slot.lease > 0)
        return (
            f"all {len(slots)} environments of the tag {tag!r} are in use, {leased} by single episodes and"
            f" {len(slots) - leased} by a batch"
        )
