"""What the turns of a tag take, measured as the first are taken; where its environments should live follows from that.

    waits (less than a quarter of a turn is CPU time)     in threads, at once
    computes, and workers gain enough by it               in worker processes, from the next reset on
    anything else                                         in the main process

A tag is timed once, and placed by a formula. Whether other programs want the cores, too, is not known here: who knows
better says so with es_manager.use_multiprocessing.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from abreast.rollouts.episodes.episode import SLOW_S, TurnResult

WAIT_SHARE = 0.75
"""A turn waits if its CPU share is below a quarter: a request over a network with its parsing is, a computation is not."""
SURE_S, SURE_TURNS = 0.02, 3
"""Turns that wait for less than this are believed after three of them: another thread may have held the interpreter. (Of
turns that several threads take at once in the main process it is not known: see here.py.)"""
MOST_TURNS, NEWEST = 1024, 256
"""After so many turns a tag is timed, however little time they took; the newest of them count."""


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
    """Workers are used under `auto` if they are predicted to take at most this share of the time. Predictions were up to
    15 % too low in benchmarks/rollouts.py."""
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
        self.cost: Cost | None = None
        """None until it is timed; later on, only slow turns are noted."""
        self.waits = False
        """Whether threads are the place for it."""
        self._turns, self._starts = deque[float](maxlen=NEWEST), deque[float](maxlen=NEWEST)
        self._taken = self._begun = 0
        self._spent_s = 0.0
        self._waits_in_a_row = 0

    def note(self, result: TurnResult, is_start: bool) -> None:
        """A turn, or the start of an episode, was taken."""
        seconds = max(result.seconds, result.waited)
        if self.cost is None:
            (self._starts if is_start else self._turns).append(result.seconds)
            self._begun, self._taken = self._begun + is_start, self._taken + (not is_start)
            self._spent_s += result.seconds
            if self._taken and (self._spent_s >= self._enough_s or self._taken >= MOST_TURNS):
                self.cost = Cost(median(self._turns), median(self._starts or [0.0]), self._taken / max(self._begun, 1))
        if seconds >= SLOW_S and result.waited > WAIT_SHARE * seconds:
            self._waits_in_a_row += 1
            self.waits |= self._waits_in_a_row >= SURE_TURNS or seconds >= SURE_S
        elif not is_start:  # that a start computes says nothing about turns
            self._waits_in_a_row = 0


def best_count(costs: Sequence[Cost | None], most: int, rules: PlacementRules, is_auto: bool) -> int:
    """How many workers to use for environments with these costs; 0: none. As long as a cost is not known: all, or none."""
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs) or not most:
        return 0 if is_auto else most
    turns = max(cost.turns for cost in known)
    messages_s = sum(cost.turns + 1 for cost in known) * rules.turn_message_s
    here_s, longest_s = sum(cost.slot_s for cost in known), max(cost.slot_s for cost in known)

    def away_s(count: int) -> float:
        """Seconds that an epoch in so many workers is predicted to take."""
        return max(here_s / count, longest_s) + (turns + 1) * count * rules.order_s + messages_s

    best = min(range(1, most + 1), key=away_s)
    if rules.gain * away_s(1) < away_s(best):
        best = 1  # with a core left for it, the main process waits for answers without sleeping
    gains = away_s(best) <= rules.gain * here_s and here_s - away_s(best) >= rules.worth_s * turns
    return best if gains or not is_auto else 0


def is_cheap(cost: Cost, rules: PlacementRules) -> bool:
    """Whether its turns and starts take hardly longer than the messages about them."""
    return cost.turn_s < rules.cheap_turn_s and cost.start_s < rules.cheap_start_s


def deal_out(costs: Mapping[int, float], workers: Collection[int]) -> dict[int, int]:
    """A worker for each environment: the most expensive first, each to the one with the least to do."""
    loads, places = dict.fromkeys(workers, 0.0), dict[int, int]()
    for env_id in sorted(costs, key=lambda env_id: (-costs[env_id], env_id)):
        worker = places[env_id] = min(loads, key=loads.__getitem__)
        loads[worker] += costs[env_id]
    return places
