"""An environment of sorrel's as an experiment of ours: its own object, models and order of things, our loop and folders."""

import logging
from collections.abc import Collection, Mapping
from typing import Any, cast

from abreast.errors import ConfigError, GameError, short
from abreast.integrations.sorrel.game import SorrelGame
from abreast.integrations.sorrel.generators import Generators
from abreast.integrations.sorrel.kept import copy_environment
from abreast.integrations.sorrel.model import SorrelModel, SorrelModelConfig
from abreast.replay import Buffer
from abreast.training.config import Config, ExperimentConfig, MPConfig, parse_config
from abreast.training.experiment import Experiment, check_independence

log = logging.getLogger("abreast")

NEEDED = ("world", "agents", "config", "turn", "reset", "take_turn")


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
        self.env = env
        config = settings if isinstance(settings, Config) else settings_for(env.config, settings or {}, self.name)
        if config.multiprocessing.lanes > 1:
            raise ConfigError(
                f"multiprocessing.num_envs or num_actors is more than 1, but {self.name} can only be played in one lane, by"
                " one actor: agents of sorrel's choose by what is in their memory. Leave it out."
            )
        turns = int(section_of(env.config, "experiment").get("max_turns", config.experiment.max_turns))
        counted = config.experiment.with_derived(num_agents=len(env.agents), max_turns=turns)
        generators = Generators(counted.seed if seeded else None)
        decay = section_of(env.config, "model").get("epsilon_decay")
        models = [SorrelModel(env, agent, generators, decay, config.model) for agent in range(len(env.agents))]
        super().__init__(SorrelGame(env, models, generators), config.with_derived(experiment=counted))

    @property
    def name(self) -> str:
        return type(self.env).__name__

    @property
    def target(self) -> str | None:
        return f"sorrel:{type(self.env).__module__}:{type(self.env).__qualname__}"

    @property
    def has_own_loop(self) -> bool:
        """Whether its environment has another `run_experiment` than the framework's."""
        own = [kind for kind in type(self.env).__mro__ if "run_experiment" in vars(kind)]
        return len(own) > 1

    def make_lanes(self) -> None:
        """There is one. What a user has to know is said here."""
        parameters = [each for agent in self.env.agents for each in getattr(agent.model, "parameters", tuple)()]
        devices = {str(each.device) for each in parameters} - {"cpu"}
        if devices:
            log.warning(
                "models on %s draw from its own generator: the same results are not promised.", ", ".join(devices)
            )
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
            " sequentially, with SorrelExperiment(env).run_experiment or `abreast train` without --parallel; models of"
            " abreast's learn in parallel, once the game is ported (docs/sorrel.md)."
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
    return parse_config(
        {
            "game": given.get("game"),
            "experiment": {**known, **wanted, "max_turns": int(counted["max_turns"])},
            "model": {"algorithm": SorrelModelConfig().algorithm},
            "world": dict(given.get("world") or {}),
            "multiprocessing": given.get("multiprocessing") or {},
        }
    )
