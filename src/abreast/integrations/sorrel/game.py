"""Environments of sorrel's in lanes, as a game that can be trained on (`worlds/playable.py`).

`take_turn` of an environment does all of a turn: its agents see, choose, act and remember in it, with the models they have.
What a lane keeps are all attributes of the environment, its world, its agents and, where they are sorrel's, their models,
as one pickle (`codec.py`), so that what they share stays shared. When it is read, the objects themselves stay: an
environment that a script has built is the one that goes on.
"""

import copy
import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from abreast.attributes import IMMUTABLE, reachable
from abreast.codec import Names, Places, decode, encode_possible
from abreast.errors import ConfigError, StateError, WorldError
from abreast.integrations.adapted.lanes import AdaptedPlayer, as_seed
from abreast.models.own import reseed_generators
from abreast.state import State, join, part_of
from abreast.streams import IN_USE
from abreast.training.lanes import picture_of
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played

WAY_OUT = "make it where it is used, or train models of abreast's (model.algorithm=dqn)."
LEFT_OUT = "left_out"
"""Where a pickle names attributes that are not in it. (All others have a dot in their names.)"""
LARGEST_SEED = 2**32
"""NumPy takes no other."""


class Generators:
    """A place of its own in the three streams that a process shares (NumPy's, Python's, torch's), from which a loop of
    sorrel's draws everything. Inside `with generators:` code draws from there; nothing outside changes it.

    With Generators(seed) it is where `random.seed(seed)`, `numpy.random.seed(seed)` and `torch.manual_seed(seed)` lead to;
    without a seed, where the generators of the process are now.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._place = self._outer = _place()
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin anew."""
        with self:
            random.seed(seed)
            np.random.seed(seed % LARGEST_SEED)  # noqa: NPY002 (the global one is what this is about)
            torch.default_generator.manual_seed(seed % LARGEST_SEED)

    def __enter__(self) -> "Generators":
        IN_USE.acquire()  # of lanes in several threads, one is played at a time
        self._outer = _place()
        _go_to(self._place)
        return self

    def __exit__(self, *error: object) -> None:
        self._place = _place()
        _go_to(self._outer)
        IN_USE.release()


def _place() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state()  # noqa: NPY002


def _go_to(place: tuple[Any, ...]) -> None:
    random.setstate(place[0])
    np.random.set_state(place[1])  # noqa: NPY002
    torch.set_rng_state(place[2])


@dataclass
class Lane:
    """One environment, with a place of its own in the generators that a process shares."""

    env: Any
    generators: Generators
    number: int = 0
    keeps_models: bool = True
    """Whether its agents' models are sorrel's, and part of its state."""
    seats: Sequence[Any] = ()
    """What chooses for each agent: a `SorrelModel`, or an `OurSeat`, with the `reward` of this epoch."""
    epochs: int = 0
    """Begun here."""

    def reset(self) -> None:
        env, models = self.env, models_in(self.env)
        for seat in self.seats:
            seat.settle()
            seat.reward = 0.0
        with self.generators:
            env.reset()
        self.epochs += 1
        if [id(model) for model in models_in(env).values()] != [id(model) for model in models.values()]:
            raise ConfigError(
                f"{type(env).__name__}.reset makes other models, which have learned nothing: keep those of setup_agents."
            )

    @property
    def is_done(self) -> bool:
        """Whether the episode has ended for good."""
        return bool(self.env.turn and self.env.world.is_done and getattr(self.env, "stop_if_done", False))

    @property
    def is_over(self) -> bool:
        return self.is_done or self.env.turn >= self.env.config.experiment.max_turns

    def take_turn(self) -> None:
        with self.generators:
            self.env.take_turn(*[self.epochs - 1][: len(inspect.signature(self.env.take_turn).parameters)])

    def finish(self) -> Played:
        env = self.env
        env.world.is_done = True
        summed_up: Mapping[str, Any] = getattr(env, "_aggregate_epoch_stats", dict)()
        figures = {str(name): float(value) for name, value in summed_up.items() if isinstance(value, Real)}
        rewards = [seat.reward for seat in self.seats]
        return Played(int(env.turn), rewards, {"total_reward": float(env.world.total_reward), **figures})

    def state(self) -> tuple[State, str | None]:
        """All that the run has changed, the generators with it; and why it is not all, if something cannot be kept."""
        for seat in self.seats:
            seat.settle()
        data, left_out = encode_attributes(*self.kept())
        reasons = [f"{reason.rstrip('.')}; {WAY_OUT}" for reason in left_out.values()]
        return State({"epochs": self.epochs}, {"kept": data}), next(iter(reasons), None)

    def set_state(self, state: State) -> None:
        set_attributes(self.kept()[0], state.arrays["kept"], *self.kept()[1:])
        self.epochs = int(state.facts["epochs"])
        with self.generators:  # which refuse a place that is none
            pass

    def kept(self) -> tuple[dict[str, Any], dict[str, Any], Names]:
        """Whose attributes its state has; what else these may refer to; which classes a file may name."""
        owners, models = {**owners_of(self.env), "generators": self.generators}, models_in(self.env)
        owners |= models if self.keeps_models else {}
        names = Names([*owners.values(), *(model.memory for model in models.values())])
        return owners, {**owners, **models, **shared_places(self.env.config)}, names

    def draw_from(self, seed: np.random.SeedSequence) -> None:
        """Let the next epoch follow from a seed, also where it draws from generators of the environment's own."""
        self.generators.seed(as_seed(seed))
        reseed_generators(self.env, {} if self.keeps_models else models_in(self.env), seed)


class SorrelGame(Playable):
    """An environment and others like it, each played as `run_experiment` of sorrel's plays it."""

    plays_by_lane = True

    def __init__(self, make_lane: Callable[[int], Lane], players: Sequence[AdaptedPlayer], lanes: int) -> None:
        self.players: Sequence[AdaptedPlayer] = players
        self._make_lane, self._count, self._first = make_lane, lanes, 0
        self._made: dict[int, Lane] = {}
        self._playing: list[Lane] = []

    def lane(self, number: int) -> Lane:
        """The lane with a number, wherever it was played before."""
        if number not in self._made:
            self._made[number] = self._make_lane(number)
        return self._made[number]

    def become_actor(self, first_lane: int) -> None:
        self._first = first_lane

    def reset(self, lanes: int) -> None:
        self._playing = [self.lane(self._first + index) for index in range(lanes)]
        for lane in self._playing:
            lane.reset()
        self.turns = int(self._playing[0].env.turn)

    def decisions(self) -> Sequence[Decision] | None:
        playing = [lane for lane in self._playing if not lane.is_over]
        for lane in playing:
            lane.take_turn()
        self.turns = int(self._playing[0].env.turn)
        return () if playing else None

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        return (), ()

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        ended = [lane.number for lane in self._playing if lane.is_done]
        late = [Late(agent, lane, terminated=True) for lane in ended for agent in range(len(self.players))]
        return [lane.finish() for lane in self._playing], late

    def picture(self) -> Image.Image | None:
        try:
            return picture_of(self._playing[0].env.world)
        except (WorldError, AttributeError, TypeError, ValueError):  # it has no such map, or no such sprites
            return None

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        for number, seed in enumerate(seeds):
            self.lane(number).draw_from(seed)

    def state(self) -> State:
        return join(**{f"lane{lane}": state for lane, state in self.lane_states(range(self._count)).items()})

    def set_state(self, state: State) -> None:
        self.set_lane_states({lane: part_of(state, f"lane{lane}") for lane in range(self._count)})

    def lane_states(self, lanes: Iterable[int]) -> dict[int, State]:
        found = {number: self.lane(number).state() for number in lanes}
        self.why_not_resumable = next((reason for _, reason in found.values() if reason is not None), None)
        return {number: state for number, (state, _) in found.items()}

    def set_lane_states(self, states: Mapping[int, State]) -> None:
        for number, state in states.items():
            self.lane(number).set_state(state)


# ---- attributes


def owners_of(env: Any) -> dict[str, Any]:
    """The objects whose attributes are kept, beside models."""
    return {"env": env, "world": env.world, **{f"agent{number}": agent for number, agent in enumerate(env.agents)}}


def models_in(env: Any) -> dict[str, Any]:
    """What its agents choose with."""
    return {f"model{number}": agent.model for number, agent in enumerate(env.agents)}


def shared_places(config: Any) -> dict[str, object]:
    """What is not kept: the generator of the process, which models refer to, and the configuration."""
    return {"torch.default_generator": torch.default_generator, **dict(_sections(config, "config"))}


def _sections(config: Any, path: str) -> Iterator[tuple[str, object]]:
    if not isinstance(config, IMMUTABLE):  # a number is one and the same object wherever it occurs
        yield path, config
    for name, section in config.items_ex(resolve=False) if hasattr(config, "items_ex") else ():  # OmegaConf's
        yield from _sections(section, f"{path}.{name}")


def attributes_of(owners: Mapping[str, Any]) -> dict[str, Any]:
    """Their attributes, by names such as `agent0.location`."""
    return {f"{key}.{name}": value for key, owner in owners.items() for name, value in vars(owner).items()}


def encode_attributes(
    owners: Mapping[str, Any], places: Places, names: Names
) -> tuple[NDArray[np.uint8], dict[str, str]]:
    """All attributes of these objects as bytes; and those that cannot be encoded, which are left out, with the reason."""
    values = attributes_of(owners)
    data, left_out = encode_possible({**values, LEFT_OUT: []}, places, names)
    if left_out:
        kept = {path: value for path, value in values.items() if path not in left_out}
        data, _ = encode_possible({**kept, LEFT_OUT: [*left_out]}, places, names)
    return data, {path: error.of(type(_owner(owners, path)[0]).__name__) for path, error in left_out.items()}


def set_attributes(owners: Mapping[str, Any], data: NDArray[np.uint8], places: Places, names: Names) -> None:
    """Give objects the attributes that `encode_attributes` was given, and no others; what was left out there stays."""
    now = attributes_of(owners)
    found = decode(data, places, names, now)
    gone = now.keys() - found.keys() - set(found.pop(LEFT_OUT))
    changes = [(*_owner(owners, path), value) for path, value in found.items()]  # one that does not fit changes nothing
    for owner, name in [_owner(owners, path) for path in gone]:
        del vars(owner)[name]
    for owner, name, value in changes:
        vars(owner)[name] = value


def _owner(owners: Mapping[str, Any], path: str) -> tuple[Any, str]:
    key, _, name = path.partition(".")
    if key not in owners:
        raise StateError(f"{path} is in the state, but there is no such object here.")
    return owners[key], name


def copy_environment(env: Any) -> Any:
    """Another environment like this one, which shares nothing with it; a `ConfigError` says why there is none."""
    common = {"torch.default_generator": torch.default_generator}
    try:
        twin = copy.deepcopy(env, {id(each): each for each in common.values()})
        shared = {id(each) for each in reachable(env, common)} & {id(each) for each in reachable(twin, common)}
        if shared:
            raise ValueError("a function in it would belong to both")
    except Exception as error:
        raise ConfigError(
            f"{type(env).__name__} cannot be evaluated here, because it cannot be copied ({type(error).__name__}: {error}):"
            " use `abreast eval RUN`, which builds another one."
        ) from error
    return twin
