"""Episodes in the main process."""

import threading

from abreast.rollouts.episodes.episode import Episode, TurnResult
from abreast.rollouts.episodes.pending import QUEUED, SILENCES, PendingTurn
from abreast.rollouts.episodes.slot import Slot
from abreast.rollouts.episodes.watchdog import TookTooLong, Watchdog


class LocalEpisodes:
    """The environments that live in the main process, by number."""

    def __init__(self, timeout_s: float | None) -> None:
        self._episodes: dict[int, tuple[int, Episode]] = {}
        """With the thread that made each."""
        self._at_work: dict[int, PendingTurn] = {}
        """Turns that are being taken now, by environment."""
        self._abandoned: dict[int, Episode] = {}
        """By the identity of a turn that is still being taken, but not wanted any more."""
        self.watchdog = Watchdog(timeout_s)

    def take(self, turn: PendingTurn) -> TurnResult:
        """Take a turn, or start an episode. May be interrupted, and called again: the episode is replayed then.

        The caller sets `slot.started` once it has written the result.
        """
        self._at_work[turn.slot.env_id] = turn
        try:
            return self._take_watched(turn) if self.watchdog.watch() else self._try(turn)
        finally:
            if self._at_work.get(turn.slot.env_id) is turn:
                del self._at_work[turn.slot.env_id]
            if self._abandoned and (episode := self._abandoned.pop(id(turn), None)) is not None:
                episode.close()

    def abandon(self, turn: PendingTurn) -> None:
        """A turn is not wanted any more. A thread that is taking it goes on, and then closes the environment."""
        if self._at_work.get(turn.slot.env_id) is turn:
            del self._at_work[turn.slot.env_id]
            _, episode = self._episodes.pop(turn.slot.env_id, (0, None))
            if episode is not None:
                self._abandoned[id(turn)] = episode

    def _take_watched(self, turn: PendingTurn) -> TurnResult:
        watchdog = self.watchdog
        while turn.deaths < SILENCES:
            try:
                watchdog.has_raised, watchdog.allow_s = False, 0.0
                watchdog.at = turn.slot
                result = self._try(turn)
                watchdog.at = None  # as an assignment: within a call the signal could still be handled
                if not watchdog.has_raised:  # the environment may have caught what was raised
                    return result
            except TookTooLong as error:
                watchdog.at = None
                if watchdog not in error.args:
                    raise  # it is meant for a manager whose environment uses this manager
            finally:
                watchdog.at = None
            if turn.phase is not QUEUED:  # abandoned: the slot may have another episode
                break
            self._episodes.pop(turn.slot.env_id, None)  # not closed: that might hang as well
            turn.slot.started = 0
            turn.slot.tally.timeouts += 1
            turn.deaths += 1
        return TurnResult("", failure=f"its turn took longer than {watchdog.timeout_s:g} s")

    def _try(self, turn: PendingTurn) -> TurnResult:
        slot = turn.slot
        if slot.started != slot.serial:
            episode = self._episode(slot)
            if turn.inputs is None:
                return episode.start(slot.seed)
            result = episode.rebuild(slot.seed, slot.executed, slot.digest)
            if result.failure is not None:
                return result
        slot.started = 0  # until the result is written: an interrupted turn leaves the environment in an unknown state
        assert turn.inputs is not None, "an episode is started once"
        return self._episodes[slot.env_id][1].take(turn.inputs["actions"], slot.actions_left)

    def _episode(self, slot: Slot) -> Episode:
        """Its environment; one that another thread has made is made anew, since it may depend on its thread."""
        me = threading.get_ident()
        thread, episode = self._episodes.get(slot.env_id, (me, None))
        if episode is None or thread != me:
            if episode is not None:
                episode.close()
            episode = Episode(slot.tag.kind.env, slot.tag.config, self.watchdog.beat)
            self._episodes[slot.env_id] = (me, episode)
        return episode

    def put(self, slot: Slot, episode: Episode) -> None:
        """An environment that was made here comes back from a thread."""
        episode.beat = self.watchdog.beat
        self._episodes[slot.env_id] = (threading.get_ident(), episode)

    def release(self, slot: Slot) -> Episode | None:
        """The slot moves elsewhere: its environment, if it is in the middle of an episode; else it is closed."""
        _, episode = self._episodes.pop(slot.env_id, (0, None))
        if episode is not None and slot.started != slot.serial:
            episode.close()
            episode = None
        return episode

    def close(self) -> None:
        """Close all environments."""
        self.watchdog.close()
        episodes, self._episodes = self._episodes, {}
        for _, episode in episodes.values():
            episode.close()
