"""An experiment: a game that is played and learned from, in this thread or in workers.

run_experiment, run_experiment_mp   Loop (loop.py)                 who waits for whom
  for each pass over the lanes        collect_pass (collect.py)    reset, then decision after decision
                                      train_round (learners/)      each agent from its own memory
                                      RunRecord (run/record.py)    metrics, display, animations, models
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from abreast.attributes import true_copy
from abreast.errors import ConfigError, WorkerError
from abreast.models import ActionBox, BaseModel, ObservationShape, RandomModel, name_of
from abreast.models import algorithm as find_algorithm
from abreast.plugins import refuse_while_importing
from abreast.replay import Buffer
from abreast.state import copied
from abreast.training.actors.base import actor_state, group_lanes, models_of, set_actor_state
from abreast.training.actors.inline import InlineActors
from abreast.training.collect import collect_pass
from abreast.training.config import Config, MPConfig, parse_config
from abreast.training.devices import check_device_memory, compute_threads, device_for
from abreast.training.learners.base import MakeTrainer, Trainer
from abreast.training.learners.hosted import check_lanes, named, process_backend
from abreast.training.learners.inline import InlineLearners
from abreast.training.run.loggers import AnyLoggers
from abreast.training.run.metrics import EpochRecord
from abreast.training.run.record import RunOptions
from abreast.training.run.session import session
from abreast.training.runnable import Factory
from abreast.training.system import MARLMultiprocessingSystem
from abreast.worlds.playable import Playable


class RunResult(NamedTuple):
    """The result of a run."""

    epochs: list[EpochRecord]
    folder: Path | None
    """Where it was written, if it was."""
    given_up: Mapping[int, WorkerError] = MappingProxyType({})
    """Agents whose learner failed once too often, and why; they have stopped learning, the others have not."""


def check_models(models: Sequence[object]) -> None:
    """Refuse agents that share a model, and models that are not whole."""
    numbers: dict[int, int] = {}
    for agent, model in enumerate(models):
        first = numbers.setdefault(id(model), agent)
        if first != agent:
            raise ConfigError(
                f"agents {first} and {agent} have one and the same model, but agents are independent learners: make one for"
                " each in setup_agents."
            )
        if isinstance(model, BaseModel):
            with named(agent, model):
                model.check_whole()


class Experiment:
    """Trains the players of a game. Anything that keeps the protocol `Playable` can be its game.

    `factory` builds another experiment like this one; it is needed only for several actors.
    """

    game: Playable
    config: Config[Any, Any]
    factory: Factory | None = None
    epochs_played = 0
    trainer: MakeTrainer = Trainer
    """How its models are trained in a sequential run (`joined.py` has another way)."""

    def __init__(
        self, game: Playable, config: Mapping[str, Any] | Config[Any, Any], factory: Factory | None = None
    ) -> None:
        if not isinstance(game, Playable):
            raise ConfigError(
                f"{type(game).__name__} is no Playable: derive it from abreast.worlds.playable.Playable, which has defaults"
                " for all that a game may leave out."
            )
        self.game, self.config, self.factory = game, parse_config(config), factory

    @property
    def target(self) -> str | None:
        """Where its game is found again, if that can be said (`Config.game`)."""
        return None

    @property
    def name(self) -> str:
        """What it is called in messages and folders."""
        return type(self.game).__name__

    @property
    def is_batched(self) -> bool:
        """Whether all lanes are played at once on a device, in a batched world."""
        return False

    # ---- what a game can use

    def make_model(
        self,
        observation: ObservationShape,
        n_actions: int | ActionBox,
        agent: int,
        algorithm: str | type[BaseModel] | None = None,
    ) -> BaseModel:
        """The model that `config.model` asks for, for agent number `agent`, with a random stream of its own.

        algorithm: a name, a class derived from BaseModel, `module:Class` or `file.py:Class`; it wins over
            `model.algorithm`, and what a user gives in `model.per_agent` wins over it.
        """
        config, parallel = self.config.model_of(agent, algorithm), self.config.multiprocessing
        is_chosen = isinstance(algorithm, type) and name_of(algorithm) == config.algorithm
        kind = find_algorithm(algorithm if is_chosen else config.algorithm)
        seed, device = self.agent_seed(agent), device_for(agent, parallel)
        model = kind(observation, n_actions, config, seed, parallel.lanes, device)
        if device != "cpu" and agent == 0:  # before the others are made
            check_device_memory(model, self.config)
        return model

    def agent_seed(self, agent: int) -> np.random.SeedSequence:
        """The seed of agent number `agent`, for models made by hand."""
        return self.seed_of(1, agent)

    def seed_of(self, *path: int) -> np.random.SeedSequence:
        """The seed of one part of the experiment; independent of how many other parts there are."""
        return np.random.SeedSequence(self.config.experiment.seed, spawn_key=path)

    def act_at_random(self, but: Collection[int] = ()) -> None:
        """Give its players models that choose at random; `but` these keep what they have."""
        players: Sequence[Any] = self.game.players
        for number, player in enumerate(players):
            if number not in but:
                lanes, own = self.config.multiprocessing.lanes, player.model
                seed = self.agent_seed(number)
                player.model = RandomModel(own.observation, own.chooses_from, self.config.model, seed, lanes)

    # ---- running it

    def run_experiment(
        self,
        animate: bool = True,
        logging: bool = True,
        logger: AnyLoggers = None,
        output_dir: Path | str | None = None,
        resume: Path | str | None = None,
        debug: bool = False,
        inexact: bool = False,
    ) -> RunResult:
        """Play and learn for `experiment.epochs` epochs.

        animate: film the last pass, the best one, and one every `experiment.record_period` epochs (`run/films.py`).
        logging: show progress and keep metrics, configuration, log and models.
        logger: what is told of every epoch, beside the display; one or several: names ("tensorboard", "wandb", "trackio",
            "csv", "module:Class"), classes, or objects with `record_epoch(epoch, loss, reward, epsilon, **more)`.
        output_dir: the run folder, which must not hold another run; left out, a new one under `runs/` in the current
            folder. Without `animate` and `logging` nothing is written.
        resume: the folder of a run of the same experiment that was stopped, or one of its checkpoints: it goes on there, as
            if it had never stopped.
        debug: everything in this thread, with every check on; the results are the same (docs/how-to/find-a-fault.md).
        inexact: True to resume a run whose checkpoints lack something, with other results than without the stop.
        """
        refuse_while_importing("run_experiment")
        for agent, model in enumerate(models_of(self.game)):
            with named(agent, model):
                check_lanes(model)
        self.make_lanes()
        group_lanes(self.game, self.config.multiprocessing)
        options = RunOptions("lockstep", False, animate, logging, logger, output_dir, resume, debug, inexact)
        with session(self, options) as run:
            settings, models = self.config.experiment, models_of(self.game)
            learners = InlineLearners(
                models, settings.seed, 0, run.rounds, settings.freeze, run.record.checks, self.trainer
            )
            if run.resumed is not None:
                set_actor_state(self.game, run.resumed.actor)
            run.loop(InlineActors(self.game), learners).run(run.until)
            return RunResult(run.record.epochs, run.record.folder)

    def run_experiment_mp(
        self,
        animate: bool = True,
        logging: bool = True,
        logger: AnyLoggers = None,
        output_dir: Path | str | None = None,
        resume: Path | str | None = None,
        debug: bool = False,
        inexact: bool = False,
    ) -> RunResult:
        """Play here and learn in workers, as `config.multiprocessing` says; the arguments of `run_experiment`. What is not
        said there is planned (`plan.py`).

        When it returns, the agents hold what they learned, as after `run_experiment`.
        """
        refuse_while_importing("run_experiment_mp")
        parallel = self.config.multiprocessing.with_derived(**({"workers": "inline"} if debug else {}))
        if parallel.workers == "processes":
            process_backend().warm_up()  # it imports while this process gets ready
        system = MARLMultiprocessingSystem(self, self.game.players, self.config.with_derived(multiprocessing=parallel))
        options = RunOptions(parallel.schedule, True, animate, logging, logger, output_dir, resume, debug, inexact)
        with session(self, options) as run:
            system.start(run)
            try:
                system.run(run)
            finally:
                system.stop()
            return RunResult(run.record.epochs, run.record.folder, system.given_up)

    def check_parallel(self, parallel: MPConfig) -> None:
        """Refuse settings of a parallel run that this experiment cannot keep to; usually there are none."""

    def make_lanes(self) -> None:
        """Make all lanes of the game now, so that what cannot work is refused before anything starts."""

    def twin(self) -> "Experiment":
        """Another experiment like this one, with what its agents have learned and where its game is, to play on."""
        factory = self.factory
        try:
            twin: Any = true_copy(self, {}) if factory is None else factory()
        except ValueError as error:
            raise ConfigError(
                f"{self.name} cannot be evaluated here, because it cannot be copied ({error}): give it a factory, or use"
                " `abreast eval RUN`, which builds another one."
            ) from error
        for model, player in zip(models_of(self.game), twin.game.players, strict=True):
            if type(player.model) is not type(model):  # one that was made by hand
                player.model = model.recipe().build(model.memory.empty_copy())
            player.model.set_learning_state(copied(model.learning_state()))
        twin.make_lanes()
        set_actor_state(twin.game, copied(actor_state(self.game)))
        twin.epochs_played = self.epochs_played
        return twin  # type: ignore[no-any-return]

    def generate_memories(self, num_games: int, output_dir: Path | str | None = None) -> list[Buffer]:
        """Play games without learning and return what each agent experienced, every row of it.

        The agents' own memories stay as they are. With an `output_dir`, each buffer is also written to
        `memories/agent_<i>.safetensors` there.
        """
        own = [model.memory for model in models_of(self.game)]
        rows = num_games * self.config.experiment.max_turns
        memories = [memory.empty_copy(max(rows * memory.lanes, memory.capacity)) for memory in own]
        rings = [memory.use(other.ring) for memory, other in zip(own, memories, strict=True)]
        with compute_threads(self.config.experiment.compute_threads):
            try:
                for game in range(num_games):
                    collect_pass(self.game, game, seed=self.config.experiment.seed)
            finally:
                for memory, ring in zip(own, rings, strict=True):
                    memory.use(ring)
        if output_dir is not None:
            folder = Path(output_dir) / "memories"
            folder.mkdir(parents=True, exist_ok=True)
            for index, memory in enumerate(memories):
                memory.save(folder / f"agent_{index}.safetensors")
        return memories
