"""The plan of a parallel run: where learners live, how many workers and actors there are.

what the user sets    is used from the first pass on; numbers that are left out follow a rule
`workers: auto`       the run begins inline and times itself. After the second round that has learned something it decides,
                      once, by `choose`, and moves learners and lanes between two passes
`workers: ray`        the same, with the nodes of a cluster: what a message and a copy to them cost is timed, too

Results do not depend on it: learners and lanes are the same wherever they are.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from abreast.cluster.connection import Link
from abreast.models.lane_streams import LANES_TOGETHER
from abreast.processes.cores import cores
from abreast.training.actors.base import models_of
from abreast.training.actors.process import why_one_actor
from abreast.training.config import MPConfig
from abreast.training.learners.hosted import assign_agents, bound_together
from abreast.training.runnable import Runnable

Place = Literal["inline", "threads", "processes", "ray"]

ROUNDS_TIMED = 2
"""Rounds that have learned something, after which a run decides. The first of them warms up caches and libraries."""
WORTH_IT = 0.95
"""Workers are used if they are predicted to take at most this share of the time of going on inline."""
AS_FAST = 1.03
"""Of splits that take up to so many times as long as the fastest, the one with the fewest processes is taken."""
ORDER_S = 0.4e-3
"""An order to a worker, and its answers. (Two and 16 cores.)"""
CROWDING = 0.03
"""Share by which each busy core slows down the others: caches, memory, clock. (16 learners are 10.9 times one.)"""
START_S, START_PROCESS_S, START_ACTOR_S = 0.1, 0.04, 0.1
"""To make shared memory; for each process; for each actor in one, which builds the whole game."""
FORK_SERVER_S = 1.5
"""Until the process that others are forked from has imported torch."""
SHORT_STEPS = 10_000
"""Agent-steps of a run that is over before that has happened."""


class Split(NamedTuple):
    """A way to share out the work of a pass and its round."""

    workers: int
    """Learner processes; 0: everything is done in one thread."""
    actors: int = 1
    remote: int = 0
    """Those of the workers, the last ones, that are on nodes of a cluster. The actors but the first are there, too, then."""


@dataclass(frozen=True)
class Timing:
    """What a run has measured of itself, in seconds. Time in which other programs had its core does not count."""

    pass_s: float
    """A pass in all lanes, in one thread,"""
    computing_s: float
    """and for how long of it the thread used a core."""
    round_s: tuple[float, ...]
    """A round of each group of agents that has to be in one worker."""
    publish_s: tuple[float, ...]
    """To publish what each group has learned, and to read it again."""
    cores: float
    passes_left: int
    fork_server_s: float = 0.0
    """Until there is one."""
    is_lockstep: bool = False
    link: Link | None = None
    """To the nodes of a cluster, if there is one."""
    copied_bytes: tuple[int, ...] = ()
    """What would be sent there and back of each group, in a pass and its round."""

    @property
    def inline_s(self) -> float:
        """A pass and its round, one after the other."""
        return self.pass_s + sum(self.round_s)


def seconds_of_pass(timing: Timing, split: Split) -> float:
    """What a pass and its round take, split up in this way.

    lockstep: all actors play, then all workers train. Else all of them work at once.
    """
    if not split.workers:
        return timing.inline_s
    assigned = assign_agents([[group] for group in range(len(timing.round_s))], split.workers, lambda group: 1.0)
    work = [learn + publish for learn, publish in zip(timing.round_s, timing.publish_s, strict=True)]
    learning = [sum(work[group] for group in groups) for groups in assigned]
    playing = [timing.computing_s / split.actors] * split.actors
    orders = ORDER_S * (split.workers + split.actors - 1)
    waiting = (timing.pass_s - timing.computing_s) / split.actors
    """For something that needs no core: a world in another program, say."""
    here = split.workers - split.remote
    away, learning_away = 0.0, 0.0
    """What is done on nodes beside the learners, and by the slowest of these."""
    if split.remote and timing.link is not None:
        copies = [sum(timing.copied_bytes[group] for group in groups) * timing.link.byte_s for groups in assigned]
        learning_away = max(map(sum, zip(learning[here:], copies[here:], strict=True))) + timing.link.message_s
        orders += sum(copies[here:]) + (split.actors - 1) * sum(copies)  # all of which goes through this process
        away, playing = playing[0] + waiting + timing.link.message_s, playing[:1]
    playing_s = seconds_beside(playing, timing.cores, waiting)
    if timing.is_lockstep:
        learning_s = max(learning_away, seconds_beside(learning[:here], timing.cores))
        return max(playing_s, away) + learning_s + orders
    beside = seconds_beside([playing[0] + orders, *playing[1:], *learning[:here]], timing.cores, waiting)
    return max(beside, away, learning_away)


def seconds_beside(work: Sequence[float], cores: float, waiting: float = 0.0) -> float:
    """Until all processes have done their work, the first of which waits for so long, too.

    Where there are fewer cores, all processes get the same share of them until the first has finished. (Two cores, one actor
    and as much to learn: one learner takes 1, two learners 1.25, because the actor has two thirds of a core at first.)
    """
    seconds = done = 0.0
    for left, each in zip(range(len(work), 0, -1), sorted(work), strict=True):
        seconds += (each - done) * max(1.0, left / cores)
        done = each
    busy = sum(work) / seconds if seconds else 1.0
    return max(seconds, sum(work[:1]) + waiting) * (1 + CROWDING * max(0.0, busy - 1))


def seconds_left(timing: Timing, split: Split) -> float:
    """What the rest of the run takes, with the start of processes; the last round of a run has no pass beside it."""
    seconds, passes, others = seconds_of_pass(timing, split), timing.passes_left, split.actors - 1
    if not split.workers:
        return passes * seconds
    start = START_S + START_PROCESS_S * (split.workers + others) + START_ACTOR_S * others + timing.fork_server_s
    return start + (passes + (not timing.is_lockstep)) * seconds


def choose(timing: Timing, splits: Sequence[Split]) -> Split:
    """The split that takes least; inline where the others gain little."""
    left = {split: seconds_left(timing, split) for split in splits}
    fast = [split for split in splits if left[split] <= AS_FAST * min(left.values())]
    best = min(fast, key=lambda split: (sum(split), left[split]))
    return best if left[best] <= WORTH_IT * seconds_left(timing, Split(0)) else Split(0)


@dataclass(frozen=True)
class Plan:
    """How a parallel run is run."""

    workers: Place
    num_workers: int
    num_remote: int
    """Workers on nodes of a cluster."""
    num_actors: int
    lanes: int
    """Of each actor."""
    device: str
    reasons: tuple[str, str]
    """Two lines for the user."""
    left_out: tuple[str, ...] = ()
    """What was not done, and why."""
    timing: Timing | None = None
    """What was measured, if anything was."""
    pass_s: float | None = None
    """Seconds of a pass and its round, predicted from that."""
    is_open: bool = False
    """Whether it is only how the run begins, and is decided later."""

    def applied(self, config: MPConfig) -> MPConfig:
        """The settings by which this plan runs."""
        chosen = {
            "workers": self.workers,
            "num_workers": self.num_workers or None,
            "num_actors": self.num_actors,
            "num_envs": self.num_actors * self.lanes,
            "cluster": config.cluster.with_derived(workers_here=self.num_workers - self.num_remote),
        }
        return config.model_copy(update=chosen)

    def as_json(self) -> dict[str, Any]:
        """All of it, as plan.json has it."""
        return {name: value for name, value in asdict(self).items() if name != "is_open"}


class Planner:
    """Plans the run of an experiment, with the settings given."""

    def __init__(self, env: Runnable, given: MPConfig, room: int = 0) -> None:
        """`room`: for workers on other nodes of a cluster."""
        self._env, self._given, self._settings, self._room = env, given, env.config.experiment, room
        self._models = models_of(env.game)
        learning = [agent for agent in range(len(self._models)) if agent not in self._settings.freeze]
        is_free = given.schedule == "free"
        self.groups = [[agent] for agent in learning] if is_free else bound_together(self._models, learning)
        """Agents that learn, in groups that have to be in one worker."""
        gpus = {self._models[agent].device for agent in learning} - {"cpu"}
        self.cores = cores() / self._settings.compute_threads
        # More than two workers for a GPU get in each other's way. (H200, 5 agents: 2 workers 1.4 times sequential, 5: 0.9.)
        self._most_tried = min(len(self.groups), 2 * len(gpus) or len(learning), 2 * max(1, int(self.cores)))
        """Workers that `decide` tries at most. More than cores: five agents are 3 + 2 in two workers, 2 + 2 + 1 in three."""
        self._most = min(self._most_tried, max(1, int(self.cores)))
        self.is_short = self._settings.steps * len(self._models) < SHORT_STEPS
        """Whether the run is over before there can be processes."""
        self._left_out: list[str] = []
        self._note_what_is_left_out(len(learning))

    def begin(self) -> Plan:
        """The plan by which the run begins."""
        given, place, workers = self._given, self._given.workers, self._given.num_workers
        why_inline = self._why_inline()
        if place == "auto" and why_inline is None and (workers is not None or given.actors > 1):
            place = "processes"
        is_set = workers is not None or given.actors > 1
        if place in ("processes", "threads") or (place == "ray" and is_set):
            actors = min(given.actors, -(-self._settings.epochs // given.lanes_per_actor))
            most = self._most_here + self._room if place == "ray" else self._most
            count = min(workers or most or 1, len(self.groups))
            remote = max(0, count - self._most_here) if place == "ray" else 0
            split = Split(count, self._allowed(actors, place != "threads"), remote)
            return self._plan(place, split, "as set", "nothing was left to choose, so nothing was measured")
        if workers is not None:
            self._leave_out(f"num_workers {workers}: learners live in this thread")
        if given.actors > 1:
            self._leave_out(f"num_actors {given.actors}: all lanes are played in this thread")
        if place == "inline":
            return self._plan("inline", Split(0), "as set", "nothing was left to choose, so nothing was measured")
        if why_inline is not None:
            return self._plan("inline", Split(0), "by rule", f"{why_inline}, so nothing was measured")
        why = f"nothing was measured: the run was over before {ROUNDS_TIMED} rounds had learned anything"
        return self._plan("inline", Split(0), "as every run begins", why, is_open=True)

    def _why_inline(self) -> str | None:
        """Why `workers: auto` is inline from the beginning to the end."""
        if self._env.is_batched:
            return "the world is batched: playing and learning share the device"
        if not self.groups:
            return "all agents are frozen"
        if not hasattr(os, "fork"):
            return "this system has no worker processes"
        wants = self._given.num_workers is not None or self._given.actors > 1
        return None if wants or self.cores > 1 or self._given.workers == "ray" else "there is one core"

    @property
    def _most_here(self) -> int:
        """Learners that the cores of this machine have room for, beside the first actor; or as many as the user says."""
        wanted = self._given.cluster.workers_here
        return max(0, int(self.cores) - 1) if wanted is None else wanted

    def decide(self, timing: Timing) -> Plan:
        """The plan for the rest of the run, by what it has measured of itself."""
        lanes = self._given.lanes
        most = int(self.cores) + self._room
        counts = [count for count in range(2, most + 1) if lanes % (LANES_TOGETHER * count) == 0]
        if self._given.num_actors is not None or (counts and self._allowed(counts[-1], in_processes=True) == 1):
            counts = []
        near = [count for count in (1, *counts) if count <= max(1, int(self.cores))]
        splits = [Split(workers, count) for workers in range(1, self._most_tried + 1) for count in near]
        splits += self._splits_with_nodes((1, *counts))
        if timing.link is not None and not self._room:
            self._leave_out("the cluster: it has no other node with room for a learner")
        split = choose(timing, splits)
        seconds, inline = seconds_of_pass(timing, split), timing.inline_s
        if split.workers:
            ratio = f"{inline / seconds:.2g} times as fast as {format_seconds(inline)} inline"
            pace = f"{format_seconds(seconds)} a pass, {ratio}"
        else:
            pace = f"{format_seconds(inline)} a pass, {timing.passes_left} left: workers would gain too little"
        why = (
            f"measured in this run, on {timing.cores:g} cores: playing a pass {format_seconds(timing.pass_s)} (of which"
            f" computing {format_seconds(timing.computing_s)}), its round {format_seconds(sum(timing.round_s))}, publishing"
            f" {format_seconds(sum(timing.publish_s))}"
        )
        if timing.link is not None:
            message, pace_mb = format_seconds(timing.link.message_s), 1e-6 / timing.link.byte_s
            why += f", a message to a node and back {message}, copies there and back {pace_mb:.3g} MB/s"
        place: Place = "ray" if split.remote else "processes" if split.workers else "inline"
        return self._plan(place, split, pace, why, timing)

    def _splits_with_nodes(self, actors: Sequence[int]) -> list[Split]:
        """Splits that use other nodes of a cluster."""
        here = min(self._most_here, len(self.groups) - 1)
        totals = range(here + 1, min(len(self.groups), here + self._room) + 1)
        found = [Split(total, count, total - here) for total in totals for count in actors]
        return [split for split in found if split.remote + split.actors - 1 <= self._room]

    def _allowed(self, actors: int, in_processes: bool) -> int:
        """How many actors share the lanes: so many, or one where that is known to be all there can be."""
        if actors > 1 and (reason := why_one_actor(self._env, in_processes)) is not None:
            self._leave_out(f"several actors: {reason}")
            return 1
        return actors

    def _note_what_is_left_out(self, learning: int) -> None:
        workers, actors, epochs = self._given.num_workers, self._given.actors, self._settings.epochs
        if not learning:
            self._leave_out("learners: all agents are frozen")
        elif workers is not None and workers > learning:
            self._leave_out(f"{workers - learning} of {workers} workers: the other agents are frozen")
        elif workers is not None and workers > len(self.groups):
            spare = workers - len(self.groups)
            self._leave_out(f"{spare} of {workers} workers: agents of a GPU learn in one stacked update")
        if actors > epochs:
            self._leave_out(f"{actors - epochs} of {actors} actors: there are {epochs} epochs to play")

    def _leave_out(self, text: str) -> None:
        if text not in self._left_out:
            self._left_out.append(text)

    def _plan(
        self,
        place: Place,
        split: Split,
        pace: str,
        why: str,
        timing: Timing | None = None,
        is_open: bool = False,
    ) -> Plan:
        given = self._given
        lanes = given.lanes_per_actor if given.num_actors and split.actors > 1 else given.lanes // split.actors
        devices = ", ".join(dict.fromkeys(model.device for model in self._models))
        left_out = f"; left out: {', '.join(self._left_out)}" if self._left_out else ""
        reasons = f"plan: {describe(place, split, lanes)} ({devices}); {pace}.", f"{why}{left_out}."
        seconds = None if timing is None else seconds_of_pass(timing, split)
        return Plan(
            place,
            split.workers,
            split.remote,
            split.actors,
            lanes,
            devices,
            reasons,
            tuple(self._left_out),
            timing,
            seconds,
            is_open,
        )


def describe(place: Place, split: Split, lanes: int) -> str:
    """A plan in a few words; `lanes` are those of each actor."""
    each, actors = (" each", "actors") if split.actors > 1 else ("", "actor")
    playing = f"{split.actors} {actors} with {lanes} lane{'s' if lanes > 1 else ''}{each}"
    if place == "inline":
        return f"inline, learners in the thread of {playing}"
    kind = ("thread", "threads") if place == "threads" else ("process", "processes")
    where = f", {split.remote} of them on nodes of the cluster," if place == "ray" else ""
    return f"{split.workers} learner {kind[split.workers != 1]}{where} and {playing}"


def format_seconds(seconds: float) -> str:
    """A duration, short."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
