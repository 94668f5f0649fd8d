"""An environment of sorrel's as an experiment of ours: its own object and models, our loop, schedules and run folders."""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, cast

import numpy as np

from abreast.errors import ConfigError, GameError, short
from abreast.integrations.sorrel.calls import EpochCalls
from abreast.integrations.sorrel.carried import Carried
from abreast.integrations.sorrel.game import SorrelGame, SorrelPlayer
from abreast.integrations.sorrel.generators import Generators
from abreast.integrations.sorrel.model import SorrelModel
from abreast.integrations.sorrel.model_config import ADDS_PER_TURN, SorrelModelConfig, model_config
from abreast.training.config import Config, ExperimentConfig, MPConfig, parse_config
from abreast.training.experiment import Experiment, check_independence

log = logging.getLogger("abreast")

Streams = Literal["apart", "shared"]
PLAYING, LEARNING = 8, 9
"""The parts of a seed's spawn key that stand for the generators of playing and of learning."""
NEEDED = ("world", "agents", "config", "turn", "reset", "take_turn")
CALLS = ("_model_start_epoch_action", "_model_end_epoch_action", "_model_train_step")
"""How an environment calls its models; with its own, they cannot learn elsewhere."""

SCHEDULE = "lockstep"
"""Unless another is asked for: there, a plan may leave the models where they are. What learns one pass behind has to be a
copy, and copies of whole models cost what they gain (benchmarks/README.md)."""


class SorrelExperiment(Experiment):
    """Trains the agents of an environment that was written for sorrel, with the models they have.

        SorrelExperiment(env).run_experiment(output_dir="runs/treasure")      sequential
        SorrelExperiment(env, {"multiprocessing": {"schedule": "lockstep"}}).run_experiment_mp()

    settings: sections `experiment` and `multiprocessing` of ours; what they leave out of `experiment` is as in the
        environment's own configuration, which plays `experiment.epochs + 1` epochs.
    streams: "apart": playing, and each agent's learning, draw from generators of their own, which `experiment.seed`
        decides, so that parallel runs give the same result. "shared": all draw from one, as in sorrel's own loop, from
        where NumPy's, Python's and torch's generators are now; for sequential runs.
    """

    has_random_agents = False

    def __init__(
        self, env: Any, settings: Mapping[str, Any] | Config[Any, Any] | None = None, streams: Streams = "apart"
    ) -> None:
        check_environment(env)
        self.env, self.streams = env, streams
        config = (
            settings if isinstance(settings, Config) else settings_for(env.config, settings or {}, type(env).__name__)
        )
        turns = int(section_of(env.config, "experiment").get("max_turns", config.experiment.max_turns))
        max_rows = ADDS_PER_TURN * (turns + 2) * config.experiment.train_interval
        counted = config.experiment.with_derived(num_agents=len(env.agents), max_turns=turns)
        config = config.with_derived(
            experiment=counted, model=model_config(max_rows, [each.model for each in env.agents])
        )
        playing, learning = streams_for(len(env.agents), config.experiment.seed, streams)
        decay = epsilon_decay(env)
        players = [
            SorrelPlayer(
                agent, SorrelModel(Carried(agent.model), own, playing, config.model, decay, EpochCalls(env, agent))
            )
            for agent, own in zip(env.agents, learning, strict=True)
        ]
        super().__init__(SorrelGame(env, players, playing), config)

    @property
    def agents(self) -> "list[SorrelPlayer]":
        """Agents, and their models as training sees them."""
        return list(self.game.players)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        return type(self.env).__name__

    @property
    def target(self) -> str | None:
        return f"sorrel:{type(self.env).__module__}:{type(self.env).__qualname__}"

    def agent_seed(self, agent: int) -> np.random.SeedSequence:
        raise GameError("its environment makes the models")

    def act_at_random(self, but: Collection[int] = ()) -> None:
        if len(but) < len(self.agents):
            raise GameError(
                "agents of sorrel's choose with models of their own, which no random ones can stand in for: train them"
                " (`abreast train`), then watch them (`abreast play RUN`)."
            )

    @property
    def has_own_loop(self) -> bool:
        """Whether its environment has another `run_experiment` than the framework's."""
        own = type(self.env)
        oldest = next((kind for kind in reversed(own.__mro__) if "run_experiment" in vars(kind)), own)
        return getattr(own, "run_experiment", None) is not getattr(oldest, "run_experiment", None)

    def make_lanes(self) -> None:
        self._check_lanes(self.config.multiprocessing)
        devices = {str(each.device) for agent in self.env.agents for each in _parameters(agent.model)} - {"cpu"}
        if devices:
            log.warning(
                "models on %s draw from its own generator: the same results are not promised.", ", ".join(devices)
            )
        if self.has_own_loop:
            log.warning(
                "%s has a run_experiment of its own, which is not used: epochs are played as sorrel's does.", self.name
            )

    def _check_lanes(self, parallel: MPConfig) -> None:
        if parallel.lanes == 1:
            return
        key = "num_envs" if parallel.num_envs > 1 else "num_actors"
        raise ConfigError(
            f"multiprocessing.{key} is {getattr(parallel, key)}, but {self.name} can only be played in one lane, by one"
            " actor: agents of sorrel's choose by what is in their memory. Leave it out; num_workers may be several."
        )

    def check_parallel(self, parallel: MPConfig) -> None:
        """Refuse what its models cannot do apart from their agents."""
        self._check_lanes(parallel)
        if self.streams == "shared":
            raise ConfigError(
                'streams="shared" is for sequential runs: learners that train side by side cannot draw from one generator.'
                ' Leave it out ("apart").'
            )
        if parallel.schedule == "free":
            raise ConfigError(
                "multiprocessing.schedule is free, but models of sorrel's train once an epoch: use lockstep or pipelined."
            )
        if parallel.workers == "threads":
            raise ConfigError(
                "multiprocessing.workers is threads, but models of sorrel's draw from generators that all threads share: use"
                " processes, or inline."
            )
        kind = type(self.env)
        for name in CALLS:
            own = next((each for each in kind.__mro__ if name in vars(each)), None)
            oldest = next((each for each in reversed(kind.__mro__) if name in vars(each)), None)
            if own is not oldest:
                raise ConfigError(
                    f"{own.__name__ if own else kind.__name__}.{name} is its own way to call models, but learners elsewhere"
                    " call start_epoch_action, end_epoch_action and train_step: run it sequentially."
                )


def check_environment(env: Any) -> None:
    """Refuse what is no environment of sorrel's."""
    missing = [name for name in NEEDED if not hasattr(env, name)]
    if missing or not len(env.agents):
        what = f"it has no {', '.join(missing)}" if missing else "it has no agents"
        raise GameError(f"{short(env)} is no environment of sorrel's: {what}.")
    check_independence([agent.model for agent in env.agents])
    for index, agent in enumerate(env.agents):
        if not hasattr(agent.model, "memory"):
            raise GameError(f"the model of agent {index} has no memory: expected one of sorrel's models.")


def _parameters(model: Any) -> list[Any]:
    return list(model.parameters()) if hasattr(model, "parameters") else []


def streams_for(agents: int, seed: int, streams: Streams) -> tuple[Generators, list[Generators]]:
    """The generators of playing, and of each agent's learning."""
    if streams == "shared":
        one = Generators()
        return one, [one] * agents

    def of(*path: int) -> Generators:
        return Generators(np.random.SeedSequence(seed, spawn_key=path))

    return of(PLAYING), [of(LEARNING, agent) for agent in range(agents)]


@contextmanager
def streams_apart(env: Any, seed: int = 0) -> Iterator[None]:
    """Inside, sorrel's own loop draws from the generators that `SorrelExperiment` draws from with this seed: its result is
    the same then, bit for bit.

        with streams_apart(env, seed=0):
            env.run_experiment(animate=False)
    """
    playing, learning = streams_for(len(env.agents), seed, "apart")
    for agent, own in zip(env.agents, learning, strict=True):
        vars(agent.model)["train_step"] = _drawing_from(own, agent.model.train_step)
    try:
        with playing:
            yield
    finally:
        for agent in env.agents:
            del vars(agent.model)["train_step"]


def _drawing_from(generators: Generators, call: Any) -> Any:
    def train_step(*arguments: Any, **named: Any) -> Any:
        with generators:
            return call(*arguments, **named)

    return train_step


def epsilon_decay(env: Any) -> float | None:
    """What epsilon loses after each epoch, if the environment's configuration says so."""
    value = section_of(env.config, "model").get("epsilon_decay")
    return None if value is None else float(value)


def section_of(config: Any, name: str) -> Mapping[str, Any]:
    """A section of a configuration of sorrel's; empty where there is none."""
    found = config.get(name) if hasattr(config, "get") else getattr(config, name, None)
    return cast(Mapping[str, Any], found) if hasattr(found, "keys") else {}


def settings_for(own: Any, given: Mapping[str, Any], name: str) -> Config[Any, Any]:
    """Our settings for an environment with these of its own: those given, over what we know of its own.

    Its loop plays one epoch more than `experiment.epochs` says.
    """
    counted = section_of(own, "experiment")
    if "epochs" not in counted or "max_turns" not in counted:
        raise ConfigError(
            f"the configuration of {name} has no experiment.epochs or no experiment.max_turns: give both."
        )
    known = {key: counted[key] for key in ExperimentConfig.model_fields if key in counted and counted[key] is not None}
    known["epochs"] = int(known["epochs"]) + 1
    wanted = dict(given.get("experiment") or {})
    if wanted.get("max_turns", counted["max_turns"]) != counted["max_turns"]:
        raise ConfigError(
            f"experiment.max_turns is {wanted['max_turns']}, but {name} was built with {counted['max_turns']}:"
            " leave it out."
        )
    parallel = given.get("multiprocessing") or {}
    if isinstance(parallel, MPConfig):
        parallel = parallel.model_dump(exclude_unset=True)
    model = {"algorithm": SorrelModelConfig().algorithm, "epsilon_decay": 0.0}
    return parse_config(
        {
            "game": given.get("game"),
            "experiment": {**known, **wanted, "max_turns": int(counted["max_turns"])},
            "model": model,
            "world": dict(given.get("world") or {}),
            "multiprocessing": {"schedule": SCHEDULE, **dict(parallel)},
        }
    )


def experiment_of(env: Any, config: object) -> SorrelExperiment | None:
    """An environment of sorrel's as an experiment with these parallel settings (`MARLMultiprocessingSystem`); None: it is
    no such environment.
    """
    if not all(hasattr(env, name) for name in NEEDED):
        return None
    parallel = config if isinstance(config, MPConfig) else dict(section_of(config, "multiprocessing"))
    return SorrelExperiment(env, {"multiprocessing": parallel})
