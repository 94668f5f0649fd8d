"""Turns in the main process: they belong to the thread that takes them."""

import threading

from abreast.processes.spans import span
from abreast.rollouts.episodes.episode import Episode, TurnResult
from abreast.rollouts.episodes.slot import Slot
from abreast.rollouts.episodes.watchdog import TookTooLong, Watchdog
from abreast.streams import Draws

SILENCES = 2
"""How often a turn may take too long, here or in a worker, before its episode ends as a failure."""


class MainProcess:
    """Takes turns of environments that live here (`Slot.here`)."""

    def __init__(self, timeout_s: float | None, draws: dict[str, Draws]) -> None:
        self.watchdog = Watchdog(timeout_s)
        self._draws = draws
        self._threads: set[int] = set()
        """Threads that are taking a turn."""

    def take(self, slot: Slot) -> TurnResult:
        """Take a turn, or start an episode. May be interrupted, and called again: the episode is replayed then.

        The caller sets `slot.started` once it has written the result.
        """
        key, watchdog, is_watched, me = slot.key, self.watchdog, self.watchdog.watch(), threading.get_ident()
        slot.at_work, is_alone = key, not self._threads
        self._threads.add(me)
        try:
            while slot.deaths < SILENCES:
                in_step = slot.here if slot.started == slot.serial else None
                episode = in_step or self._episode(slot)
                try:
                    if is_watched:
                        watchdog.has_raised, watchdog.allow_s = False, 0.0
                        watchdog.at = slot
                    result = None if in_step else self._come_in_step(slot, episode)
                    if result is None:
                        slot.started = 0  # until it is written: an interrupted turn leaves an unknown state
                        assert slot.inputs is not None, "its episode has begun here"
                        result = episode.take(slot.inputs["actions"], slot.actions_left)
                    if is_watched:
                        watchdog.at = None  # as an assignment: within a call the signal could still be handled
                    if not is_watched or not watchdog.has_raised:  # the environment may have caught what was raised
                        if is_alone and len(self._threads) == 1:
                            return result
                        return result._replace(waited=0.0)  # they may have waited for each other
                except TookTooLong as error:
                    watchdog.at = None
                    if watchdog not in error.args:
                        raise  # it is meant for a manager whose environment uses this manager
                finally:
                    if is_watched:
                        watchdog.at = None
                    if slot.key != key and slot.here is not episode:  # abandoned: the slot may have another episode
                        episode.close()
                if slot.key != key:
                    break
                slot.here, slot.started = None, 0  # not closed: that might hang as well
                slot.tally.timeouts += 1
                slot.deaths += 1
            return TurnResult("", failure=f"its turn took longer than {watchdog.timeout_s:g} s")
        finally:
            self._threads.discard(me)
            if slot.at_work == key:
                slot.at_work = 0

    def _come_in_step(self, slot: Slot, episode: Episode) -> TurnResult | None:
        """Start its episode, or rebuild it; the result, if it is that of the turn."""
        if slot.inputs is None:
            return episode.start(slot.seed)
        with span("rebuild"):
            rebuilt = episode.rebuild(slot.seed, slot.executed, slot.digest)
        return None if rebuilt.failure is None else rebuilt

    def _episode(self, slot: Slot) -> Episode:
        """Its environment; one that belongs to another thread is made anew."""
        me = threading.get_ident()
        if slot.here is not None and slot.made_by != me and slot.here.is_thread_bound:
            slot.here.close()
            slot.here = None
        if slot.here is None:
            draws, slot.made_by = self._draws[slot.tag.name], me
            slot.here = Episode(slot.tag.kind.env, slot.tag.config, draws, self.watchdog.beat)
        return slot.here

    def abandon(self, slot: Slot) -> None:
        """Its turn is not wanted any more. A thread that is taking it goes on with its environment, and then closes it."""
        if slot.at_work == slot.key:
            slot.here = None
