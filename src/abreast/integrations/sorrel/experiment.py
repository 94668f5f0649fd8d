"""Environments of sorrel's as experiments of ours: with their own models, or with ours."""

import logging
from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from abreast.errors import ConfigError, GameError, short
from abreast.integrations.adapted.lanes import WORLD, AdaptedPlayer, as_seed
from abreast.integrations.sorrel.game import Generators, Lane, SorrelGame, copy_environment, models_in
from abreast.integrations.sorrel.model import OWN_MODELS, OurSeat, SorrelModel, actions_of
from abreast.models.observation import PlainObservation
from abreast.replay import Buffer
from abreast.training.config import Config, ExperimentConfig, MPConfig, parse_config
from abreast.training.experiment import Experiment, check_independence

if TYPE_CHECKING:
    from abreast.integrations.sorrel.source import SorrelSource

log = logging.getLogger("abreast")

NEEDED = ("world", "agents", "config", "turn", "reset", "take_turn")
WITH_OURS = "train models of abreast's in it, one for each agent (model.algorithm=dqn)"


class SorrelExperiment(Experiment):
    """Trains the agents of an environment that was written for sorrel, with the models they have, one after the other.

        SorrelExperiment(env).run_experiment(output_dir="runs/treasure")

    settings: sections `experiment` and `multiprocessing` of ours; what they leave out of `experiment` is as in the
        environment's own configuration, which plays `experiment.epochs + 1` epochs.
    seeded: the run draws from where `experiment.seed` leads `random`, `numpy.random` and torch to; else from where they are
        when this is made, as `env.run_experiment()` would.
    """

    has_random_agents = False

    def __init__(
        self, env: Any, settings: Mapping[str, Any] | Config[Any, Any] | None = None, seeded: bool = True
    ) -> None:
        check_environment(env)
        check_models(env)
        self.env = env
        config = settings if isinstance(settings, Config) else settings_for(env, settings or {})
        if config.multiprocessing.lanes > 1:
            raise ConfigError(
                f"multiprocessing.num_envs or num_actors is more than 1, but {self.name} can only be played in one lane, by"
                f" one actor: agents of sorrel's choose by what is in their memory. Leave it out, or {WITH_OURS}."
            )
        turns = int(section_of(env.config, "experiment").get("max_turns", config.experiment.max_turns))
        counted = config.experiment.with_derived(num_agents=len(env.agents), max_turns=turns)
        decay = section_of(env.config, "model").get("epsilon_decay")
        lane = Lane(env, Generators(counted.seed if seeded else None))
        lane.seats = [SorrelModel(lane, agent, decay, config.model) for agent in range(len(env.agents))]
        players = [AdaptedPlayer(f"agent {number}", model) for number, model in enumerate(lane.seats)]
        super().__init__(SorrelGame(lambda _: lane, players, 1), config.with_derived(experiment=counted))

    @property
    def name(self) -> str:
        return type(self.env).__name__

    @property
    def target(self) -> str | None:
        return f"sorrel:{type(self.env).__module__}:{type(self.env).__qualname__}"

    @property
    def has_own_loop(self) -> bool:
        """Whether its environment has another `run_experiment` than the framework's."""
        return len([kind for kind in type(self.env).__mro__ if "run_experiment" in vars(kind)]) > 1

    def make_lanes(self) -> None:
        """There is one. What a user has to know is said here."""
        if self.has_own_loop:
            log.warning(
                "%s has a run_experiment of its own, which is not used: epochs are played as sorrel's does.", self.name
            )

    def twin(self) -> "SorrelExperiment":
        twin = SorrelExperiment(copy_environment(self.env), self.config)
        twin.epochs_played = self.epochs_played
        return twin

    # ---- refused

    def check_parallel(self, parallel: MPConfig) -> None:
        raise ConfigError(
            f"{self.name} has models of sorrel's, which learn where they play (in other processes they were slower): run it"
            " sequentially, with SorrelExperiment(env).run_experiment or `abreast train` without --parallel; or"
            f" {WITH_OURS}, which learn in parallel (docs/coming-from-sorrel.md)."
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


class SorrelLanes(Experiment):
    """Trains models of ours in environments that were written for sorrel, one in each lane: worlds, entities and agents stay
    as they are, and each agent finds one of ours in the place of its model. Each lane has generators of its own.
    """

    game: SorrelGame

    def __init__(self, source: "SorrelSource", config: Config[Any, Any]) -> None:
        self.source, self.factory = source, partial(source.build, config)
        env = source.make_environment(config)  # which is only looked at
        check_environment(env)
        self.config = config.with_derived(experiment=config.experiment.with_derived(num_agents=len(env.agents)))
        self.config.check_agents(len(env.agents))
        with Generators(0):
            sizes = [np.asarray(agent.pov(env.world)).size for agent in env.agents]
        seen = [PlainObservation((size,), np.float32, 1.0) for size in sizes]
        models = [self.make_model(seen[number], actions_of(each), number) for number, each in enumerate(env.agents)]
        players = [AdaptedPlayer(f"agent {number}", model) for number, model in enumerate(models)]
        self.game = SorrelGame(self._make_lane, players, config.multiprocessing.lanes)

    def _make_lane(self, number: int) -> Lane:
        env = self.source.make_environment(self.config)
        for agent, player in zip(env.agents, self.game.players, strict=True):
            agent.model = OurSeat(player, number)
        generators = Generators(as_seed(self.seed_of(WORLD, number)))
        return Lane(env, generators, number, keeps_models=False, seats=[agent.model for agent in env.agents])

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def target(self) -> str | None:
        return self.source.target

    def make_lanes(self) -> None:
        for number in range(self.config.multiprocessing.num_envs):
            self.game.lane(number)


def check_environment(env: Any) -> None:
    """Refuse what is no environment of sorrel's."""
    missing = [name for name in NEEDED if not hasattr(env, name)]
    if missing or not len(env.agents):
        what = f"it has no {', '.join(missing)}" if missing else "it has no agents"
        raise GameError(f"{short(env)} is no environment of sorrel's: {what}.")


def check_models(env: Any) -> None:
    """Refuse models of sorrel's that cannot be trained one by one."""
    try:
        check_independence([*models_in(env).values()])
    except ConfigError as error:
        raise ConfigError(f"{str(error).rstrip('.')}, or {WITH_OURS}.") from None
    for index, agent in enumerate(env.agents):
        if not hasattr(agent.model, "memory"):
            raise GameError(f"the model of agent {index} has no memory: expected one of sorrel's models.")


def section_of(config: Any, name: str) -> Mapping[str, Any]:
    """A section of a configuration of sorrel's; empty where there is none."""
    found = config.get(name) if hasattr(config, "get") else getattr(config, name, None)
    return cast(Mapping[str, Any], found) if hasattr(found, "keys") else {}


def settings_for(env: Any, given: Mapping[str, Any]) -> Config[Any, Any]:
    """Our settings for an environment that a script has built: those given, over what we know of its own.

    Its loop plays one epoch more than `experiment.epochs` says.
    """
    own = section_of(env.config, "experiment")
    if "epochs" not in own or "max_turns" not in own:
        raise ConfigError(
            f"the configuration of {type(env).__name__} has no experiment.epochs or no experiment.max_turns: give both."
        )
    known = {key: own[key] for key in ExperimentConfig.model_fields if own.get(key) is not None}
    wanted = {**known, "epochs": int(own["epochs"]) + 1, **section_of(given, "experiment")}
    if wanted["max_turns"] != own["max_turns"]:
        raise ConfigError(
            f"experiment.max_turns is {wanted['max_turns']}, but {type(env).__name__} was built with {own['max_turns']}:"
            " leave it out."
        )
    parallel = section_of(given, "multiprocessing")
    return parse_config({"experiment": wanted, "model": OWN_MODELS, "multiprocessing": parallel})
