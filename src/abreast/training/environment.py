"""An environment: a world, the agents in it, and what a game says about both. How it is run: `experiment.py`."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from abreast.agents import Agent
from abreast.attributes import Made, check_made, differs
from abreast.codec import Names, attributes_of, decode, encode_possible
from abreast.errors import ConfigError, StateError, WorldError, short
from abreast.files import seen_from_here, target_of
from abreast.models import ActionBox, BaseModel, ObservationShape
from abreast.plugins import is_target, split_target
from abreast.settings import Section, merge
from abreast.state import State, join, part_of
from abreast.streams import seeded_globals
from abreast.training.batched import BatchedLanes, batched_lanes_of, is_played_batched
from abreast.training.config import Config, GridSection, parse_config
from abreast.training.experiment import Experiment, check_models
from abreast.training.lanes import GridworldLanes
from abreast.worlds import EmptyEntity, Gridworld
from abreast.worlds.batched import BatchedWorld
from abreast.worlds.playable import as_reward

LEFT_BY_RESET = frozenset(
    {"turn", "total_reward", "is_done", "height", "width", "layers", "default_entity"}
    | {"score", "_pending_reward", "location", "facing", "action_spec"}
)
"""Attributes of ours that a `reset` of a user's may leave as they were, or change for good."""
Script = Callable[[Any, Any], int]
"""How a scripted agent plays: the number of its next action, from the agent and its world."""
BUILDING = 4
"""The part of a seed's spawn key that stands for building an environment."""


@dataclass(frozen=True)
class Blueprint:
    """How to build an environment again: its class, its world before anything was put into it, its configuration."""

    kind: "type[Environment]"
    world: Gridworld
    config: Config[Any, Any]

    def __call__(self) -> "Environment":
        return self.kind(self.world.copy(), self.config)


class Environment(Experiment):
    """A world with learning agents in it.

    A game says in `setup_agents` who they are and in `populate_environment` where everything stands; the rest is here.
    `config` is a mapping of sections or a parsed configuration.
    """

    world_section: ClassVar[type[Section]] = GridSection
    """The settings of the game's world; without one, the section `world` takes any key."""
    defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Settings of a game that has no config.yaml, section by section."""

    batched_world: ClassVar[type[BatchedWorld] | None] = None
    """The same game in many lanes at once, on a GPU (`world.batched`); only of the very class that says so."""

    scripted: ClassVar[Mapping[str, Script]] = MappingProxyType({})
    """What it means to `cooperate` and to `defect` here, for `abreast schelling`."""

    world: Any  # a Gridworld; games narrow it to their own
    agents: Any  # a list of Agents; likewise
    KNOWN: ClassVar[frozenset[str]] = frozenset(
        {"config", "world", "turn", "agents", "game", "epochs_played", "is_batched", "trainer"}
        | {"_blank_world", "_lanes", "_first_lane", "_lends_models", "_factory"}
    )
    """Attributes of this class; any other is a subclass's own."""
    MADE_BY: ClassVar[Made] = (("_first_lane", "__init__"),)
    _lends_models: list[Agent] | None = None
    _factory: "Callable[[], Environment] | None" = None

    def __init__(self, world: Gridworld, config: Mapping[str, Any] | Config[Any, Any]) -> None:
        self.config = parse_config(config, self.world_section)
        self.world = world
        self.turn = 0
        self.agents = []
        self._lanes: list[Environment] = [self]
        self._first_lane = 0
        check_made(self.world)
        self.world.reseed(self.seed_of(0))
        with seeded_globals(self.seed_of(BUILDING)):
            self.world.create_world()
            self._keep_blank_world()
            self.setup_agents()
            self._count_agents()
            self._check_agents()
            self.populate_environment()

    def _keep_blank_world(self) -> None:
        """A copy of the world before anything is put into it, to build lanes from; or why there is none."""
        self._blank_world: Gridworld | WorldError
        try:
            self._blank_world = self.world.copy()
        except WorldError as error:  # told when a lane is needed and there is no factory
            self._blank_world = error

    @property
    def name(self) -> str:
        return type(self).__name__

    @cached_property
    def game(self) -> GridworldLanes | BatchedLanes:  # type: ignore[override]
        """This environment and its lanes, as training sees them."""
        check_made(self)
        return batched_lanes_of(self) if self.is_batched else GridworldLanes(self)

    @cached_property
    def is_batched(self) -> bool:
        """Whether it is played in its batched world (`world.batched`)."""
        is_batched = is_played_batched(self)
        if is_batched and self.config.multiprocessing.lanes > 1:
            self._make_lane(1)  # which refuses what was set after this environment was built
        return is_batched

    @property
    def target(self) -> str | None:
        """Where `find_game` finds this class: MODULE:NAME, or FILE.py:NAME if it comes from the user's main script."""
        return target_of(type(self))

    # ---- what a game says

    @classmethod
    def make(cls, config: Mapping[str, Any] = MappingProxyType({})) -> Self:
        """The environment in a world of its own, with the settings of `defaults` and those given over them."""
        parsed = parse_config(merge(cls.located_defaults(), config), cls.world_section)
        return cls(cls.make_world(parsed), parsed)

    @classmethod
    def located_defaults(cls) -> Mapping[str, Any]:
        """`defaults`, whose files of models and networks lie beside the file that they stand in."""
        owner = next(kind for kind in cls.__mro__ if "defaults" in vars(kind))
        file = getattr(sys.modules.get(owner.__module__), "__file__", None)
        return locate_models(cls.defaults, Path(file or "").parent)

    @classmethod
    def make_world(cls, config: Config[Any, Any]) -> Gridworld:
        """The world before anything is put into it; a plain grid unless a game makes its own."""
        size = {"height": 10, "width": 10, "layers": 1}
        given = {name: getattr(config.world, name, None) for name in size}
        size |= {name: value for name, value in given.items() if value is not None}
        return Gridworld(**size, default_entity=EmptyEntity())

    def setup_agents(self) -> None:
        """Fill `self.agents`."""
        raise NotImplementedError(f"{type(self).__name__}.setup_agents says who the agents are.")

    def populate_environment(self) -> None:
        """Put agents and entities into the world, which holds only default entities.

        It is called once when the environment is built, and again by each `reset`, which begins every epoch, also epoch 0.
        """
        raise NotImplementedError(f"{type(self).__name__}.populate_environment says where everything stands.")

    def after_turn(self) -> Sequence[float] | None:
        """Called when all agents have acted in a turn. May return a joint payoff: one reward for each agent, beside what
        `act` returned; it belongs to the step each has just taken.
        """
        return None

    def metrics(self) -> Mapping[str, float]:
        """Figures of the game's own, asked for at the end of each epoch and kept with its reward; usually none."""
        return {}

    # ---- what a game can use

    def make_model(
        self,
        observation: ObservationShape,
        n_actions: int | ActionBox,
        agent: int,
        algorithm: str | type[BaseModel] | None = None,
    ) -> BaseModel:
        """As every experiment makes it; in a lane that is built beside the first, the one that is there already."""
        if self._lends_models is not None:
            return self._lends_models[agent].model
        return super().make_model(observation, n_actions, agent, algorithm)

    def _count_agents(self) -> None:
        """Let the configuration say how many agents there are; refuse a number that was given and is not that."""
        given, count = self.config.experiment, len(self.agents)
        if count == given.num_agents:
            return
        if not count:
            raise ConfigError(f"{self.name} has no agents: fill self.agents in setup_agents.")
        if "num_agents" in given.model_fields_set:
            raise ConfigError(
                f"experiment.num_agents is {given.num_agents}, but {self.name}.setup_agents made {count} agents: leave the"
                " setting out, or let setup_agents make as many."
            )
        self.config = self.config.with_derived(experiment=given.with_derived(num_agents=count))

    def _check_agents(self) -> None:
        """Refuse agents and models that are not whole, or do not fit each other."""
        for agent in self.agents:
            check_made(agent)
        if self._lends_models is None:
            check_models([agent.model for agent in self.agents])
        for number, agent in enumerate(self.agents):
            if (actions := agent.action_spec.n_actions) != agent.model.n_actions:
                raise ConfigError(
                    f"agent {number} ({type(agent).__name__}) has {actions} actions, but its model was made for"
                    f" {agent.model.n_actions}: in setup_agents, make it by make_model(view, {actions}, agent)."
                )

    # ---- playing

    def reset(self) -> None:
        """Begin a new epoch: agents that owe and own nothing, in an empty world, populated again."""
        self.turn = 0
        self.world.create_world()
        for agent in self.agents:
            agent.reset()
        self.populate_environment()

    def take_turn(self) -> None:
        """One turn: the world changes by itself, then each agent in order sees, chooses, acts and remembers.

        (Runs do the same for all lanes at once, in `lanes.py`.)
        """
        self.turn += 1
        self.world.transition()
        if self.config.experiment.turn_order == "sequential":
            for agent in self.agents:
                agent.transition(self.world)
        else:
            states = [agent.pov(self.world) for agent in self.agents]
            for agent in self.agents:
                agent.note_mask(self.world)
            actions = [agent.get_action(state) for agent, state in zip(self.agents, states, strict=True)]
            for agent, state, action in zip(self.agents, states, actions, strict=True):
                agent.perform(self.world, state, action)
        payoff = self.after_turn()
        for agent, reward in zip(self.agents, payoff if payoff is not None else (), strict=False):
            agent.model.amend(agent.earn(self.world, as_reward(reward)), agent.lane)

    @property
    def is_playing(self) -> bool:
        """Whether the epoch goes on: there are turns left and the world is not done."""
        return self.turn < self.config.experiment.max_turns and not self.world.is_done

    @property
    def lanes(self) -> "list[Environment]":
        """This environment and the copies of it that are played beside it, as many as `multiprocessing` says."""
        return self.first_lanes(self.config.multiprocessing.lanes)

    def first_lanes(self, count: int) -> "list[Environment]":
        """Some of them; those that were not needed before are built now."""
        while len(self._lanes) < count:
            self._lanes.append(self._make_lane(self._first_lane + len(self._lanes)))
        return self._lanes[:count]

    def lane(self, number: int) -> "Environment":
        """One of them, by its number among the lanes of all actors."""
        return self.first_lanes(number - self._first_lane + 1)[-1]

    def make_lanes(self) -> None:
        assert self.game if self.is_batched else self.lanes

    @property
    def factory(self) -> "Callable[[], Environment]":
        """Builds another environment like this one, wherever there are several actors; can be set to one of your own."""
        if self._factory is not None:
            return self._factory
        if isinstance(self._blank_world, WorldError):
            raise self._blank_world
        return Blueprint(type(self), self._blank_world, self.config)

    @factory.setter
    def factory(self, factory: "Callable[[], Environment]") -> None:
        self._factory = None if isinstance(factory, Blueprint) else factory

    def become_actor(self, first_lane: int) -> None:
        """Play lanes from this one on, in a process of its own; the agents only choose there."""
        self._first_lane, self._lanes = first_lane, [self]
        self.world.reseed(self.seed_of(0, first_lane))
        for agent in self.agents:
            agent.lane = first_lane

    def _make_lane(self, lane: int) -> "Environment":
        """A copy with a world and bodies of its own, whose agents choose with the models of this one."""
        if self._factory is not None:
            twin = self._factory()
            if any(twin is each or twin.world is each.world for each in self._lanes):
                raise ConfigError(
                    "the factory returned an environment, or a world, that another lane is played in already: let it build"
                    " new ones."
                )
            if len(twin.agents) != len(self.agents):
                raise ConfigError(
                    f"the environment's factory made {len(twin.agents)} agents, expected {len(self.agents)}."
                )
        else:
            blueprint = self.factory
            assert isinstance(blueprint, Blueprint)
            twin = blueprint.kind.__new__(blueprint.kind)
            twin._lends_models = self.agents
            twin.__init__(blueprint.world.copy(), self.config)  # type: ignore[misc]
            self._check_lane(twin)
        twin.world.reseed(self.seed_of(0, lane))
        for own, agent in zip(self.agents, twin.agents, strict=True):
            agent.model, agent.lane = own.model, lane
        return twin

    def _check_lane(self, twin: "Environment") -> None:
        """Refuse what was set after this environment was built: its lanes are built alike, and would not have it."""
        if self.epochs_played or self.turn:
            return
        for mine, other in ((self, twin), (self.world, twin.world), *zip(self.agents, twin.agents, strict=True)):
            for name, value in vars(mine).items():
                if name not in mine.KNOWN and (name not in vars(other) or differs(value, vars(other)[name])):
                    raise ConfigError(
                        f"{type(mine).__name__}.{name} is {short(value)}, but in an environment that is built for another"
                        f" lane it is {short(vars(other).get(name, 'missing'))}: set it in __init__ or setup_agents, or set"
                        " env.factory to a function that builds the whole environment."
                    )

    # ---- state

    def state(self) -> State:
        """What outlives `reset`, of this lane: what its parts say, and all that users' classes have added to them."""
        return join(world=self.world.state(), own=self._own_state())

    def _own_state(self) -> State:
        """Users' attributes, and those of ours that a user's `reset` may leave; what cannot be kept is in `unkept`."""
        owners = self._owners()
        data, left_out = encode_possible(self._lasting(), self._places(), Names(owners.values()))
        unkept = {path: error.of(type(owners[path.partition(".")[0]]).__name__) for path, error in left_out.items()}
        return State({"unkept": unkept, "kinds": self._kinds()}, {"values": data})

    def _lasting(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, owner in self._owners().items():
            left = {name: value for name, value in vars(owner).items() if name in LEFT_BY_RESET}
            found |= {f"{key}.{name}": value for name, value in {**attributes_of(owner), **left}.items()}
        return found

    def _kinds(self) -> dict[str, str]:
        return {key: f"{type(owner).__module__}.{type(owner).__name__}" for key, owner in self._owners().items()}

    def _owners(self) -> dict[str, Any]:
        return {"env": self, "world": self.world, **{f"agent{number}": each for number, each in enumerate(self.agents)}}

    def _places(self) -> dict[str, object]:
        """What every lane has of its own, for attributes that refer to it."""
        found = {**self._owners(), "world.rng": self.world.rng, "config": self.config, "agents": self.agents}
        for key, owner in self._owners().items():  # settings never change, and are a copy in some lanes
            values = attributes_of(owner).items()
            found |= {f"{key}.{name}": value for name, value in values if isinstance(value, Section)}
        for number, agent in enumerate(self.agents):
            key, model = f"model{number}", agent.model
            found |= {key: model, f"{key}.memory": model.memory, f"{key}.choosing_rng": model.choosing_rng}
        return found

    def set_state(self, state: State) -> None:
        """Play on from where `state` was."""
        self.world.set_state(part_of(state, "world"))
        self._set_own_state(part_of(state, "own"))

    def _set_own_state(self, state: State) -> None:
        for key, kind in self._kinds().items():
            if state.facts["kinds"].get(key) != kind:
                raise StateError(f"the {key} was a {short(state.facts['kinds'].get(key))}, and is a {kind} here.")
        owners, now = self._owners(), self._lasting()
        found = decode(state.arrays["values"], self._places(), Names(owners.values()), now)
        for path in now.keys() - found.keys() - state.facts["unkept"].keys():
            key, _, name = path.partition(".")
            object.__delattr__(owners[key], name)
        for path, value in found.items():
            key, _, name = path.partition(".")
            if key not in owners or name in owners[key].KNOWN - LEFT_BY_RESET:
                raise StateError(f"{path} is in the state, but there is no such attribute of a user's here.")
            object.__setattr__(owners[key], name, value)


def locate_models(sections: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Settings in which `file.py:Class` for a model or a network means a file in this folder, wherever the program runs."""
    return {**sections, "model": locate(sections["model"], folder)} if "model" in sections else sections


def locate(value: Any, folder: Path) -> Any:
    """The same of a single value, and of all that is in a mapping."""
    if isinstance(value, Mapping):
        return {key: locate(inside, folder) for key, inside in value.items()}
    place, colon, name = split_target(value) if isinstance(value, str) and is_target(value) else ("", "", "")
    return f"{seen_from_here(folder / place)}{colon}{name}" if place.endswith(".py") else value
