"""Environments of sorrel's in lanes, as a game that can be trained on (`worlds/playable.py`).

`take_turn` of an environment does all of a turn: its agents see, choose, act and remember in it, with the models they have.
What a lane keeps are all attributes of the environment, its world, its agents and, where they are sorrel's, their models,
as one pickle (`codec.py`), so that what they share stays shared. When it is read, the objects themselves stay: an
environment that a script has built is the one that goes on.
"""

import functools
import inspect
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from PIL import Image

from abreast.attributes import IMMUTABLE
from abreast.codec import Names, Places, decode, encode_possible
from abreast.errors import ConfigError, WorldError
from abreast.integrations.adapted.lanes import AdaptedPlayer, NumberedLanes, as_seed
from abreast.models.own import LEARNED, reseed_generators
from abreast.state import State, join, part_of
from abreast.streams import IN_USE
from abreast.worlds.painting import Scene, ScenePainter
from abreast.worlds.playable import Decision, Late, Outcome, Played

WAY_OUT = "make it where it is used, or train models of abreast's (model.algorithm=dqn)."
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
        models = models_in(self.env)
        for seat in self.seats:
            seat.reward = 0.0
        with self.generators:
            self.env.reset()
        self.epochs += 1
        if models_in(self.env) != models:
            raise ConfigError(
                f"{type(self.env).__name__}.reset makes other models, which have learned nothing: keep those of"
                " setup_agents."
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
        return Played(
            int(env.turn),
            [seat.reward for seat in self.seats],
            {"total_reward": float(env.world.total_reward), **figures},
        )

    def draw_from(self, seed: np.random.SeedSequence) -> None:
        """Let the next epoch follow from a seed, also where it draws from generators of the environment's own."""
        self.generators = Generators(as_seed(seed))
        reseed_generators(self.env, {} if self.keeps_models else models_in(self.env), seed)

    # ---- what is kept

    def state(self) -> State:
        """All that the run has changed, the generators with it."""
        found = attributes_state(self._owners(), self.places())
        return found._replace(facts={**found.facts, "epochs": self.epochs})

    def set_state(self, state: State) -> None:
        set_attributes(self._owners(), self.places(), state)
        self.epochs = int(state.facts["epochs"])

    def _owners(self) -> dict[str, Any]:
        """Whose attributes its state has."""
        agents = {f"agent{number}": agent for number, agent in enumerate(self.env.agents)}
        found = {"env": self.env, "world": self.env.world, **agents, "generators": self.generators}
        for key, model in models_in(self.env).items() if self.keeps_models else ():
            found |= parts_of_model(model, key)
        return found

    def places(self) -> dict[str, Any]:
        """What attributes may refer to."""
        return {**models_in(self.env), **self._owners(), **shared_places(self.env.config)}


class SorrelGame(NumberedLanes):
    """An environment and others like it, each played as `run_experiment` of sorrel's plays it."""

    def __init__(self, make_lane: Callable[[int], Lane], players: Sequence[AdaptedPlayer], lanes: int) -> None:
        self.players: Sequence[AdaptedPlayer] = players
        self.lanes, self.lane = lanes, functools.cache(make_lane)
        """How many there are; and the one with a number, wherever it was played before."""
        self._playing: list[Lane] = []

    def reset(self, lanes: int) -> None:
        self._playing = [self.lane(self.first_lane + index) for index in range(lanes)]
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
            world = self._playing[0].env.world
            empty = world.default_entity.kind
            kinds = [empty, *sorted({entity.kind for entity in world.map.flat} - {empty})]
            return ScenePainter(kinds).paint(Scene.of(world, self._playing[0].env.agents))
        except (WorldError, AttributeError, TypeError, ValueError):  # it has no such map, or no such sprites
            return None

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        for number, seed in enumerate(seeds):
            self.lane(number).draw_from(seed)

    def lane_states(self, lanes: Iterable[int]) -> dict[int, State]:
        return {number: self.lane(number).state() for number in lanes}

    def set_lane_states(self, states: Mapping[int, State]) -> None:
        for number, state in states.items():
            self.lane(number).set_state(state)


# ---- attributes


def models_in(env: Any) -> dict[str, Any]:
    """What its agents choose with."""
    return {f"model{number}": agent.model for number, agent in enumerate(env.agents)}


def parts_of_model(model: Any, key: str = "model") -> dict[str, Any]:
    """The parts of one of sorrel's that stay the objects they are: agents and worlds may refer to them."""
    modules = model.modules() if isinstance(model, torch.nn.Module) else [model]
    return {f"{key}_memory": model.memory, **{f"{key}_{number}": each for number, each in enumerate(modules)}}


def shared_places(config: Any, path: str = "config") -> dict[str, Any]:
    """What is not kept: the configuration, and the generator of the process, which models refer to."""
    found = {"torch.default_generator": torch.default_generator}
    if not isinstance(config, IMMUTABLE):  # a number is one and the same object wherever it occurs
        found[path] = config
    for name, section in config.items_ex(resolve=False) if hasattr(config, "items_ex") else ():  # OmegaConf's
        found |= shared_places(section, f"{path}.{name}")
    return found


def attributes_of(owners: Mapping[str, Any]) -> dict[str, Any]:
    """Their attributes, by names such as `agent0.location`."""
    return join(**{key: State(vars(owner)) for key, owner in owners.items()}).facts


def attributes_state(owners: Mapping[str, Any], places: Places) -> State:
    """All attributes of these objects. What no file can hold is left out; `unkept` has it, with the reason."""
    known = {**places, **owners}
    data, left_out = encode_possible(attributes_of(owners), known, Names(known.values()))
    kinds = {path: type(owners[path.partition(".")[0]]).__name__ for path in left_out}
    unkept = {path: f"{error.of(kinds[path]).rstrip('.')}; {WAY_OUT}" for path, error in left_out.items()}
    return State({"unkept": unkept}, {LEARNED: data})


def set_attributes(owners: Mapping[str, Any], places: Places, state: State) -> None:
    """Give objects the attributes that `attributes_state` found, and no others; what was left out there stays."""
    known = {**places, **owners}
    found = decode(state.arrays[LEARNED], known, Names(known.values()), attributes_of(owners))
    for key, owner in owners.items():
        own, left_out = (part_of(State(each), key).facts for each in (found, state.facts["unkept"]))
        for name in vars(owner).keys() - own.keys() - left_out.keys():
            del vars(owner)[name]
        vars(owner).update(own)
