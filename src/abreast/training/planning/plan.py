"""A plan for a parallel run: where learners live, how many actors and workers there are, and why.

what the user sets      wins
what changes results    is not planned: schedule, lanes, device. With actors, only those that leave results as they are
the rest                the fastest of all plans, predicted (costs.py) from what was measured (measuring.py)
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from abreast.models import BaseModel
from abreast.models.lane_streams import LANES_TOGETHER
from abreast.processes.cores import cores, quota
from abreast.processes.fork_server import has_fork_server
from abreast.training.actors.base import models_of
from abreast.training.actors.process import why_not_built
from abreast.training.config import MPConfig
from abreast.training.learners.hosted import bound_together, process_backend
from abreast.training.planning.costs import Candidate, Place, Prediction, Shape
from abreast.training.planning.measuring import Measured, NotMeasured, measure

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment

WORTH_IT = 0.95
"""Workers are used if they are predicted to take at most this share of the time of the run without them."""
AS_FAST = 1.03
"""Of plans that take up to so many times as long as the fastest, the one with the fewest processes is taken."""
THREADS_BELOW = 0.9
"""Threads are used if they are predicted to take at most this share of the time of processes: they cannot be killed."""
WORTH_TELLING = 1.1
"""More lanes are mentioned if they make the run so many times as fast."""
MOST_LANES = 32
SHORT_STEPS = 10_000
"""Agent-steps of a run that is over before workers have started, where nothing was measured."""
MOST_THREADS = 4
"""Threads that share an update; more were not tried."""


@dataclass(frozen=True)
class Plan:
    """How a parallel run is run."""

    workers: Place
    num_actors: int
    num_workers: int
    lanes: int
    """Of each actor."""
    learner_threads: int
    device: str
    predicted_s: float | None
    """Seconds of a pass, the start aside; None: not measured."""
    sequential_s: float | None
    """Seconds of a pass of the sequential run."""
    reasons: tuple[str, str]
    """Two lines for the user."""
    left_out: list[str] = field(default_factory=list)
    """What was not done, and why."""
    more_lanes: str | None = None
    """What more lanes would gain, if much."""
    measured: Measured | None = None
    considered: list[tuple[Candidate, float, float]] = field(default_factory=list)
    """Every plan with its seconds of a pass, and those with its share of the start."""

    def applied(self, config: MPConfig) -> MPConfig:
        """The settings by which this plan runs; all of them count as given, so that they reach other processes."""
        return config.model_copy(
            update={
                "workers": self.workers,
                "num_workers": self.num_workers or None,
                "num_actors": self.num_actors,
                "num_envs": self.lanes,
                "learner_threads": self.learner_threads,
            }
        )

    def as_json(self) -> dict[str, Any]:
        """All of it, as plan.json has it."""
        values = asdict(self)
        values["considered"] = [
            {**asdict(plan), "pass_s": seconds, "with_start_s": whole} for plan, seconds, whole in self.considered
        ]
        return values


def make_plan(experiment: "Experiment", config: MPConfig) -> Plan:
    """The plan for a run of this experiment, with these settings."""
    return _Planner(experiment, config).plan()


class _Planner:
    def __init__(self, experiment: "Experiment", config: MPConfig) -> None:
        self._experiment, self._config = experiment, config
        self._models = models_of(experiment.game)
        self._settings = experiment.config.experiment
        self._frozen = frozenset(self._settings.freeze)
        self._learning = [model for agent, model in enumerate(self._models) if agent not in self._frozen]
        agents = [agent for agent in range(len(self._models)) if agent not in self._frozen]
        self._groups = len(bound_together(self._models, agents)) if config.schedule != "free" else len(agents)
        """Of agents that have to be in one worker."""
        self._cores = cores()
        self._left_out: list[str] = []

    def plan(self) -> Plan:
        candidates = self._candidates()
        if self._experiment.is_batched and self._is_auto:
            why = "the world is batched, and playing and learning share the device, so nothing was measured"
            return self._finished(candidates[0], "by rule", why)
        if len(candidates) == 1:
            return self._finished(candidates[0], "as set", "nothing was left to choose, so nothing was measured")
        if self._experiment.is_batched:
            return self._finished(self._by_rule(candidates), "by rule", "not measured: the world is batched")
        if "processes" in {each.workers for each in candidates} and not self._is_short():
            process_backend().warm_up()  # it imports while this process measures
        try:
            measured = measure(self._experiment)
        except NotMeasured as error:
            return self._finished(self._by_rule(candidates), "by rule", f"not measured: {error}")
        why_one = measured.game.why_one_actor
        if why_one is not None and any(each.num_actors != candidates[0].num_actors for each in candidates):
            self._leave_out(f"several actors: {why_one.rstrip('.')}")
            candidates = [each for each in candidates if each.num_actors == 1]
        if why_one is not None and self._config.workers == "auto":
            candidates = [each for each in candidates if each.workers != "threads"]
        return self._chosen(candidates, measured)

    # ---- what there is to choose from

    def _candidates(self) -> list[Candidate]:
        """All plans that the user's settings leave."""
        found = [each for place in self._places() for each in self._candidates_in(place)]
        given = self._config.num_workers
        most = len(self._learning)
        if not most:
            self._leave_out("learners: all agents are frozen")
        elif given is not None and given > most:
            self._leave_out(f"{given - most} of {given} workers: the other agents are frozen")
        elif given is not None and given > self._groups:
            self._leave_out(f"{given - self._groups} of {given} workers: agents of a GPU learn in one stacked update")
        if self._config.actors > self._settings.epochs:
            idle = self._config.actors - self._settings.epochs
            self._leave_out(f"{idle} of {self._config.actors} actors: there are {self._settings.epochs} epochs to play")
        if given is not None and {each.workers for each in found} == {"inline"}:
            self._leave_out(f"num_workers {given}: learners live in this thread")
        return found

    def _places(self) -> list[Place]:
        config = self._config
        if config.workers != "auto":
            return [config.workers]
        if self._experiment.is_batched:
            return ["inline"]
        if config.actors > 1:
            return ["processes"]
        hosted: list[Place] = ["processes"]
        if not any(model.runs_users_code for model in self._models):
            hosted.append("threads")
        if config.num_workers is not None:
            return hosted
        if self._cores == 1:
            share = quota()
            told = "1 core" if share is None or share >= 1 else f"{share:g} of a core"
            self._leave_out(f"workers: there is {told}")
            return ["inline"]
        return ["inline", *hosted]

    def _candidates_in(self, place: Place) -> Iterator[Candidate]:
        if place == "inline":
            yield Candidate("inline", self._config.actors)
            return
        actors = self._actor_counts() if place == "processes" else [self._config.actors]
        workers = self._worker_counts(is_planned=len(actors) > 1 or self._is_auto)
        for count in actors:
            for number in workers:
                for threads in self._thread_counts(place, number, is_planned=len(actors) > 1 or self._is_auto):
                    if count > 1 or number:
                        yield Candidate(place, count, number, threads)
        if not workers[0] and 1 in actors and place == self._config.workers:
            yield Candidate(place, 1, 0)

    @property
    def _is_auto(self) -> bool:
        return self._config.workers == "auto"

    def _thread_counts(self, place: Place, workers: int, is_planned: bool) -> list[int]:
        """How many threads may share an update: several where each learner has a worker, and cores are left."""
        if self._config.learner_threads is not None:
            return [self._config.learner_threads]
        if not is_planned or place == "threads" or not workers or workers < len(self._learning):
            return [1]
        return list(range(1, max(1, min(MOST_THREADS, self._cores // workers)) + 1))

    def _worker_counts(self, is_planned: bool) -> list[int]:
        """How many workers may host the learners: not more than there are cores, nor than two for each GPU: more get in
        each other's way. (One H200, 5 agents, times the sequential run: 1 worker 1.1, 2 workers 1.4, 5 workers 0.9.)
        Numbers that leave the longest queue as long are left out.
        """
        gpus = {model.device for model in self._learning if model.device != "cpu"}
        most = min(self._groups, self._cores, 2 * len(gpus) or len(self._learning))
        if self._config.num_workers is not None:
            return [min(self._config.num_workers, self._groups)]
        if not is_planned:
            return [most]
        queues: dict[int, int] = {}
        for number in range(1, most + 1):
            queues.setdefault(-(-len(self._learning) // number), number)
        return list(queues.values()) or [0]

    def _actor_counts(self) -> list[int]:
        if self._config.num_actors is not None:
            return [self._config.num_actors]
        lanes = self._config.lanes
        counts = [count for count in range(2, min(self._cores, lanes) + 1) if lanes % (LANES_TOGETHER * count) == 0]
        if counts and (reason := why_one_actor(self._experiment, self._models)) is not None:
            self._leave_out(f"several actors: {reason}")
            counts = []
        return [1, *counts]

    def _is_short(self) -> bool:
        return self._settings.epochs * self._settings.max_turns * len(self._models) < SHORT_STEPS

    def _by_rule(self, candidates: Sequence[Candidate]) -> Candidate:
        """Processes for a run that is not short, as many as there are; one actor."""
        order: list[Place] = ["inline", "processes"] if self._is_short() else ["processes", "inline"]
        few = [each for each in candidates if each.num_actors == min(plan.num_actors for plan in candidates)]
        return max(few, key=lambda each: (each.workers == order[0], each.workers == order[1], each.num_workers))

    # ---- the choice

    def _shape(self) -> Shape:
        lanes, interval = self._config.lanes, self._settings.train_interval
        return Shape(
            self._config.schedule,
            lanes,
            max(1, round(lanes / interval)),
            max(1, -(-self._settings.epochs // lanes)),
            self._frozen,
            has_fork_server(),
            frozenset(),
        )

    def _chosen(self, candidates: Sequence[Candidate], measured: Measured) -> Plan:
        shape = self._shape()
        prediction = Prediction(measured, shape)
        best = choose(candidates, prediction)
        seconds, sequential = prediction.of_pass(best), prediction.sequential
        considered = [(each, prediction.of_pass(each), prediction.of_run(each)) for each in candidates]
        considered.sort(key=lambda each: each[2])
        ratio = sequential / seconds
        pace = f"about {told(seconds)} a pass, {ratio:.2g} times as fast as the sequential run's {told(sequential)}"
        if best.workers == "inline" and len(candidates) > 1:
            others = [each for each in considered if each[0].workers != "inline"]
            gain = prediction.of_run(best) / others[0][2]
            pace = f"about {told(seconds)} a pass; workers would be {gain:.2g} times as fast, with their start"
        plan = self._finished(best, pace, _told_figures(measured, len(self._models)))
        more = self._more_lanes(measured, shape, seconds)
        second = "; ".join([plan.reasons[1].rstrip("."), *([more] if more else [])]) + "."
        return replace(
            plan,
            reasons=(plan.reasons[0], second),
            predicted_s=seconds,
            sequential_s=sequential,
            more_lanes=more,
            measured=measured,
            considered=considered,
        )

    def _more_lanes(self, measured: Measured, shape: Shape, seconds: float) -> str | None:
        """What more lanes would gain. Users' models may choose lane by lane, so nothing is known of them."""
        if any(not model.is_ours for model in self._models) or self._config.num_actors is not None:
            return None
        gains: dict[int, float] = {}
        lanes = 2 * shape.lanes
        while lanes <= min(MOST_LANES, self._settings.epochs):
            wider = _Planner(self._experiment, self._config.model_copy(update={"num_envs": lanes}))
            candidates = wider._candidates()
            if measured.game.why_one_actor is not None:
                candidates = [each for each in candidates if each.num_actors == 1]
            prediction = Prediction(measured, shape.with_lanes(lanes))
            best = prediction.of_pass(choose(candidates, prediction))
            gains[lanes] = seconds * lanes / shape.lanes / best
            lanes *= 2
        worth = [lanes for lanes, gain in gains.items() if gain >= WORTH_TELLING and gain >= 0.9 * max(gains.values())]
        if not worth:
            return None
        return f"with {worth[0]} lanes instead of {shape.lanes} about {gains[worth[0]]:.2g} times as fast, but other results"

    def _leave_out(self, text: str) -> None:
        if text not in self._left_out:
            self._left_out.append(text)

    def _finished(self, chosen: Candidate, pace: str, why: str) -> Plan:
        each = self._config.lanes // chosen.num_actors
        devices = ", ".join(dict.fromkeys(model.device for model in self._models))
        left_out = f"; left out: {', '.join(self._left_out)}" if self._left_out else ""
        return Plan(
            chosen.workers,
            chosen.num_actors,
            chosen.num_workers,
            each,
            chosen.learner_threads,
            devices,
            None,
            None,
            (f"plan: {_told_choice(chosen, each)} ({devices}); {pace}.", f"{why}{left_out}."),
            list(self._left_out),
        )


def choose(candidates: Sequence[Candidate], prediction: Prediction) -> Candidate:
    """The fastest; the one with the fewest processes where that makes no difference, inline where workers gain little."""
    seconds = {each: prediction.of_run(each) for each in candidates}
    by_place = {place: [each for each in candidates if each.workers == place] for place in ("processes", "threads")}
    best: Candidate | None = None
    for place, limit in (("processes", 1.0), ("threads", THREADS_BELOW)):
        if not by_place[place]:
            continue
        fastest = min(seconds[each] for each in by_place[place])
        few = min(
            (each for each in by_place[place] if seconds[each] <= AS_FAST * fastest),
            key=lambda each: (each.busy, seconds[each]),
        )
        if best is None or seconds[few] <= limit * seconds[best]:
            best = few
    inline = next((each for each in candidates if each.workers == "inline"), None)
    if best is None or (inline is not None and seconds[best] > WORTH_IT * seconds[inline]):
        assert inline is not None, "there is always a plan"
        return inline
    return best


def why_one_actor(experiment: "Experiment", models: Sequence[BaseModel]) -> str | None:
    """Why several actors would change results, or could not play, as far as that is known without playing."""
    if experiment.is_batched:
        return "a batched world is played by one"
    for agent, model in enumerate(models):
        if not model.is_ours:
            return f"agent {agent} has a model of your own ({type(model).__name__}), whose choices may depend on them"
    if not getattr(experiment.game, "plays_by_lane", False):
        return f"{experiment.name} does not say that its lanes are independent"
    if experiment.config.multiprocessing.lanes == 1:
        return None  # asked for what more lanes would gain: a single one is not built elsewhere
    return why_not_built(experiment, in_processes=True)


def told(seconds: float) -> str:
    """A duration, short."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _told_choice(plan: Candidate, lanes: int) -> str:
    actors = "1 actor" if plan.num_actors == 1 else f"{plan.num_actors} actors"
    playing = f"{actors} with {lanes} lane{'s' if lanes > 1 else ''}{' each' if plan.num_actors > 1 else ''}"
    if plan.workers == "inline":
        return f"inline, learners in the thread of {playing}"
    kind = {"processes": "process", "threads": "thread"}[plan.workers]
    count = f"{plan.num_workers} learner {kind}{'' if plan.num_workers == 1 else 'es' if kind == 'process' else 's'}"
    shared = f" of {plan.learner_threads} threads" if plan.learner_threads > 1 else ""
    return f"{count}{shared} and {playing}"


def _told_figures(measured: Measured, agents: int) -> str:
    game = measured.game
    share = "" if measured.quota is None else f", quota {measured.quota:g}"
    waits = f", waiting {told(game.wait / game.lanes)}" if game.wait else ""
    slowest = max(measured.models, key=lambda each: each.update)
    return (
        f"measured in {measured.seconds:.2f} s on {measured.cores} core{'s' if measured.cores > 1 else ''}{share}:"
        f" world {told(game.world / game.lanes)} a turn and lane{waits}, choosing {told(game.choose / agents)} an agent for"
        f" {game.lanes} lane{'s' if game.lanes > 1 else ''}, update {told(slowest.update)}, publish"
        f" {told(slowest.publish)}, message {told(measured.message)}"
    )
