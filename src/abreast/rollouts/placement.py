"""Where environments live: measured, so that a batch is never slower than one environment after the other.

    in the main process      cheap ones: a message costs more than their turn
    in the workers           dear ones, spread so that every worker has as much to do

A batch in workers takes about  overhead + (time of all turns) / workers.  The overhead is measured too.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Literal

SMOOTHING = 0.3
"""Weight of a new measurement in a running mean."""
CHEAP_S = 50e-6
"""Turns shorter than this are never worth a message."""
GAIN = 0.85
"""Environments go to workers when a batch is expected to take less than this share of its sequential time …"""
LOSS = 0.97
"""… and come back when it takes more than this share."""
WORTH_S = 0.0003
"""A batch has to gain this much for workers to be started."""
SETTLING = 3
"""Batches after a move that tell nothing about those to come."""
PATIENCE = 50
"""Batches within which playing episodes again, elsewhere, has to pay."""
MESSAGE_S = 100e-6
"""First guess of the overhead of a batch, per worker."""

Use = bool | Literal["auto"]


class Placement:
    """Measures turns and batches; says which tags go to workers, and who goes where."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._parallelism = min(workers, os.cpu_count() or 1)
        self._turn_s: dict[str, float] = {}
        self._overhead_s = MESSAGE_S * self._parallelism
        self._share: float | None = None
        self._settling = 0
        self._required_gain = GAIN
        self.dear: frozenset[str] = frozenset()
        """Tags that go to workers under auto."""

    def note_turns(self, turns: Mapping[str, Sequence[float]]) -> None:
        """Take in the seconds of turns, by tag."""
        for tag, seconds in turns.items():
            mean = sum(seconds) / len(seconds)
            before = self._turn_s.get(tag, mean)
            self._turn_s[tag] = before + SMOOTHING * (mean - before)

    def note_batch(self, turns: Mapping[str, Sequence[float]], wall_s: float | None, turns_so_far: int) -> None:
        """Take in a whole batch, and think again which tags should go to workers, or come back from them.

        `wall_s` is what the batch took, if it was waited for as a whole. Whoever moves in the middle of an episode has to
        play it again: that has to pay, too.
        """
        if self.dear:
            if wall_s is not None:
                self._look_back(turns, wall_s)
            return
        dear = frozenset(tag for tag in turns if self._turn_s[tag] > CHEAP_S)
        if not dear or self._parallelism < 2:
            return
        spent = sum(sum(turns[tag]) for tag in dear)
        expected = self._overhead_s + max(spent / self._parallelism, *(max(turns[tag]) for tag in dear))
        is_paid = turns_so_far * spent < PATIENCE * (spent - expected) * self._parallelism
        if expected < self._required_gain * spent and spent - expected > WORTH_S and is_paid:
            self.dear, self._share, self._settling = dear, None, SETTLING

    def _look_back(self, turns: Mapping[str, Sequence[float]], wall_s: float) -> None:
        """Whether workers were worth it; if not, environments come back with the next reset."""
        in_workers = [seconds for tag in self.dear for seconds in turns.get(tag, ())]
        if sum(in_workers) <= 0:
            return
        if self._settling:  # workers start, environments are rebuilt
            self._settling -= 1
            return
        spent, alone = sum(in_workers), sum(sum(each) for tag, each in turns.items() if tag not in self.dear)
        overhead = wall_s - alone - max(spent / self._parallelism, *in_workers)
        self._overhead_s += SMOOTHING * (max(overhead, 0.0) - self._overhead_s)
        share = wall_s / (spent + alone)
        self._share = share if self._share is None else self._share + SMOOTHING * (share - self._share)

    def begin_episodes(self) -> None:
        """All environments are about to be reset: the time to take back what was not worth it."""
        if self._share is not None and self._share > LOSS:
            self.dear, self._share = frozenset(), None
            self._required_gain *= 0.7  # the next time workers have to promise more

    def spread(self, tags: Mapping[int, str], now: Mapping[int, int]) -> dict[int, int]:
        """A worker for each environment, so that all have as much to do; nobody moves while that is nearly so."""
        cost = {env_id: self._turn_s.get(tag, CHEAP_S) for env_id, tag in tags.items()}
        loads = [0.0] * self.workers
        for env_id, worker in now.items():
            if env_id in tags:
                loads[worker] += cost[env_id]
        if tags.keys() <= now.keys() and max(loads) <= 1.2 * sum(loads) / self.workers + max(cost.values(), default=0):
            return {env_id: now[env_id] for env_id in tags}
        loads = [0.0] * self.workers
        homes = {}
        for env_id in sorted(tags, key=lambda env_id: (-cost[env_id], env_id)):
            homes[env_id] = loads.index(min(loads))
            loads[homes[env_id]] += cost[env_id]
        return homes
