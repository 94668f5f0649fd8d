"""How many workers, and which environments in them: measured at every reset, and decided there.

    one epoch (all episodes between two resets) ──▶ medians per tag: a turn, a start
                                                ──▶ seconds per turn with this number of workers (0: main process only)
    next reset ──▶ try the number that is predicted best, if clearly better; else the best that was measured

A live episode never moves: environments move at resets only, when nothing has to be replayed. Under `auto` the first epoch
takes place in the main process. Tags whose turns wait live in threads (meter.py), and are not counted here.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Literal, NamedTuple

from abreast.rollouts.episodes.slot import HERE, Slot

Use = bool | Literal["auto", "threads"]


@dataclass(frozen=True)
class PlacementRules:
    """The constants of placement, with where they come from (two cores, Python 3.11)."""

    turn_message_s: float = 4e-6
    """What one turn costs when it is taken in a worker, beside the turn itself: 2.5 µs measured, and a reserve. Environments
    whose turns are cheaper stay in the main process under `auto`."""
    cheap_turn_s: float = 25e-6
    cheap_start_s: float = 2e-3
    """Environments whose turns and starts are cheaper than this stay in the main process under `auto`: moved for the sake of
    their resets, 1,024 Sokoban rooms (10 µs, 0.4 ms) took 20 to 60 ms a batch in workers against 14 to 16."""
    order_s: float = 50e-6
    """What one order to one worker costs beside its turns: 16 environments of 0 µs took 90 µs a batch longer in one worker
    than in the main process, and 140 µs longer in two."""
    gain: float = 0.8
    """Another number of workers is tried if it is predicted to take at most this share of the time. Predictions were up to
    15 % too low in benchmarks/rollouts.py, so a smaller gain is not certain."""
    worth_s: float = 300e-6
    """A batch has to gain this much, or no workers are started: that takes up to 1.4 s."""
    enough_s: float = 0.05
    """Seconds of epochs before `auto` tries workers: the first turns are slow. Countdown took 110 µs a turn in its first
    epoch and 50 later; judged by the first alone, workers (75) were kept."""
    window: int = 64
    """Turns of a tag whose median is taken: enough for a stable median, and sorted within 5 µs."""
    memory: int = 5
    """Epochs of which the fastest counts. Disturbances only ever add time; of five epochs one was always free of them."""
    trial_share: float = 0.02
    """Share of the time that may be spent on trying again a number of workers that was slower: the machine may have changed.
    Counted in seconds, not in resets: to move 16 environments of one-turn episodes takes as long as 20 of their epochs."""


class Epoch:
    """What is measured between two resets. As a context manager it is a stopwatch around calls that wait for turns."""

    def __init__(self) -> None:
        self.reset_s = self.busy_s = 0.0
        self.batches = 0
        self.has_moved = False
        """Whether environments had to be made for this epoch: its reset took longer than later ones."""
        self.is_spoiled = False
        """Whether something happened that says nothing about later epochs: a flip, a dead worker."""
        self._depth, self._since = 0, 0.0

    def __enter__(self) -> None:
        if not self._depth:
            self._since = time.perf_counter()
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.busy_s += time.perf_counter() - self._since


class Cost(NamedTuple):
    """Of a tag, in the newest epoch."""

    slots: int
    turns: int
    turn_s: float
    start_s: float

    @property
    def slot_s(self) -> float:
        """What the start and the turns of one of its environments take."""
        return self.start_s + self.turn_s * self.turns / self.slots


class Placement:
    """Measures epochs, and assigns environments to workers."""

    def __init__(self, slots: Sequence[Slot], workers: int, rules: PlacementRules) -> None:
        self.workers, self.rules = workers, rules
        self.epoch = Epoch()
        self.count = 0
        """How many workers are in use; 0: none."""
        self._tags: dict[str, list[Slot]] = {}
        for slot in slots:
            self._tags.setdefault(slot.tag.name, []).append(slot)
        self._costs: dict[bool, dict[str, Cost]] = {True: {}, False: {}}
        """By tag; True: as measured in the main process, False: in workers."""
        self._batches = self._turns = self._observed = 0
        self._use: Use = "auto"
        self._decided: tuple[object, ...] = ()
        """What the last decision was based on: without news it stands."""
        self._measured: dict[int, deque[float]] = {}
        """Seconds per turn, resets included, by number of workers."""
        self._spent_s = 0.0
        self._measured_at: dict[int, float] = {}
        """When each number was measured last, in seconds spent on epochs …"""
        self._trial_s: dict[int, float] = {}
        """… and how long it took to try it, moving there and back included."""

    # ---- measuring

    def observe(self) -> None:
        """Learn from the epoch that ends now."""
        epoch, self.epoch = self.epoch, Epoch()
        self._spent_s += epoch.busy_s + epoch.reset_s
        nothing_to_gain = epoch.busy_s + epoch.reset_s < self.rules.worth_s * (epoch.batches + 1)
        if epoch.is_spoiled or not epoch.batches or (not self.count and nothing_to_gain):
            return
        turns = 0
        for tag, slots in self._tags.items():
            seconds = [each for slot in slots for each in slot.tally.seconds]
            if seconds:
                turns += len(seconds)
                turn_s = median(seconds[:: len(seconds) // self.rules.window + 1])
                start_s = median(slot.start_s for slot in slots[: self.rules.window])
                self._costs[slots[0].worker == HERE][tag] = Cost(len(slots), len(seconds), turn_s, start_s)
        if not turns:
            return
        self._batches, self._turns, self._observed = epoch.batches, turns, self._observed + 1
        reset_s = self._predict(self.count, starts_only=True) if epoch.has_moved else epoch.reset_s
        self._measured.setdefault(self.count, deque(maxlen=self.rules.memory)).append((epoch.busy_s + reset_s) / turns)
        self._measured_at[self.count] = self._spent_s
        if epoch.has_moved or self.count not in self._trial_s:
            self._trial_s[self.count] = epoch.busy_s + 2 * epoch.reset_s

    def _cost(self, tag: str, is_here: bool) -> Cost | None:
        """As measured in such a place, or else in the other."""
        return self._costs[is_here].get(tag) or self._costs[not is_here].get(tag)

    def _stays_here(self, tag: str) -> bool:
        """Whether, under `auto`, its turns with their share of the start take hardly longer than the messages about them."""
        cost = self._cost(tag, is_here=True) if self._use == "auto" else None
        if cost is None:
            return False
        is_cheap = cost.turn_s < self.rules.cheap_turn_s and cost.start_s < self.rules.cheap_start_s
        return is_cheap or cost.slot_s < self.rules.turn_message_s * cost.turns / cost.slots

    def _predict(self, count: int, starts_only: bool = False) -> float:
        """Seconds that an epoch like the newest takes with so many workers."""
        here_s = away_s = longest_s = 0.0
        messages = 0
        for tag in self._tags:
            is_here = not count or self._stays_here(tag)
            cost = self._cost(tag, is_here)
            if cost is None:
                continue
            cost = cost._replace(turns=0) if starts_only else cost
            if is_here:
                here_s += cost.slots * cost.slot_s
            else:
                away_s += cost.slots * cost.slot_s
                longest_s = max(longest_s, cost.slot_s)
                messages += cost.slots + cost.turns
        if not messages:
            return here_s
        orders = min(((0 if starts_only else self._batches) + 1) * count, messages)
        messages_s = orders * self.rules.order_s + messages * self.rules.turn_message_s
        return max(here_s, longest_s, away_s / count) + messages_s

    # ---- deciding

    def choose(self, slots: Sequence[Slot], living: Sequence[int], use: Use) -> dict[int, int]:
        """Before a reset: a worker for each of these slots that should live in one. `living`: workers that are not lost."""
        basis = (use, len(living), len(slots), self._observed, self._spent_s < self.rules.enough_s)
        if basis != self._decided:
            self._use, self._decided = use, basis
            counts = [count for count in _powers_of_two(self.workers) if count <= len(living)]
            if not counts or not slots or (use == "auto" and self._spent_s < self.rules.enough_s):
                self.count = 0
            elif not self._turns:
                self.count = 0 if use == "auto" else counts[-1]
            else:
                self.count = min([*([0] if use == "auto" else []), *counts], key=self._estimate)
        away = [slot for slot in slots if self.count and not self._stays_here(slot.tag.name)]
        return self.spread(away, living[: self.count])

    def _estimate(self, count: int) -> float:
        """Seconds of an epoch with so many workers: as measured, or else as predicted, with what makes a trial worth it."""
        predicted_s, margin_s = self._predict(count), self._predict(count) / self.rules.gain
        is_known = count in self._measured and (
            (self._spent_s - self._measured_at[count]) * self.rules.trial_share < self._trial_s[count]
        )
        measured_s = min(self._measured[count]) * self._turns if is_known else float("inf")
        if not count:
            return min(measured_s, margin_s)  # a disturbance is not held against the main process
        if is_known:
            return measured_s
        return max(margin_s, predicted_s + (0.0 if self.count else self.rules.worth_s * self._batches))

    def spread(self, slots: Sequence[Slot], workers: Sequence[int], keep: bool = False) -> dict[int, int]:
        """A worker for each slot, the most expensive first, each to the worker with the least to do.

        Slots stay where they are if `keep`, or if all have a worker and moving them would not make the longest load much
        shorter: to make environments anew takes time too.
        """
        if not workers:
            return {}
        costs = {slot.env_id: cost.slot_s if (cost := self._cost(slot.tag.name, False)) else 1.0 for slot in slots}
        places = {slot.env_id: slot.worker for slot in slots if slot.worker in workers}
        if keep:
            return _assign(costs, workers, places)[0]
        spread, longest_s = _assign(costs, workers, {})
        if len(places) == len(slots) and _assign(costs, workers, places)[1] <= longest_s / self.rules.gain:
            return places
        return spread


def _powers_of_two(limit: int) -> list[int]:
    """1, 2, 4 … and the limit itself."""
    return sorted({limit, *(1 << power for power in range(limit.bit_length()) if 1 << power <= limit)})


def _assign(
    costs: Mapping[int, float], workers: Sequence[int], places: Mapping[int, int]
) -> tuple[dict[int, int], float]:
    """Places for those that have none yet, the most expensive first; and the longest load of a worker."""
    loads, places = dict.fromkeys(workers, 0.0), dict(places)
    for env_id, worker in places.items():
        loads[worker] += costs[env_id]
    for env_id in sorted(costs.keys() - places.keys(), key=lambda env_id: (-costs[env_id], env_id)):
        worker = places[env_id] = min(loads, key=loads.__getitem__)
        loads[worker] += costs[env_id]
    return places, max(loads.values())
