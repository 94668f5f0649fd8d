"""A calibration: how long each part of a run takes here, found out in less than a second and without a trace.

updates, choosing, publishing   models of ours: on a twin with a memory of its own, here
a turn of the game              in a copy of this process (processes/forked.py), which plays the game as it is and then ends;
                                users' models learn there too

So a user's code may raise, hang, print or count its instances: the run that follows begins as if nothing had happened.
"""

import pickle
import resource
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from abreast.models import BaseModel
from abreast.models.base import Recipe
from abreast.models.crew import Crew
from abreast.processes.cores import allowed_cores, cores, quota
from abreast.processes.forked import CAN_FORK, Tell, try_apart
from abreast.processes.memory import SharedBlock
from abreast.replay import Buffer
from abreast.streams import seeded_globals, shared_streams
from abreast.training.actors.base import actor_state, models_of
from abreast.training.collect import play_lanes
from abreast.training.config import Config
from abreast.training.devices import compute_threads
from abreast.training.learners.base import Trainer, update
from abreast.training.published import adopt_published, create_shared_models, publish_model
from abreast.worlds.playable import Decision, Late, Outcome, Playable

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment

PLANNING = 6
"""The part of a seed's spawn key that stands for calibration."""
MODELS_S = 0.5
"""Seconds after which no further kind of model is measured: it is taken for the mean of the others."""
PLAY_S, PLAY_LIMIT_S = 0.12, 1.5
"""Seconds of turns to measure, and after which a game that is slower than that is stopped."""
SLOW_S = 0.1
"""What takes so long altogether is not measured again."""
FEWEST_TURNS, MOST_TURNS = 4, 200
MOST_STACKED = 3
"""Models that are measured in one stacked update; with more, each takes a little less."""
FEW_ROWS = 256
"""Rows of an update that learns from all new rows (PPO), where it is measured; a pass may bring far more."""
WORLD, CHOOSE, REMEMBER, WAIT = range(4)
TOLD = ("first_update", "update", "publish", "rows")
"""Of `ModelTimes`, what is measured of users' models too."""
DRAWS = "its world draws from generators that a process shares (random, numpy.random, torch)"
MESSAGE_S = 100e-6
"""A message there and back, where it was not measured."""


@dataclass(frozen=True)
class ModelTimes:
    """Seconds of one agent."""

    first_update: float
    """The first of a round."""
    update: float
    """Each further one. (PPO learns all there is in the first.)"""
    publish: float
    """To publish what was learned and to read it again."""
    two_threads: float = 1.0
    """How many times as fast an update is if two threads share it."""
    choose: tuple[float, float] | None = None
    """Of a choice for no lane, and for each: what was measured for two numbers of lanes, as a line; None: users' models."""
    rows: float = 0.0
    """New rows that the first update learned from, if it takes longer with more."""

    def for_rows(self, rows: float) -> "ModelTimes":
        """What it takes if a pass brings so many."""
        if not self.rows:
            return self
        first = self.update + max(0.0, self.first_update - self.update) * rows / self.rows
        return replace(self, first_update=first, rows=rows)

    def round(self, updates: int) -> float:
        """A round of so many updates."""
        return self.first_update + (updates - 1) * self.update if updates else 0.0

    def choosing(self, lanes: int) -> float:
        """A choice for so many lanes, relative to others of this agent."""
        fixed, each = self.choose or (0.0, 1.0)
        return fixed + each * lanes


@dataclass(frozen=True)
class GameTimes:
    """Seconds of a turn of all agents, in all lanes of one actor."""

    lanes: int
    world: float
    """What the game itself takes: changing, observations, actions."""
    choose: float
    remember: float
    wait: float
    """What it waits for something, without using a core."""
    turns: float
    """Of an epoch."""
    tell: float = 0.0
    """An actor's report after a pass: its state, as a message."""
    why_one_actor: str | None = None
    """What would make a run with several actors another one, if anything would."""

    @property
    def turn(self) -> float:
        """Seconds of a turn in one lane."""
        return (self.world + self.choose + self.remember + self.wait) / self.lanes


@dataclass(frozen=True)
class Measured:
    """What a calibration has found."""

    models: list[ModelTimes]
    """Of each agent."""
    game: GameTimes
    message: float
    cores: int
    """Cores that may be used, by the affinity mask."""
    quota: float | None
    """Cores' worth of time that the control groups allow."""
    seconds: float
    """How long it took."""

    @property
    def capacity(self) -> float:
        """Cores' worth of time there is."""
        return min(self.cores, self.quota or self.cores)


class NotMeasured(Exception):
    """Why there are no figures."""


def measure(experiment: "Experiment") -> Measured:
    """Measure all parts of a run of this experiment, or raise `NotMeasured`. Nothing is changed."""
    started, config = time.perf_counter(), experiment.config
    if not CAN_FORK:
        raise NotMeasured(f"a process cannot be copied on {sys.platform}")
    models, frozen = models_of(experiment.game), set(config.experiment.freeze)
    learning = [model for agent, model in enumerate(models) if agent not in frozen]
    try:
        with compute_threads(config.experiment.compute_threads):
            times = _measure_ours(models, config)
    except Exception as error:  # no memory for another model, say: the run itself may still find some
        raise NotMeasured(" ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")) from error
    told = try_apart(_Trial(experiment, [each for each in learning if each.runs_users_code]), PLAY_LIMIT_S)
    for value in told.values:
        times |= {_kind_of(models[agent]): ModelTimes(**found) for agent, found in value.get("models", ())}
    turns = [GameTimes(**value["game"]) for value in told.values if "game" in value]
    if not turns:
        raise NotMeasured(next((each["fault"] for each in told.values if "fault" in each), told.fault or "no turn"))
    game = turns[-1]
    if told.fault is not None and game.why_one_actor is None:
        game = replace(game, why_one_actor=f"measuring it was not finished ({told.fault})")
    return Measured(
        [
            (times.get(_kind_of(model)) or _mean(times.values(), told.fault)).for_rows(game.turns * model.memory.lanes)
            for model in models
        ],
        game,
        told.round_trip_s or MESSAGE_S,
        allowed_cores(),
        quota(),
        time.perf_counter() - started,
    )


def _kind_of(model: BaseModel) -> Hashable:
    """Models of one kind take the same time."""
    if not model.is_ours:
        return (type(model),)
    seen = model.observation
    return type(model), model.config, tuple(seen.input_size), seen.scale, model.n_actions, model.device


def _mean(times: Any, fault: str | None) -> ModelTimes:
    """What a model that was not measured may take: as much as the others."""
    known = list(times)
    if not known:
        raise NotMeasured(fault or "no model could be measured")
    return ModelTimes(**{name: sum(getattr(each, name) for each in known) / len(known) for name in TOLD})


# ---- models


def _measure_ours(models: Sequence[BaseModel], config: Config[Any, Any]) -> dict[Hashable, ModelTimes]:
    """One of each kind that is ours."""
    times: dict[Hashable, ModelTimes] = {}
    started = time.perf_counter()
    for model in models:
        kind = _kind_of(model)
        if kind in times or model.runs_users_code or (times and time.perf_counter() - started > MODELS_S):
            continue
        spec = model.recipe()
        assert isinstance(spec, Recipe)
        sizes = _sizes(model.memory.lanes)
        spec = replace(spec, lanes=max(spec.lanes, *sizes))
        with seeded_globals(np.random.SeedSequence(config.experiment.seed), PLANNING):
            options = {**model.memory.options(), "lanes": spec.lanes}
            rows = spec.lanes * (_rows_needed(model, config) + model.config.n_frames + 1)
            room = max(rows, model.config.batch_size)
            twin = spec.build(Buffer(room, model.memory.obs_shape, **options))
            twin.epsilon = 0.0
            small, large = (_time_choice(twin, lanes) for lanes in sizes)
            each = max(0.0, (large - small) / (sizes[1] - sizes[0]))
            line = (max(0.0, large - each * sizes[1]), each)
            found = _time_learning(twin, config)
            alike = min(MOST_STACKED, sum(_kind_of(other) == kind for other in models))
            if alike > 1 and twin.learning_key is not None and not twin.config.on_policy:
                others = [spec.build(Buffer(room, model.memory.obs_shape, **options)) for _ in range(alike - 1)]
                each = _time_stacked([twin, *others], config)
                found = replace(found, first_update=each, update=each)
            if len(models) < cores() and model.device == "cpu":
                found = replace(found, two_threads=_gain_of_threads(twin, config))
            times[kind] = replace(found, choose=line)
    return times


def _sizes(lanes: int) -> tuple[int, int]:
    """Two numbers of lanes to measure a choice for."""
    return (lanes // 2, lanes) if lanes >= 4 else (lanes, 8)


def _rows_needed(model: BaseModel, config: Config[Any, Any]) -> int:
    """Rows of each lane for an update that is measured."""
    batches = max(2, ceil(2 * model.config.batch_size / model.memory.lanes))
    if not model.config.on_policy:
        return batches
    return min(config.experiment.max_turns, max(batches, ceil(FEW_ROWS / model.memory.lanes)))


def _time_choice(twin: BaseModel, lanes: int) -> float:
    state = np.zeros(twin.memory.obs_shape, twin.memory.dtype)
    states, numbers = [state] * lanes, list(range(lanes))
    twin.start_epoch_action(epoch=0)
    return _timed(lambda: twin.take_actions(states, numbers), most=10)


def _time_learning(model: BaseModel, config: Config[Any, Any]) -> ModelTimes:
    """Updates and publishing. Rows are made up."""
    rows = _rows_needed(model, config)
    _make_up_rows(model, rows)
    warm = _timed(lambda: update(model), most=1)
    if warm > SLOW_S and not model.config.on_policy:
        first = further = warm
    elif model.config.on_policy:  # learns from a row once
        _make_up_rows(model, rows)
        first, further = _timed(lambda: update(model), most=1), _timed(lambda: update(model), most=1)
    else:
        first = further = _timed(lambda: update(model), most=3)
    new = rows * model.memory.lanes if model.config.on_policy else 0
    return ModelTimes(first, further, _time_publishing(model), rows=new)


def _time_stacked(twins: Sequence[BaseModel], config: Config[Any, Any]) -> float:
    """An update of each, if they are done in one."""
    for twin in twins[1:]:
        _make_up_rows(twin, _rows_needed(twin, config))
    trainer = Trainer(dict(enumerate(twins)), config.experiment.seed)
    if len(trainer.groups) > 1:  # not on this machine
        return _timed(lambda: update(twins[0]), most=3)
    if twins[0].device != "cpu":
        trainer.train(trainer.groups[0], 1)  # records what is replayed from then on
    return _timed(lambda: trainer.train(trainer.groups[0], 1), most=2) / len(twins)


def _gain_of_threads(twin: BaseModel, config: Config[Any, Any]) -> float:
    """How many times as fast an update is if two threads share it. (By the clock: they compute beside each other.)"""
    crews, times = [Crew(), Crew(2, config.experiment.compute_threads)], [[0.0], [0.0]]
    for _ in range(3):
        for crew, seconds in zip(crews, times, strict=True):
            twin.crew = crew
            _make_up_rows(twin, _rows_needed(twin, config) if twin.config.on_policy else 0)
            started = time.perf_counter()
            update(twin)
            seconds.append(time.perf_counter() - started)
    crews[1].close()
    alone, shared = (min(seconds[2:]) for seconds in times)  # without the first, which touches everything
    return max(1.0, alone / max(shared, 1e-9))


def _make_up_rows(model: BaseModel, rows: int) -> None:
    rng = np.random.default_rng(0)
    model.start_epoch_action(epoch=0)
    lanes = list(range(model.memory.lanes))
    for _ in range(rows):
        seen = rng.integers(0, 2, (len(lanes), *model.memory.obs_shape)).astype(model.memory.dtype)
        actions = model.take_actions(list(seen), lanes)
        model.remember_all(list(seen), actions, rng.normal(size=len(lanes)).tolist(), [False] * len(lanes), lanes)
    model.end_epoch_action(epoch=0)


def _time_publishing(model: BaseModel) -> float:
    (place,) = create_shared_models([model])
    place.attach(SharedBlock(place.layout()))
    versions = iter(range(100))

    def there_and_back() -> None:
        publish_model(model, place, next(versions), updates=0, results=[])
        adopt_published(model, place, None)

    for _ in range(4):  # memory is handed out at the first touch
        there_and_back()
    return _timed(there_and_back, most=3)


def _timed(call: Callable[[], Any], most: int) -> float:
    """Seconds of a call: the median of a few, or of one if that is slow."""
    times: list[float] = []
    while len(times) < most and sum(times) < SLOW_S:
        clock = _Clock()
        call()
        busy, waiting = clock.split()
        times.append(busy + waiting)
    return median(times)


class _Clock:
    """Time that this thread computes, and time that it waits for something.

    Time in which it would compute but others use its core is neither: cores are shared out by the prediction.
    """

    def __init__(self) -> None:
        self.split()

    def split(self) -> tuple[float, float]:
        """Seconds since the last call, computing and waiting."""
        wall, busy, waits = time.perf_counter(), time.thread_time(), _waits()
        passed = wall - self._wall, busy - self._busy, waits - self._waits
        self._wall, self._busy, self._waits = wall, busy, waits
        return passed[1], max(0.0, passed[0] - passed[1]) if passed[2] else 0.0

    _wall = _busy = 0.0
    _waits = 0


def _waits() -> int:
    """How often this thread has given up its core by itself."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


# ---- the game, in a copy of this process


class _Enough(Exception):
    """There are enough turns."""


class _Trial:
    """Plays the game as it is, lets users' models learn, and tells how long that takes."""

    def __init__(self, experiment: "Experiment", foreign: Sequence[BaseModel]) -> None:
        self._experiment, self._config = experiment, experiment.config
        self._models, self._foreign = models_of(experiment.game), foreign
        elsewhere = [model for model in self._models if model.device != "cpu"]
        self._learned = {id(model): model.learning_state() for model in elsewhere}  # a copy cannot use the GPU

    def __call__(self, tell: Tell) -> None:
        torch.set_num_threads(1)
        for model in self._models:
            if id(model) in self._learned:
                model.adopt(self._learned[id(model)])
        held = self._held()
        if held is not None:
            tell({"fault": f"the game has what cannot be copied ({held}), so it was not played"})
            return
        self._halfway()
        self._play(tell)
        self._learn(tell)

    def _held(self) -> str | None:
        """What the game has that no other process can have: a connection or a file, say, which is not a copy's to use."""
        try:
            state = actor_state(self._experiment.game)
            pickle.dumps(state)
        except Exception as error:
            return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        lost = [name for key, names in state.facts.items() if key.endswith(".not_sent") for name in names]
        return ", ".join(dict.fromkeys(lost)) or None

    def _halfway(self) -> None:
        """Explore as much as in the middle of the run."""
        for model in self._models:
            rate = self._config.complete(model.config).epsilon_decay or 0.0
            model.epsilon_decay(1 - (1 - rate) ** (self._config.experiment.epochs / 2))

    def _play(self, tell: Tell) -> None:
        """A turn in one lane, which may be all that there is time for, then as many as there is time for in all lanes."""
        experiment, settings = self._experiment, self._config.experiment
        all_lanes = min(self._config.multiprocessing.num_envs, settings.epochs)
        found = GameTimes(1, 0.0, 0.0, 0.0, 0.0, settings.max_turns)
        with seeded_globals(np.random.SeedSequence(settings.seed), PLANNING):
            before = shared_streams()
            for lanes, enough_s in ((1, 0.0), (all_lanes, PLAY_S)):
                found = self._play_lanes(lanes, enough_s)
                tell({"game": asdict(found)})
                if found.turn > PLAY_S:
                    break
            draws = shared_streams() != before
        started = time.perf_counter()
        pickle.loads(pickle.dumps(actor_state(experiment.game)))
        told = time.perf_counter() - started
        why = DRAWS if draws else None
        tell({"game": asdict(replace(found, tell=told, why_one_actor=why))})

    def _play_lanes(self, lanes: int, enough_s: float) -> GameTimes:
        timed, turns = _TimedGame(self._experiment.game, enough_s), float(self._config.experiment.max_turns)
        try:
            played = play_lanes(timed, self._experiment.epochs_played, lanes)
            turns = max(1.0, sum(each.turns for each in played) / len(played))
        except _Enough:
            pass
        world, choose, remember, wait = timed.times()
        return GameTimes(lanes, world, choose, remember, wait, turns)

    def _learn(self, tell: Tell) -> None:
        kinds = {_kind_of(model): model for model in self._foreign}
        for model in kinds.values():
            found = _time_learning(model, self._config)
            values = {name: getattr(found, name) for name in TOLD}
            tell({"models": [(next(i for i, each in enumerate(self._models) if each is model), values)]})


class _TimedGame:
    """A game, and the seconds of each turn: its own, those of choosing after `decisions`, of remembering after `step`."""

    def __init__(self, game: Playable, enough_s: float) -> None:
        self._game, self._enough_s = game, enough_s
        self._clock, self._second = _Clock(), 0.0
        self._turns: list[list[float]] = []
        self._begin_turn(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._game, name)

    def _begin_turn(self, seen: int) -> None:
        self._seen, self._times = seen, [0.0] * 4

    def _note(self, part: int) -> None:
        busy, waiting = self._clock.split()
        self._times[part] += busy
        self._times[WAIT] += waiting

    def reset(self, lanes: int) -> None:
        self._game.reset(lanes)
        self._clock.split()

    def decisions(self) -> Sequence[Decision] | None:
        self._note(REMEMBER)
        if self._game.turns > self._seen:
            self._turns.append(self._times)
            self._begin_turn(self._game.turns)
            now = time.perf_counter()
            self._second = self._second or now  # began now: in the first, everything is touched for the first time
            is_slow = now - self._second > self._enough_s and len(self._turns) > FEWEST_TURNS
            if is_slow or not self._enough_s or len(self._turns) >= MOST_TURNS or sum(self._turns[0]) > PLAY_S:
                raise _Enough
        found = self._game.decisions()
        self._note(WORLD)
        return found

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        self._note(CHOOSE)
        found = self._game.step(actions)
        self._note(WORLD)
        return found

    def times(self) -> list[float]:
        """The median turn, the first aside if there are others."""
        return [median(column) for column in zip(*(self._turns[1:] or self._turns), strict=True)]
