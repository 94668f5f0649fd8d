"""An environment: a world, the agents in it, and the experiment that lets them learn.

run_experiment   for each epoch:   collect_epoch (actor.py)     reset, then turn after turn
                                   train_round   (learner.py)   each agent from its own memory
                                   record        (record.py)    metrics, progress, animations, models
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from abreast.models import BaseModel, ModelConfig, ObservationShape, algorithm
from abreast.replay import Buffer
from abreast.settings import OpenSection, Section
from abreast.training.actor import collect_epoch
from abreast.training.config import Config, parse_config
from abreast.training.learner import compute_threads, train_round
from abreast.training.record import EpochRecord, Logger, RunRecord
from abreast.worlds import Gridworld


class RunResult(NamedTuple):
    """What a run came to."""

    epochs: list[EpochRecord]
    folder: Path | None
    """Where it was written, if it was."""


class Environment:
    """A world with learning agents in it.

    A game says in `setup_agents` who they are and in `populate_environment` where everything stands; the rest is here.
    `config` is a mapping of sections or a parsed configuration.
    """

    world_section: ClassVar[type[Section]] = OpenSection
    """The settings of the game's world; without one, the section `world` takes any key."""

    world: Any  # a Gridworld; games narrow it to their own
    agents: Any  # a list of Agents; likewise

    def __init__(self, world: Gridworld, config: Mapping[str, Any] | Config[Any, Any]) -> None:
        self.config = parse_config(config, self.world_section)
        self.world = world
        self.turn = 0
        self.epochs_played = 0
        self.agents = []
        self.world.reseed(self._seed(0))
        self.world.create_world()
        self.setup_agents()
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
        config: ModelConfig = self.config.model
        return algorithm(config.algorithm)(observation, n_actions, config, self.agent_seed(agent))

    def agent_seed(self, agent: int) -> np.random.SeedSequence:
        """The seed of agent number `agent`, for models made by hand."""
        return self._seed(1, agent)

    def _seed(self, *path: int) -> np.random.SeedSequence:
        """The seed of one part of the experiment; independent of how many other parts there are."""
        return np.random.SeedSequence(self.config.experiment.seed, spawn_key=path)

    # ---- playing

    def reset(self) -> None:
        """Begin a new epoch: agents as they were at the start, in an empty world, populated again."""
        self.turn = 0
        self.world.create_world()
        for agent in self.agents:
            agent.reset()
        self.populate_environment()

    def take_turn(self) -> None:
        """One turn: the world changes by itself, then each agent in order sees, chooses, acts and remembers."""
        self.turn += 1
        world = self.world
        world.transition()
        if self.config.experiment.turn_order == "sequential":
            for agent in self.agents:
                agent.transition(world)
        else:
            states = [agent.pov(world) for agent in self.agents]
            actions = [agent.get_action(state) for agent, state in zip(self.agents, states, strict=True)]
            for agent, state, action in zip(self.agents, states, actions, strict=True):
                agent.perform(world, state, action)

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
        output_dir: the run folder; left out, a new one under `runs/` in the current folder. Without `animate` and
            `logging` nothing is written.
        """
        experiment, models = self.config.experiment, [agent.model for agent in self.agents]
        with (
            RunRecord(self, animate, logging, logger, output_dir) as record,
            compute_threads(experiment.compute_threads),
        ):
            for epoch in range(self.epochs_played, self.epochs_played + experiment.epochs):
                started = time.perf_counter()
                played = collect_epoch(self, epoch, record.camera(epoch))
                collected = time.perf_counter()
                self.epochs_played += 1
                is_due = self.epochs_played % experiment.train_interval == 0
                losses = train_round(models) if is_due else [None] * len(models)
                trained = time.perf_counter()
                record.epoch(epoch, played, losses, collect_s=collected - started, train_s=trained - collected)
                for model in models:
                    model.epsilon_decay(self.config.model.epsilon_decay)
        return RunResult(record.epochs, record.folder)

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
                    collect_epoch(self, game)
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
