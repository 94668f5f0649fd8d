"""Environments of sorrel's as experiments of ours: with their own models, or with ours."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from abreast.attributes import true_copy
from abreast.errors import ConfigError, GameError, log, short
from abreast.integrations.adapted.experiment import counting_agents
from abreast.integrations.adapted.lanes import WORLD, AdaptedPlayer, as_seed
from abreast.integrations.sorrel.game import (
    Generators,
    Lane,
    SorrelGame,
    attributes_state,
    parts_of_model,
    set_attributes,
)
from abreast.models import BaseModel, ModelConfig
from abreast.models.observation import PlainObservation
from abreast.replay import Buffer
from abreast.state import State
from abreast.training.config import Config, ExperimentConfig, MPConfig, parse_config
from abreast.training.experiment import Experiment, check_models
from abreast.worlds.playable import as_reward

if TYPE_CHECKING:
    from abreast.integrations.sorrel.source import SorrelSource


NEEDED = ("world", "agents", "config", "turn", "reset", "take_turn")
WITH_OURS = "train models of abreast's in it, one for each agent (model.algorithm=dqn)"
OWN_MODELS = {"algorithm": "abreast.integrations.sorrel.experiment:SorrelModel", "epsilon_decay": 0.0}
"""The section `model` where models are sorrel's: their settings are those of their environment (`world.sorrel`)."""


# ---- with its own models


class SorrelExperiment(Experiment):
    """Trains the agents of an environment that was written for sorrel, with the models they have, one after the other.

        SorrelExperiment(env).run_experiment(output_dir="runs/treasure")

    settings: sections `experiment` and `multiprocessing` of ours; what they leave out of `experiment` is as in the
        environment's own configuration, which plays `experiment.epochs + 1` epochs.
    seeded: the run draws from where `experiment.seed` leads `random`, `numpy.random` and torch to; else from where they are
        when this is made, as `env.run_experiment()` would.
    """

    def __init__(
        self, env: Any, settings: Mapping[str, Any] | Config[Any, Any] | None = None, seeded: bool = True
    ) -> None:
        check_environment(env)
        check_models([agent.model for agent in env.agents])
        self.env = env
        config = settings if isinstance(settings, Config) else settings_for(env, settings or {})
        if config.multiprocessing.lanes > 1:
            raise ConfigError(
                f"multiprocessing.num_envs or num_actors is more than 1, but {self.name} can only be played in one lane, by"
                f" one actor: agents of sorrel's choose by what is in their memory. Leave it out, or {WITH_OURS}."
            )
        lane = Lane(env, Generators(config.experiment.seed if seeded else None))
        lane.seats = [SorrelModel(lane, agent, config.model) for agent in env.agents]
        config = counting_agents(config, self.name, len(env.agents))
        super().__init__(SorrelGame(lambda _: lane, players_with(lane.seats), 1), config, self._copy)

    @property
    def name(self) -> str:
        return type(self.env).__name__

    def make_lanes(self) -> None:
        """There is one. What a user has to know is said here."""
        if len([kind for kind in type(self.env).__mro__ if "run_experiment" in vars(kind)]) > 1:
            log.warning(
                "%s has a run_experiment of its own, which is not used: epochs are played as sorrel's does.", self.name
            )

    def _copy(self) -> "SorrelExperiment":
        """Its factory, for evaluations: the environment may be one that only the user's script can build."""
        return SorrelExperiment(
            true_copy(self.env, {id(torch.default_generator): torch.default_generator}), self.config
        )

    # ---- refused

    def check_parallel(self, parallel: MPConfig) -> None:
        raise ConfigError(
            f"{self.name} has models of sorrel's, which learn where they play (in other processes they were slower): run it"
            " sequentially, with SorrelExperiment(env).run_experiment or `abreast train` without --parallel; or"
            f" {WITH_OURS}, which learn in parallel (docs/how-to/sorrel.md)."
        )

    def act_at_random(self, but: Collection[int] = ()) -> None:
        if len(but) < len(self.env.agents):
            raise GameError(
                "agents of sorrel's choose with models of their own, which no random ones can stand in for: train them"
                " (`abreast train`), then watch them (`abreast play RUN`)."
            )

    def generate_memories(self, num_games: int, output_dir: Any = None) -> list[Buffer]:
        raise GameError(
            "agents of sorrel's remember in memories of their own: call generate_memories of the environment."
        )


class SorrelModel(BaseModel):
    """A model of sorrel's, as the loop of a sequential run calls it: the agent's own object plays and learns. What it is and
    what it remembers is kept with its environment (`game.py`).
    """

    KNOWN = BaseModel.KNOWN | {"lane", "agent", "inner", "decay", "reward"}
    inner: Any = None
    """The agent's own model."""
    reward = 0.0
    decay: float | None = None
    """By how much epsilon is to fall when the round of this epoch has been trained."""

    def __init__(self, lane: Lane, agent: Any, config: ModelConfig) -> None:
        self.lane, self.agent = lane, agent
        shape = getattr(getattr(agent.model.memory, "states", None), "shape", (0, 1))[1:]
        super().__init__(PlainObservation(shape, np.float32, 1.0), actions_of(agent), config, np.random.SeedSequence(0))
        self.inner = agent.model  # only now: its epsilon is not that of our settings

    @property
    def epsilon(self) -> float:
        return float(getattr(self.inner, "epsilon", 0.0))

    @epsilon.setter
    def epsilon(self, value: float) -> None:
        if hasattr(self.inner, "epsilon") and self.epsilon != value:  # which may be an array: it stays one
            self.inner.epsilon = value

    # ---- what the loop calls

    def start_epoch_action(self, *, epoch: int) -> None:
        self.settle()
        self._call("start_epoch_action", epoch=epoch)
        memory, add = self.inner.memory, self.inner.memory.add

        def add_counted(obs: Any, action: Any, reward: Any, *more: Any, **named: Any) -> Any:
            """(No other place has the rewards of a single agent.)"""
            self.reward += float(reward)
            return add(obs, action, reward, *more, **named)

        vars(memory)["add"] = add_counted

    def end_epoch_action(self, *, epoch: int) -> None:
        self.end_episode(0)
        self._call("end_epoch_action", epoch=epoch)

    def end_episode(self, lane: int, done: bool = False) -> None:
        """Called where an epoch ends or is interrupted: its rewards are counted no more."""
        vars(self.inner.memory).pop("add", None)

    def train_step(self) -> float:
        loss = float(self._call("train_step"))
        self.settle()
        return loss

    def epsilon_decay(self, rate: float) -> None:
        """As its environment's settings say, and as in sorrel's own loop, after the round of this epoch."""
        self.decay = section_of(self.lane.env.config, "model").get("epsilon_decay")

    def settle(self) -> None:
        """No round is under way: let epsilon fall, if that is left to do."""
        if self.decay is not None:
            self.inner.epsilon_decay(self.decay)
        self.decay = None

    def _call(self, name: str, **named: Any) -> Any:
        """Call the model as its environment does, which may have its own way (`_model_train_step` and others)."""
        way = getattr(self.lane.env, f"_model_{name}", None)
        with self.lane.generators:
            return getattr(self.inner, name)(**named) if way is None else way(self.agent, *named.values())

    # ---- its state, without that of its agent

    @property
    def file_kind(self) -> str:
        return type(self.inner).__name__

    def learning_state(self) -> State:
        self.settle()
        counted, own = super().learning_state(), attributes_state(parts_of_model(self.inner), self.lane.places())
        return State({**counted.facts, **own.facts}, own.arrays)

    def set_learning_state(self, state: State) -> None:
        super().set_learning_state(State(state.facts))
        set_attributes(parts_of_model(self.inner), self.lane.places(), state)


# ---- with ours


class SorrelLanes(Experiment):
    """Trains models of ours in environments that were written for sorrel, one in each lane: worlds, entities and agents stay
    as they are, and each agent finds one of ours in the place of its model. Each lane has generators of its own.
    """

    game: SorrelGame

    def __init__(self, source: "SorrelSource", config: Config[Any, Any]) -> None:
        self.source, self.factory = source, partial(source.build, config)
        env = source.make_environment(config)  # which is only looked at
        check_environment(env)
        self.config = counting_agents(config, self.name, len(env.agents))
        self.config.check_agents(len(env.agents))
        with Generators(0):
            first = [np.asarray(agent.pov(env.world)) for agent in env.agents]
        models = [
            self.make_model(PlainObservation((seen.size,), np.float32, 1.0), actions_of(agent), number)
            for number, (agent, seen) in enumerate(zip(env.agents, first, strict=True))
        ]
        self.game = SorrelGame(self._make_lane, players_with(models), config.multiprocessing.lanes)

    def _make_lane(self, number: int) -> Lane:
        env = self.source.make_environment(self.config)
        for agent, player in zip(env.agents, self.game.players, strict=True):
            agent.model = OurSeat(player, number)
        generators = Generators(as_seed(self.seed_of(WORLD, number)))
        return Lane(env, generators, number, keeps_models=False, seats=[agent.model for agent in env.agents])

    @property
    def name(self) -> str:
        return self.source.name

    def make_lanes(self) -> None:
        for number in range(self.config.multiprocessing.num_envs):
            self.game.lane(number)


class NoSuchPart(GameError, AttributeError):
    """An agent of sorrel's asks its model for what models of ours have not."""


class OurSeat:
    """What an agent of sorrel's finds where its model was, and where that model's memory was: a model of ours chooses and
    remembers, in one lane. A step that the agent has chosen without its model is not remembered.
    """

    reward = 0.0
    epsilon, n_frames, size, extra_data = 0.0, 1, 0, MappingProxyType[str, Any]({})
    """Ours explores as its own settings say, stacks frames itself, and does not show its rows."""

    def __init__(self, player: AdaptedPlayer, lane: int) -> None:
        self._player, self._lane = player, lane
        self._step: tuple[NDArray[Any], int] | None = None
        """What was seen and chosen, and is not remembered yet."""
        self.memory = self

    def take_action(self, state: Any) -> int:
        model, seen = self._player.model, np.asarray(state, dtype=np.float32).ravel()
        if seen.shape != tuple(model.observation.input_size):
            raise GameError(
                f"{self._player.name} gives its model {seen.size} numbers to choose by, but its first observation had"
                f" {model.observation.input_size[0]}: let `pov` always return as many."
            )
        self._step = seen, model.take_actions([seen], [self._lane])[0]
        return self._step[1]

    def add(self, obs: Any, action: Any, reward: Any, done: Any, **extra: Any) -> None:
        earned = as_reward(reward)
        self.reward += earned
        if self._step is not None:
            seen, chosen = self._step
            self._player.model.remember_all([seen], [chosen], [earned], [bool(done)], [self._lane])
            self._step = None

    def current_state(self) -> NDArray[Any]:
        return np.empty((0, *self._player.model.observation.input_size))

    def _nothing(self, *arguments: Any, **named: Any) -> None:
        """The run does it, for the model."""

    reset = add_empty = set_epsilon = start_epoch_action = end_epoch_action = _nothing

    def __getattr__(self, name: str) -> Any:
        raise NoSuchPart(
            f"{self._player.name} asks its model for {name}, which models of abreast's have not: train it with its own model"
            " (leave model.algorithm out), or port the game (docs/how-to/sorrel.md)."
        )


# ---- both


def players_with(models: Sequence[BaseModel]) -> list[AdaptedPlayer]:
    return [AdaptedPlayer(f"agent {number}", model) for number, model in enumerate(models)]


def actions_of(agent: Any) -> int:
    """How many actions an agent has."""
    found: Any = getattr(getattr(agent, "action_spec", None), "n_actions", None) or agent.model.action_space
    return found if isinstance(found, int) else len(found)


def check_environment(env: Any) -> None:
    """Refuse what is no environment of sorrel's."""
    if missing := [name for name in NEEDED if not hasattr(env, name)]:
        raise GameError(f"{short(env)} is no environment of sorrel's: it has no {', '.join(missing)}.")


def section_of(config: Any, name: str) -> Mapping[str, Any]:
    """A section of a configuration of sorrel's; empty where there is none."""
    found = config.get(name) if hasattr(config, "get") else getattr(config, name, None)
    return cast(Mapping[str, Any], found) if hasattr(found, "keys") else {}


def settings_for(env: Any, given: Mapping[str, Any]) -> Config[Any, Any]:
    """Our settings for an environment that a script has built: those given, over what we know of its own; and where its
    class is.

    Its loop plays one epoch more than `experiment.epochs` says.
    """
    own = section_of(env.config, "experiment")
    known = {key: own[key] for key in ExperimentConfig.model_fields if own.get(key) is not None}
    wanted = {**known, "epochs": int(own["epochs"]) + 1, **section_of(given, "experiment")}
    if wanted["max_turns"] != own["max_turns"]:
        raise ConfigError(
            f"experiment.max_turns is {wanted['max_turns']}, but {type(env).__name__} was built with {own['max_turns']}:"
            " leave it out."
        )
    kind = type(env)
    return parse_config(
        {
            "game": f"sorrel:{kind.__module__}:{kind.__qualname__}",
            "experiment": wanted,
            "model": OWN_MODELS,
            "multiprocessing": section_of(given, "multiprocessing"),
        }
    )
