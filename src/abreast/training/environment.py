"""An environment: a world, the agents in it, and the experiment that lets them learn.

run_experiment, run_experiment_mp   play_and_learn (schedule.py)   who waits for whom
  for each pass over the lanes        collect_pass (actor.py)      reset, then turn after turn
                                      train_round (learner.py)     each agent from its own memory
                                      RunRecord (record.py)        metrics, progress, animations, models
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from abreast.agents import Agent
from abreast.errors import ConfigError
from abreast.models import BaseModel, ModelConfig, ObservationShape, algorithm
from abreast.replay import Buffer
from abreast.settings import OpenSection, Section
from abreast.training.actor import collect_pass, take_turn
from abreast.training.config import Config, parse_config
from abreast.training.crew import Crew
from abreast.training.devices import device_for
from abreast.training.learner import compute_threads
from abreast.training.record import EpochRecord, Logger, RunRecord
from abreast.training.schedule import LAGS, InlineLearners, play_and_learn
from abreast.training.system import MARLMultiprocessingSystem
from abreast.worlds import Gridworld


class RunResult(NamedTuple):
    """What a run came to."""

    epochs: list[EpochRecord]
    folder: Path | None
    """Where it was written, if it was."""
    given_up: Mapping[int, Exception] = MappingProxyType({})
    """Agents whose learner failed once too often, and why; they have stopped learning, the others have not."""


@dataclass(frozen=True)
class Blueprint:
    """How to build an environment again: its class, its world before anything was put into it, its configuration."""

    kind: "type[Environment]"
    world: Gridworld
    config: Config[Any, Any]

    def __call__(self) -> "Environment":
        return self.kind(self.world.copy(), self.config)


class Environment:
    """A world with learning agents in it.

    A game says in `setup_agents` who they are and in `populate_environment` where everything stands; the rest is here.
    `config` is a mapping of sections or a parsed configuration.
    """

    world_section: ClassVar[type[Section]] = OpenSection
    """The settings of the game's world; without one, the section `world` takes any key."""

    world: Any  # a Gridworld; games narrow it to their own
    agents: Any  # a list of Agents; likewise
    _lends_models: list[Agent] | None = None
    _factory: "Callable[[], Environment] | None" = None

    def __init__(self, world: Gridworld, config: Mapping[str, Any] | Config[Any, Any]) -> None:
        self.config = parse_config(config, self.world_section)
        self.world = world
        self.turn = 0
        self.epochs_played = 0
        self.agents = []
        self.world.reseed(self._seed(0))
        self.world.create_world()
        self._blank_world = self.world.copy() if self.config.multiprocessing.lanes > 1 else None
        self._lanes: list[Environment] = [self]
        self._first_lane = 0
        self.setup_agents()
        self._check_independence()
        self.populate_environment()

    # ---- what a game says

    def setup_agents(self) -> None:
        """Fill `self.agents`."""
        raise NotImplementedError(f"{type(self).__name__}.setup_agents says who the agents are.")

    def populate_environment(self) -> None:
        """Put agents and entities into the world, which holds only default entities."""
        raise NotImplementedError(f"{type(self).__name__}.populate_environment says where everything stands.")

    # ---- what a game can use

    def make_model(self, observation: ObservationShape, n_actions: int, agent: int) -> BaseModel:
        """The model that `config.model` asks for, for agent number `agent`, with a random stream of its own."""
        if self._lends_models is not None:
            return self._lends_models[agent].model
        config: ModelConfig = self.config.model
        parallel = self.config.multiprocessing
        seed, device = self.agent_seed(agent), device_for(agent, parallel)
        return algorithm(config.algorithm)(observation, n_actions, config, seed, parallel.lanes, device)

    def agent_seed(self, agent: int) -> np.random.SeedSequence:
        """The seed of agent number `agent`, for models made by hand."""
        return self._seed(1, agent)

    def _seed(self, *path: int) -> np.random.SeedSequence:
        """The seed of one part of the experiment; independent of how many other parts there are."""
        return np.random.SeedSequence(self.config.experiment.seed, spawn_key=path)

    def _check_independence(self) -> None:
        models = [id(agent.model) for agent in self.agents]
        for index, model in enumerate(models):
            if models.index(model) != index:
                raise ConfigError(
                    f"agents {models.index(model)} and {index} have one and the same model, but agents are independent"
                    " learners: make one for each in setup_agents."
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
        """One turn: the world changes by itself, then each agent in order sees, chooses, acts and remembers."""
        take_turn([self])

    @property
    def is_playing(self) -> bool:
        """Whether the epoch goes on: there are turns left and the world is not done."""
        return self.turn < self.config.experiment.max_turns and not self.world.is_done

    @property
    def lanes(self) -> "list[Environment]":
        """This environment and the copies of it that its actor plays beside it, `multiprocessing.num_envs` in all."""
        while len(self._lanes) < self.config.multiprocessing.num_envs:
            self._lanes.append(self._make_lane(self._first_lane + len(self._lanes)))
        return self._lanes

    @property
    def factory(self) -> "Callable[[], Environment]":
        """Builds another environment like this one, wherever there are several actors; can be set to one of your own."""
        if self._factory is None:
            assert self._blank_world is not None, "asked for with a single lane"
            return Blueprint(type(self), self._blank_world, self.config)
        return self._factory

    @factory.setter
    def factory(self, factory: "Callable[[], Environment]") -> None:
        self._factory = factory

    def become_actor(self, number: int) -> None:
        """Play as actor `number` of several: with lanes and random streams of its own. Actor 0 is the one with the agents
        that learn; the others only choose.
        """
        self._first_lane = number * self.config.multiprocessing.num_envs
        self.world.reseed(self._seed(0, self._first_lane))
        for index, agent in enumerate(self.agents):
            agent.lane = self._first_lane
            agent.model.choose_from(self._seed(1, index, number))

    def _make_lane(self, lane: int) -> "Environment":
        """A copy with a world and bodies of its own, whose agents choose with the models of this one."""
        assert self._blank_world is not None
        twin = type(self).__new__(type(self))
        twin._lends_models = self.agents
        twin.__init__(self._blank_world.copy(), self.config)  # type: ignore[misc]
        twin.world.reseed(self._seed(0, lane))
        for own, agent in zip(self.agents, twin.agents, strict=True):
            agent.model, agent.lane = own.model, lane
        return twin

    # ---- experiments

    def run_experiment(
        self,
        animate: bool = True,
        logging: bool = True,
        logger: Logger | None = None,
        output_dir: Path | str | None = None,
    ) -> RunResult:
        """Play and learn for `experiment.epochs` epochs.

        animate: record an animation every `experiment.record_period` epochs.
        logging: show progress and keep metrics, configuration, log and models.
        logger: shown every epoch instead of the progress display; `record_epoch(epoch, loss, reward, epsilon, **more)`.
        output_dir: the run folder, which must not hold another run; left out, a new one under `runs/` in the current
            folder. Without `animate` and `logging` nothing is written.
        """
        threads = compute_threads(self.config.experiment.compute_threads)
        with RunRecord(self, animate, logging, logger, output_dir) as record, threads:
            learners = InlineLearners([agent.model for agent in self.agents])
            play_and_learn(self, Crew(self), learners, LAGS["lockstep"], record)
        return RunResult(record.epochs, record.folder)

    def run_experiment_mp(
        self,
        animate: bool = True,
        logging: bool = True,
        logger: Logger | None = None,
        output_dir: Path | str | None = None,
    ) -> RunResult:
        """Play here and learn in worker processes, as `config.multiprocessing` says; the arguments of `run_experiment`.

        When it returns, the agents hold what they learned, as after `run_experiment`.
        """
        threads = compute_threads(self.config.experiment.compute_threads)
        system = MARLMultiprocessingSystem(self, self.agents, self.config)  # refuses what cannot work, before all else
        with RunRecord(self, animate, logging, logger, output_dir) as record, threads:
            with system:
                system.run(record)
            return RunResult(record.epochs, record.folder, system.given_up)

    def generate_memories(self, num_games: int, output_dir: Path | str | None = None) -> list[Buffer]:
        """Play games without learning and return what each agent experienced, every row of it.

        The agents' own memories stay as they are. With an `output_dir`, each buffer is also written to
        `memories/agent_<i>.npz` there.
        """
        models = [agent.model for agent in self.agents]
        own = [model.memory for model in models]
        rows = num_games * self.config.experiment.max_turns
        with compute_threads(self.config.experiment.compute_threads):
            try:
                for model in models:
                    model.memory = model.memory.empty_copy(max(rows, model.memory.capacity))
                for game in range(num_games):
                    collect_pass([self], game)
                memories = [model.memory for model in models]
            finally:
                for model, memory in zip(models, own, strict=True):
                    model.memory = memory
        if output_dir is not None:
            folder = Path(output_dir) / "memories"
            folder.mkdir(parents=True, exist_ok=True)
            for index, memory in enumerate(memories):
                memory.save(folder / f"agent_{index}.npz")
        return memories
