"""Environments of single episodes: made when they are wanted, kept for the next, so many of a tag at most.

    claim ──one is free, or may be made──▶ slot ──end of the episode, close, garbage, idle for too long──▶ free
      └──es_manager.episodes.max are in use──▶ waits, first come first served, or is refused

A claim is a future, so threads and tasks wait for it in the same way. While some wait, a thread looks after them: it takes
back environments that nobody uses any more, and tells those who have waited long enough. A thread that has begun all
episodes that are in use would wait for itself: it is refused at once.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future

from abreast.errors import RolloutError
from abreast.rollouts.config import EpisodesConfig
from abreast.rollouts.episodes.guard import Refused
from abreast.rollouts.episodes.inputs import Seeds
from abreast.rollouts.episodes.slot import Slot
from abreast.rollouts.episodes.turns import Turns
from abreast.rollouts.episodes.waiting import Job
from abreast.rollouts.registry import Tag
from abreast.rollouts.workers.places import Use

LOOK_S = 0.05
"""How often those who wait are looked after: that an episode is garbage is not announced."""


class Claim(Future[Slot]):
    """A caller that wants an environment of a tag."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self.tag, self.since = tag, time.monotonic()


class Pool:
    """The environments of the single episodes of a manager."""

    def __init__(
        self, turns: Turns, config: EpisodesConfig, tags: Mapping[str, Tag], first_id: int, seeds: Seeds
    ) -> None:
        self.turns, self._config, self._tags, self._seeds = turns, config, tags, seeds
        self._guard, self._slots = turns.guard, turns.places.slots
        self._first_id = first_id
        self._made = dict.fromkeys(tags, 0)
        self._free: dict[str, list[Slot]] = {name: [] for name in tags}
        self.used_at: dict[int, float] = {}
        """By environment that is in use: when it was used last."""
        self._claims: deque[Claim] = deque()
        self.dropped: deque[Slot] = deque()
        """Slots whose episodes were garbage."""
        self._keeper: threading.Thread | None = None
        self._is_closed = False

    # ---- take and give back

    def claim(self, tag: str, blocks: bool) -> Claim:
        """An environment, as soon as one may be had. `blocks`: the calling thread can do nothing else until then."""
        claim = Claim(tag)
        with self._guard:
            if self._is_closed:
                raise Refused("the manager is closed: make a new one.")
            self._take_back()
            is_first = not any(other.tag == tag for other in self._claims)
            if not (is_first and self._serve(claim)):
                self._check_may_wait(tag, blocks)
                self._claims.append(claim)
                if self._keeper is None:
                    self._keeper = threading.Thread(target=self._look_after, name="abreast claims", daemon=True)
                    self._keeper.start()
        return claim

    def withdraw(self, claim: Claim) -> None:
        """Its caller has left."""
        with self._guard:
            if not claim.cancel() and claim.exception() is None:
                self.give_back(claim.result())

    def start(self, slot: Slot, seed: int | None, group_id: int | None, use: Use) -> Job:
        """Begin an episode in an environment that the caller has claimed."""
        self.turns.places.place([slot], use, is_batch=False)
        with self._guard:
            self.touch(slot)
            slot.group_id, slot.begun_by = group_id, threading.get_ident()
            slot.begin(self._seeds.of_single(seed))
            return self.turns.begin({slot: None}, together=True)

    def has(self, slot: Slot) -> bool:
        """Whether this slot is in use."""
        return slot.env_id in self.used_at and self._slots.get(slot.env_id) is slot

    def touch(self, slot: Slot) -> None:
        """The environment is used; raises if it was taken back."""
        if not self.has(slot):
            raise Refused(
                f"the episode of environment {slot.env_id} is over: begin another one."
                if slot.terminated
                else "this episode has ended: it was closed, idle for longer than es_manager.episodes.idle_timeout"
                f" ({self._config.idle_timeout} s), or its manager was reset or closed. Begin another one."
            )
        self.used_at[slot.env_id] = time.monotonic()

    def give_back(self, slot: Slot) -> None:
        """Free the environment, whatever state its episode is in; nothing happens if it is free already."""
        with self._guard:
            if self.has(slot):
                del self.used_at[slot.env_id]
                self.turns.abandon([slot])
                self._free[slot.tag.name].append(slot)
                self._serve_all()

    def count(self) -> int:
        """How many environments are in use; those that are garbage or idle for too long are taken back first."""
        with self._guard:
            self._take_back()
            return len(self.used_at)

    def end_all(self, error: RolloutError | None = None) -> None:
        """A reset with an unknown state, or the end of the manager (an error): no episode goes on."""
        self._is_closed = error is not None
        for env_id in list(self.used_at):
            del self.used_at[env_id]
            slot = self._slots[env_id]
            self._free[slot.tag.name].append(slot)
        while error is not None and self._claims:
            claim = self._claims.popleft()
            if claim.set_running_or_notify_cancel():
                claim.set_exception(error)

    # ---- inside

    def _serve(self, claim: Claim) -> bool:
        """Give a claim an environment, if one may be had."""
        tag, free = self._tags[claim.tag], self._free[claim.tag]
        if not free and self._made[claim.tag] >= self._config.max:
            return False
        if not claim.set_running_or_notify_cancel():  # its caller has left
            return True
        if free:
            old = free.pop()
            slot = Slot(old.env_id, None, tag, is_single=True)
            slot.takes_over(old)
        else:
            slot = Slot(self._first_id + sum(self._made.values()), None, tag, is_single=True)
            self._made[claim.tag] += 1
        self._slots[slot.env_id] = slot
        self.used_at[slot.env_id] = time.monotonic()
        claim.set_result(slot)
        return True

    def _serve_all(self) -> None:
        """Give environments that have become free to those who wait for them."""
        none_free: set[str] = set()
        for claim in list(self._claims):
            if claim.tag not in none_free and self._serve(claim):
                self._claims.remove(claim)
            else:
                none_free.add(claim.tag)

    def _take_back(self) -> None:
        """Free environments of episodes that are garbage, or idle for too long."""
        while self.dropped:
            self.give_back(self.dropped.popleft())
        if self._config.idle_timeout is not None:
            since = time.monotonic() - self._config.idle_timeout
            for env_id in [env_id for env_id, used_at in self.used_at.items() if used_at < since]:
                slot = self._slots[env_id]
                if env_id not in self.turns.pending or not slot.job.is_waited:
                    self.give_back(slot)

    def _check_may_wait(self, tag: str, blocks: bool) -> None:
        if self._config.when_full == "refuse":
            raise Refused(
                f"{self._full(tag)} (es_manager.episodes.when_full is refuse): close one, or raise episodes.max."
            )
        owners = {slot.begun_by for slot in map(self._slots.__getitem__, self.used_at) if slot.tag.name == tag}
        if blocks and owners == {threading.get_ident()} and self._config.wait_timeout is None:
            raise Refused(
                f"{self._full(tag)}, all by this thread, which would wait for itself: close one first, or raise"
                " es_manager.episodes.max."
            )

    def _full(self, tag: str) -> str:
        return f"all {self._config.max} environments that single episodes of the tag {tag!r} may have are in use"

    def _look_after(self) -> None:
        """What the thread does."""
        while True:
            time.sleep(LOOK_S)
            with self._guard:
                self._take_back()
                self._serve_all()
                self._end_claims()
                if not self._claims:
                    self._keeper = None
                    return

    def _end_claims(self) -> None:
        """Forget callers that have left, and tell those that have waited for as long as they may."""
        timeout, now = self._config.wait_timeout, time.monotonic()
        for claim in list(self._claims):
            has_waited = timeout is not None and now - claim.since >= timeout
            if has_waited and claim.set_running_or_notify_cancel():
                claim.set_exception(
                    RolloutError(
                        f"{self._full(claim.tag)}: waited for {timeout:g} s (es_manager.episodes.wait_timeout)."
                    )
                )
            if claim.done():
                self._claims.remove(claim)
