"""What the turns of a tag take, measured as the first are taken; where its environments should live follows from that.

    waits (less than a quarter of a turn is CPU time)     in threads, at once
    computes, and workers gain enough by it               in worker processes, from the next reset on
    anything else                                         in the main process

A tag is timed once. Workers that a formula predicts to be faster are then tried for some epochs, and kept if they were:
other programs may want the cores, too. Who knows better says so with es_manager.use_multiprocessing.
"""

import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from abreast.rollouts.episodes.episode import SLOW_S, TurnResult

WAIT_SHARE = 0.75
"""A turn waits if its CPU share is below a quarter: a request over a network with its parsing is, a computation is not."""
SURE_S, SURE_TURNS = 0.02, 3
"""Turns that wait for less than this are believed after three of them: another thread may have held the interpreter."""
WINDOW, SATURATED = 16, 0.45
"""If of so many turns in threads the CPU time is more than this share of the time from the begin of the first to the end
of the last, they wait for each other, not for anything outside. (It is between a half and 1 then: the first turn began
before the others.)"""
MOST_TRIALS = 3
"""So often at most: a machine with more to do than cores makes turns look as if they computed."""
MOST_TURNS, NEWEST = 1024, 256
"""After so many turns a tag is timed, however little time they took; the newest of them count."""
EPOCHS = 3
"""So many epochs (all episodes between two resets) are measured of a number of workers. The fastest counts: disturbances
only ever add time."""


@dataclass(frozen=True)
class PlacementRules:
    """The constants of placement, with where they come from (two cores, Python 3.11)."""

    turn_message_s: float = 4e-6
    """What one turn costs when it is taken in a worker, beside the turn itself: 2.5 µs measured, and a reserve."""
    order_s: float = 50e-6
    """What one order to one worker costs beside its turns: 16 environments of 0 µs took 90 µs a batch longer in one worker
    than in the main process, and 140 µs longer in two."""
    cheap_turn_s: float = 25e-6
    cheap_start_s: float = 2e-3
    """Environments whose turns and starts are cheaper than this stay in the main process under `auto`: moved for the sake of
    their resets, 1,024 Sokoban rooms (10 µs, 0.4 ms) took 20 to 60 ms a batch in workers against 14 to 16."""
    gain: float = 0.8
    """Workers are used under `auto` if they are predicted to take at most this share of the time, and environments of
    workers are dealt out anew for as much. Predictions were up to 15 % too low in benchmarks/rollouts.py."""
    worth_s: float = 300e-6
    """A batch has to gain this much, or no workers are started: that takes up to 1.4 s."""
    enough_s: float = 0.05
    """Seconds of turns before a tag is timed: the first are slow. Countdown took 110 µs a turn in its first epoch and 50
    later; judged by the first alone, workers (75) were kept."""


class Cost(NamedTuple):
    """What was measured of a tag."""

    turn_s: float
    start_s: float
    turns: float
    """Per episode."""

    @property
    def slot_s(self) -> float:
        """What the start and the turns of an episode take."""
        return self.start_s + self.turn_s * self.turns


class Timing:
    """Of one tag."""

    def __init__(self, enough_s: float) -> None:
        self._enough_s = enough_s
        self.is_open = True
        """Whether turns are still to be noted; later on, only slow ones are."""
        self.cost: Cost | None = None
        """None until it is timed."""
        self.waits = False
        """Whether threads are the place for it."""
        self._turns: deque[float] = deque(maxlen=NEWEST)
        self._starts: deque[float] = deque(maxlen=NEWEST)
        self._counts = [0, 0]
        """Turns and starts so far."""
        self._spent_s = 0.0
        self._waits_in_a_row = 0
        self._trials = 0
        """How often threads were tried, and only waited for each other."""
        self._in_threads: deque[tuple[float, float]] = deque(maxlen=WINDOW)
        """Of the newest turns there: when it began, and its CPU time."""

    def note(self, result: TurnResult, is_start: bool) -> None:
        """A turn, or the start of an episode, was taken."""
        seconds = max(result.seconds, result.waited)
        if self.is_open:
            (self._starts if is_start else self._turns).append(result.seconds)
            self._counts[is_start] += 1
            self._spent_s += result.seconds
            if self._turns and (self._spent_s >= self._enough_s or self._counts[0] >= MOST_TURNS):
                self._close()
        if self.waits:
            self._look_whether_they_wait_for_each_other(seconds, result.waited)
        elif seconds >= SLOW_S and result.waited > WAIT_SHARE * seconds:
            self._waits_in_a_row += 1
            enough = self._waits_in_a_row >= SURE_TURNS or seconds >= SURE_S
            self.waits = enough and self._trials < MOST_TRIALS
        elif not is_start:  # that a start computes says nothing about turns
            self._waits_in_a_row = 0

    def _close(self) -> None:
        turns, starts = self._counts
        self.cost = Cost(median(self._turns), median(self._starts or [0.0]), turns / max(starts, 1))
        self.is_open = False

    def _look_whether_they_wait_for_each_other(self, seconds: float, waited: float) -> None:
        now, turns = time.perf_counter(), self._in_threads
        turns.append((now - seconds, seconds - waited))
        if len(turns) == WINDOW and sum(cpu_s for _, cpu_s in turns) > SATURATED * (now - turns[0][0]):
            self.waits, self._waits_in_a_row = False, 0
            self._trials += 1
            turns.clear()

    @property
    def compute_s(self) -> float:
        """What a turn takes, if it computes, and that is known."""
        return 0.0 if self.cost is None or self.waits else self.cost.turn_s


class Trials:
    """What epochs of the whole batch took with each number of workers."""

    def __init__(self) -> None:
        self.count = 0
        """How many are in use."""
        self._basis: tuple[object, ...] = ()
        self._measured: dict[int, list[float]] = {}
        """Seconds per turn."""
        self._seconds, self._turns, self._has_moved = 0.0, 0, True

    def add(self, seconds: float, turns: int) -> None:
        """A call has waited so long for so many turns."""
        self._seconds, self._turns = self._seconds + seconds, self._turns + turns

    def choose(self, basis: tuple[object, ...], candidates: Sequence[int], known: Mapping[int, float]) -> int:
        """At a reset: the first that was not measured often enough, else the fastest. Another basis, and all begins anew.

        `known`: seconds per turn of numbers that need not be measured.
        """
        if basis != self._basis:
            self._basis, self._measured = basis, {}
        elif self._turns and not self._has_moved:  # in its first epoch, environments are made
            self._measured.setdefault(self.count, []).append(self._seconds / self._turns)
        self._seconds, self._turns = 0.0, 0
        untried = [c for c in candidates if c not in known and len(self._measured.get(c, ())) < EPOCHS]
        fastest = min(candidates, key=lambda count: known.get(count) or min(self._measured.get(count, [0.0])))
        chosen = untried[0] if untried else fastest
        self._has_moved, self.count = chosen != self.count, chosen
        return chosen


def best_count(costs: Sequence[Cost | None], most: int, rules: PlacementRules, is_auto: bool) -> int:
    """How many workers to use for environments with these costs; 0: none. As long as a cost is not known: all, or none."""
    known = [cost for cost in costs if cost is not None]
    if not known or not most:
        return 0 if is_auto else most
    best = min(range(1, most + 1), key=lambda count: away_s(known, count, rules))
    here_s, best_s = sum(cost.slot_s for cost in known), away_s(known, best, rules)
    turns = max(cost.turns for cost in known)
    if is_auto and (best_s > rules.gain * here_s or here_s - best_s < rules.worth_s * turns):
        return 0
    return best


def away_s(costs: Sequence[Cost], count: int, rules: PlacementRules) -> float:
    """Seconds that an epoch of environments with these costs is predicted to take in so many workers."""
    messages = sum(cost.turns + 1 for cost in costs)
    orders = min((max(cost.turns for cost in costs) + 1) * count, messages)
    compute_s = max(sum(cost.slot_s for cost in costs) / count, *(cost.slot_s for cost in costs))
    return compute_s + orders * rules.order_s + messages * rules.turn_message_s


def is_cheap(cost: Cost, rules: PlacementRules) -> bool:
    """Whether its turns and starts take hardly longer than the messages about them."""
    return cost.turn_s < rules.cheap_turn_s and cost.start_s < rules.cheap_start_s


def deal_out(
    costs: Mapping[int, float], workers: Collection[int], places: Mapping[int, int]
) -> tuple[dict[int, int], float]:
    """Places for those that have none yet, the most expensive first, each to the worker with the least to do; and the
    longest load of a worker."""
    loads, places = dict.fromkeys(workers, 0.0), {key: worker for key, worker in places.items() if worker in workers}
    for env_id, worker in places.items():
        loads[worker] += costs[env_id]
    for env_id in sorted(costs.keys() - places.keys(), key=lambda env_id: (-costs[env_id], env_id)):
        worker = places[env_id] = min(loads, key=loads.__getitem__)
        loads[worker] += costs[env_id]
    return places, max(loads.values())
