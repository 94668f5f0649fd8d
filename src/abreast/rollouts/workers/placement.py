"""Where environments live: measured, so that a batch is never slower than one environment after the other.

    in the main process      cheap ones: a message costs more than their turn
    in the workers           dear ones, spread so that every worker has as much to do, and enough to be woken for

A batch in workers takes about  overhead + (time of all turns) / workers.  The overhead is measured too, and so is what the
same turns take in the main process: `auto` moves environments when twenty batches say that it pays, and back when not.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from statistics import median
from typing import Literal

from abreast.processes.cores import cores

SMOOTHING = 0.2
"""Weight of a new measurement in a running mean."""
CHEAP_S = 10e-6
"""Turns shorter than this are never worth a message."""
TOLL_S = 4e-6
"""What a turn costs the main process when it is taken elsewhere: to ask for it, and to hear of it."""
MESSAGE_S = 150e-6
"""First guess of the overhead of a batch, per worker."""
GAIN = 0.78
"""Environments go to workers when a batch is expected to take less than this share of its sequential time …"""
LOSS = 0.97
"""… and come back when it takes more than this share."""
WORTH_S = 0.0003
"""A batch has to gain this much for workers to be started."""
SETTLING = 3
"""Batches after a move that tell nothing about those to come."""
ENOUGH, LONG_S = 20, 0.03
"""Batches, or seconds of them, that tell whether workers are worth it: first turns may be unlike later ones."""
LOSSES = 2
"""How often in a row they have to be none before environments come back."""
HICCUP = 3
"""A batch that takes so many times what it should is the machine's fault: more than that is not held against workers."""
FORGETTING = 0.03
"""How much of a bad experience with workers is forgotten every so many batches."""
PATIENCE = 50
"""Batches within which playing episodes again, elsewhere, has to pay."""
SHARE_S = 200e-6
"""Work a worker should have in a batch: for less, waking another costs more than it gains."""
EPISODE_TURNS, UNKNOWN_S = 10, 50e-6
"""Turns an episode is taken to have, and what they are taken to cost, until some have been seen."""

Use = bool | Literal["auto"]
Seconds = Mapping[str, Sequence[float]]
"""What something took, each time, by tag."""


@dataclass
class _Past:
    """What some batches took together, or would take."""

    batches: int = 0
    wall_s: float = 0.0
    alone_s: float = 0.0
    """What they take one environment after the other …"""
    best_s: float = 0.0
    """… and in workers without any overhead."""


class Placement:
    """Measures turns and batches; says which tags go to workers, and who goes where."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._cores = cores()
        self._turn_s: dict[str, float] = {}
        self._start_s: dict[str, float] = {}
        """What turns, and the beginnings of episodes, take, by tag …"""
        self._turn_here_s: dict[str, float] = {}
        self._start_here_s: dict[str, float] = {}
        """… and what they took in the main process, where caches are warm."""
        self._starts_s = 0.0
        """What a whole reset takes, one environment after the other."""
        self._books_s = 0.0
        """What it takes to write down a turn, wherever it was taken."""
        self._batches = 0
        self._episode_turns = EPISODE_TURNS
        self._overhead_s = MESSAGE_S * min(workers, self._cores)
        self._required_gain = GAIN
        self._past = _Past()
        self._settling = 0
        self._losses = 0
        self.dear: frozenset[str] = frozenset()
        """Tags that go to workers under auto."""

    # ---- what is measured

    def note_turns(self, turns: Seconds) -> None:
        """Take in what turns took."""
        for tag, seconds in turns.items():
            _smooth(self._turn_s, tag, seconds)

    def note_starts(self, starts: Seconds, wall_s: float | None) -> None:
        """Take in what it took to begin episodes, one by one and, under auto, all of them.

        Of these the newest count: the first of all took imports, too.
        """
        self._starts_s = 0.0
        for tag, seconds in starts.items():
            self._start_s[tag] = median(seconds)
            self._starts_s += self._start_s[tag] * len(seconds)
            if tag not in self.dear and wall_s is not None:
                self._start_here_s[tag] = self._start_s[tag]
        if self.dear and not self._settling and wall_s is not None:
            self._look_back(starts, wall_s, self._start_here_s)

    def note_batch(self, turns: Seconds, wall_s: float | None, turns_so_far: int) -> None:
        """Take in a whole batch under auto, and think again which tags should go to workers, or come back from them.

        `wall_s` is what the batch took, if it was waited for as a whole. Whoever moves in the middle of an episode has to
        play it again: that has to pay, too.
        """
        self._batches += 1
        spent = sum(map(sum, turns.values()))
        if not self.dear and spent + self._starts_s / self._episode_turns < WORTH_S:
            return  # there is nothing to gain, and reckoning would take longer than some batches do
        for tag in turns.keys() - self.dear:
            _smooth(self._turn_here_s, tag, turns[tag])
        if not self.dear:
            if wall_s is not None:
                books = max(0.0, wall_s - spent) / sum(map(len, turns.values()))
                self._books_s += SMOOTHING * (books - self._books_s)
            self._look_ahead(turns, turns_so_far)
        elif self._settling:  # workers start, environments are rebuilt
            self._settling -= 1
        elif wall_s is not None:
            self._look_back(turns, wall_s, self._turn_here_s)

    # ---- who goes to workers under auto

    def _look_ahead(self, turns: Seconds, turns_so_far: int) -> None:
        """Send tags to workers if some batches say that it is worth it, or a long one."""
        dear = frozenset(tag for tag in turns if self._cost(tag) > CHEAP_S)
        if not dear:
            return
        costs = [seconds + self._share_of_start(tag) for tag in dear for seconds in turns[tag]]
        self._past.batches += 1
        self._past.alone_s += sum(costs) + len(costs) * self._books_s
        self._past.best_s += self._best(costs) + len(costs) * (self._books_s + TOLL_S)
        batches, spent = self._past.batches, self._past.alone_s
        if batches < ENOUGH and spent < LONG_S:
            return
        expected = self._overhead_s * batches + self._past.best_s
        is_paid = turns_so_far * spent < PATIENCE * (spent - expected) * self._parallelism_for(spent / batches)
        if expected < self._required_gain * spent and spent - expected > WORTH_S * batches and is_paid:
            self.dear, self._past, self._settling = dear, _Past(), SETTLING
        elif batches >= ENOUGH:  # a bad moment of the machine is forgotten in the end
            self._past = _Past()
            self._overhead_s += FORGETTING * (MESSAGE_S * min(self.workers, self._cores) - self._overhead_s)
            self._required_gain += FORGETTING * (GAIN - self._required_gain)

    def _look_back(self, taken: Seconds, wall_s: float, here_s: Mapping[str, float]) -> None:
        """Keep what a batch took in workers, and what it would have taken here, by what the like took here."""
        abroad = [seconds for tag in self.dear for seconds in taken.get(tag, ())]
        if not abroad:
            return
        here = sum(sum(each) for tag, each in taken.items() if tag not in self.dear)
        here += self._books_s * sum(map(len, taken.values()))
        known = sum(len(taken[tag]) * here_s.get(tag, float("inf")) for tag in self.dear & taken.keys())
        alone = here + min(sum(abroad), known)
        self._past.batches += 1
        self._past.alone_s += alone
        self._past.best_s += here + self._best(abroad)
        self._past.wall_s += min(wall_s, HICCUP * alone)

    def begin_episodes(self) -> None:
        """All are about to be reset, so moving is free: what was not worth it comes back, what has become dear goes."""
        self._episode_turns, self._batches = self._batches or self._episode_turns, 0
        if not self.dear:
            return
        if self._past.batches >= ENOUGH:
            past, self._past = self._past, _Past()
            self._overhead_s += (max(past.wall_s - past.best_s, 0.0) / past.batches - self._overhead_s) / 2
            self._losses = self._losses + 1 if past.wall_s > LOSS * past.alone_s else 0
        if self._losses < LOSSES:
            self.dear |= {tag for tag in self._turn_s if self._cost(tag) > CHEAP_S}
        else:
            self.dear, self._losses = frozenset(), 0
            self._required_gain *= 0.8  # the next time workers have to promise more

    def _best(self, turns: Sequence[float]) -> float:
        """What these turns take in workers if nothing else takes time."""
        return max(sum(turns) / self._parallelism_for(sum(turns)), *turns)

    def _cost(self, tag: str) -> float:
        """What a turn of it takes, with its share of what it takes to begin an episode."""
        return self._turn_s.get(tag, UNKNOWN_S) + self._share_of_start(tag)

    def _share_of_start(self, tag: str) -> float:
        return self._start_s.get(tag, 0.0) / self._episode_turns

    # ---- how many workers, and which

    def _workers_for(self, work_s: float) -> int:
        """How many workers are worth waking for so much work in a batch."""
        return min(self.workers, max(1, round(work_s / SHARE_S)))

    def _parallelism_for(self, work_s: float) -> int:
        return min(self._workers_for(work_s), self._cores)

    def spread(self, tags: Mapping[int, str], now: Mapping[int, int], lost: Set[int]) -> dict[int, int]:
        """A worker for each environment, so that all have as much to do, and enough. Nobody moves if that is nearly so.

        Workers that are lost get nothing; without any left, nobody has one.
        """
        living = [worker for worker in range(self.workers) if worker not in lost]
        if not tags or not living:
            return {}
        costs = {env_id: self._cost(tag) for env_id, tag in tags.items()}
        is_known = self._turn_s.keys() >= set(tags.values())
        homes = {env_id: now[env_id] for env_id in tags if now.get(env_id) in living}
        most = min(len(living), len(tags))
        if len(homes) < len(tags) or not self._is_fine(_loads(homes, costs), most, costs, is_known):
            wanted = self._workers_for(sum(costs.values())) if is_known else self.workers
            homes = _share_out(costs, living[:wanted])
        return homes

    @staticmethod
    def _is_fine(loads: Sequence[float], most: int, costs: Mapping[int, float], is_known: bool) -> bool:
        """Whether workers with these loads, `most` at most, are about as many as there is work for, and their loads even."""
        mean = sum(loads) / len(loads)
        if max(loads) > 1.2 * mean + max(costs.values()):
            return False
        if not is_known:
            return len(loads) == most
        return (len(loads) == most or mean <= 2 * SHARE_S) and (len(loads) == 1 or mean >= SHARE_S / 2)


def _smooth(means: dict[str, float], tag: str, seconds: Sequence[float]) -> None:
    """Take new measurements into a running mean."""
    mean = sum(seconds) / len(seconds)
    means[tag] = means.get(tag, mean) + SMOOTHING * (mean - means.get(tag, mean))


def _loads(homes: Mapping[int, int], costs: Mapping[int, float]) -> list[float]:
    """What each worker that has something to do has to do."""
    loads: defaultdict[int, float] = defaultdict(float)
    for env_id, worker in homes.items():
        loads[worker] += costs[env_id]
    return list(loads.values())


def _share_out(costs: Mapping[int, float], workers: Sequence[int]) -> dict[int, int]:
    """The dearest first, each to the worker that has least to do."""
    loads, homes = dict.fromkeys(workers, 0.0), {}
    for env_id in sorted(costs, key=lambda env_id: (-costs[env_id], env_id)):
        worker = homes[env_id] = min(loads, key=loads.__getitem__)
        loads[worker] += costs[env_id]
    return homes
