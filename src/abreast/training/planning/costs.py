"""What a plan costs: seconds of a pass, predicted from what was measured.

    sequential, inline    play + train, and what a copy that learns in the same thread hands over
    lockstep              play on all actors, then train on all workers
    pipelined, free       the longer of both, beside each other

and never less than all computing together takes on the cores there are. The start is spread over the passes of the run.
"""

from dataclasses import dataclass, replace
from typing import Literal

from abreast.training.config import ScheduleName
from abreast.training.planning.measuring import Measured

Place = Literal["inline", "threads", "processes"]


@dataclass(frozen=True)
class Costs:
    """What is not measured before a run, in seconds unless said otherwise. (Two and 16 cores, 5 and 16 agents.)"""

    start_hosted: float = 0.1
    """To make shared memory and the models of workers."""
    start_process: float = 0.04
    """For each process."""
    start_actor: float = 0.1
    """For each actor beside the first, which builds the whole game."""
    start_fork_server: float = 1.5
    """The first time in a program: the process that others are forked from imports torch; what is left after planning."""
    order: float = 0.3e-3
    """An order to a worker and its answers, beside the message itself."""
    crowding: float = 0.03
    """Share by which each busy core slows down the others: caches, memory, clock. (16 learners are 10.9 times one.)"""
    interpreter: float = 0.5
    """Share of an update for which a thread holds the interpreter, which no other thread then has, and"""
    interpreter_s: float = 1.6e-3
    """how much longer. (IQN on two cores: threads are 1.6 times sequential with updates of 15 ms, 0.95 times with 3 ms.)"""


COSTS = Costs()


@dataclass(frozen=True)
class Candidate:
    """A way to run: where learners live, and how many of each there are."""

    workers: Place
    num_actors: int = 1
    num_workers: int = 0
    learner_threads: int = 1
    """That share each update."""

    @property
    def busy(self) -> int:
        """How many processes and threads compute beside each other."""
        return self.num_actors + self.num_workers * self.learner_threads


@dataclass(frozen=True)
class Shape:
    """What the cost of a run depends on, beside what was measured."""

    schedule: ScheduleName
    lanes: int
    """Of all actors."""
    updates: int
    """Of each agent in a round."""
    passes: int
    frozen: frozenset[int] = frozenset()
    has_fork_server: bool = False
    copied: frozenset[int] = frozenset()
    """Agents of which a copy learns, in one thread too."""

    def with_lanes(self, lanes: int) -> "Shape":
        """The same run with more lanes: fewer passes, longer rounds."""
        times = lanes / self.lanes
        passes = max(1, round(self.passes / times))
        return replace(self, lanes=lanes, updates=round(self.updates * times), passes=passes)


class Prediction:
    """Predicts the seconds of a pass."""

    def __init__(self, measured: Measured, shape: Shape, costs: Costs = COSTS) -> None:
        self._measured, self._shape, self._costs = measured, shape, costs
        self._rounds = [
            each.round(shape.updates) for agent, each in enumerate(measured.models) if agent not in shape.frozen
        ]
        self._gains = [each.two_threads for agent, each in enumerate(measured.models) if agent not in shape.frozen]
        self._publish = [
            each.publish * (0.5 if agent in shape.copied else 1.0)
            for agent, each in enumerate(measured.models)
            if agent not in shape.frozen
        ]
        self._taken_over = sum(0.5 * measured.models[agent].publish for agent in shape.copied - shape.frozen)
        """What the actor itself does of handing over whole models (which others only read): half of it."""

    @property
    def sequential(self) -> float:
        """Of the run without workers."""
        share = min(1.0, self._measured.capacity)
        play, waits = (self._play(self._shape.lanes, waits) for waits in (False, True))
        return (play + sum(self._rounds)) / share + waits - play

    @property
    def _handed_over(self) -> float:
        """To tell copies that play what those that learn have become, in one thread; in lockstep there are none."""
        return 2 * self._taken_over if self._shape.schedule != "lockstep" else 0.0

    def of_pass(self, plan: Candidate, is_alone: bool = False) -> float:
        """Of a plan, the start aside. `is_alone`: of a pass with no other before or after it."""
        if plan.workers == "inline":
            return self.sequential + self._handed_over  # actors too play one after the other
        play_one = self._play(self._shape.lanes // plan.num_actors, waits=True)
        playing = plan.num_actors * self._play(self._shape.lanes // plan.num_actors, waits=False)
        threads = plan.learner_threads
        gains = [1 + (gain - 1) * (threads - 1) for gain in self._gains]
        work = [each / gain + publish for each, gain, publish in zip(self._rounds, gains, self._publish, strict=True)]
        computing = sum(work) + sum(
            (threads / gain - 1 / gain) * each for each, gain in zip(self._rounds, gains, strict=True) if gain > 1
        )
        longest = max((sum(work[worker :: plan.num_workers]) for worker in range(plan.num_workers)), default=0.0)
        play_one += self._taken_over
        playing += self._taken_over
        ordering = (plan.num_workers + plan.num_actors - 1) * (self._measured.message + self._costs.order)
        ordering += (plan.num_actors - 1) * self._measured.game.tell
        if self._shape.schedule == "lockstep" or is_alone:
            play = self._beside(play_one, playing, plan.num_actors)
            train = self._beside(longest, computing, plan.num_workers * threads)
            seconds = play + train + ordering
        else:
            seconds = self._beside(max(play_one + ordering, longest), playing + ordering + computing, plan.busy)
        if plan.workers == "threads":
            seconds = max(seconds, self._play(self._shape.lanes, waits=False) + self._held() + sum(self._publish))
        return seconds

    def _held(self) -> float:
        """How long threads hold the interpreter in a round."""
        fixed = self._shape.updates * self._costs.interpreter_s
        return sum(min(each, fixed + self._costs.interpreter * each) for each in self._rounds)

    def of_run(self, plan: Candidate) -> float:
        """Of a plan, with its share of the start, and of the end: the last pass has no other beside its round."""
        seconds, passes = self.of_pass(plan), self._shape.passes
        return seconds + (self._start(plan) + self.of_pass(plan, is_alone=True) - seconds) / passes

    def _start(self, plan: Candidate) -> float:
        if plan.workers == "inline":
            return 0.0
        seconds, others = self._costs.start_hosted, plan.num_actors - 1
        if plan.workers == "processes":
            seconds += self._costs.start_process * (plan.num_workers + others) + self._costs.start_actor * others
            seconds += 0.0 if self._shape.has_fork_server else self._costs.start_fork_server
        return seconds

    def _play(self, lanes: int, waits: bool) -> float:
        """A pass of one actor with so many lanes; `waits`: with the time in which it uses no core."""
        game = self._measured.game
        here, there = (sum(each.choosing(number) for each in self._measured.models) for number in (lanes, game.lanes))
        turn = (game.world + game.remember + (game.wait if waits else 0.0)) * lanes / game.lanes
        return game.turns * (turn + game.choose * here / there)

    def _beside(self, longest: float, together: float, busy: int) -> float:
        """Work that several do beside each other: the longest part, or what all of it takes on the cores there are."""
        capacity = self._measured.capacity
        crowded = 1 + self._costs.crowding * (min(busy, capacity) - 1) if min(busy, capacity) > 1 else 1.0
        return max(longest, together / capacity) * crowded
