"""The configuration of an experiment: what is run (`experiment`), who learns (`model`), where (`world`)."""

import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from abreast.cluster.config import TrainingCluster
from abreast.errors import ConfigError, nearest, short
from abreast.models import BaseModel, ModelConfig, algorithm, name_of
from abreast.settings import OpenSection, Section

ScheduleName = Literal["lockstep", "pipelined", "free"]
Sampling = Literal["uniform", "latest", "prioritised"]
M = TypeVar("M", bound=ModelConfig)
W = TypeVar("W", bound=Section)


def number_agents(given: object) -> object:
    """A mapping by the numbers of agents: keys from the command line are text."""
    if not isinstance(given, Mapping):
        return given
    return {key if (number := agent_number(key)) is None else number: value for key, value in given.items()}


BY_AGENT = BeforeValidator(number_agents)


class OpponentsConfig(Section):
    """Settings of opponents that are drawn from a pool of trained agents (docs/how-to/self-play.md)."""

    seats: Annotated[list[int], AfterValidator(lambda given: sorted(set(given)))] = Field(
        default_factory=lambda: [1], min_length=1
    )
    """Agents, by number, that do not learn and get the weights of a member before every pass, where there is a pool."""
    pool: Annotated[list[str], BeforeValidator(lambda given: [given] if isinstance(given, str) else given)] = Field(
        default_factory=list
    )
    """Where members come from: RUN or RUN:4, all checkpoints of a run; self or self:0, this run. Empty: there are none."""
    sample: Sampling = "uniform"
    """How members are drawn: each as likely, only the newest, or those the more often that are not beaten."""
    every: int = Field(50, ge=1)
    """Epochs after which the agents that learn are put into the pool again, if it is self."""


class ExperimentConfig(Section):
    """Settings of a run."""

    epochs: int = Field(1000, ge=1)
    """Episodes to play; where max_steps is given and this is not, as many as there are steps."""
    max_steps: int | None = Field(None, ge=1)
    """Steps of the environment to play, in all lanes: the run ends with the first pass of episodes that reaches them; null:
    epochs alone."""
    max_turns: int = Field(100, ge=1)
    """Turns an episode may last; in a turn every agent acts once."""
    record_period: int = Field(50, ge=1)
    """A film is kept every so many epochs, beside those of the last pass and the best."""
    seed: int = Field(0, ge=0)
    """Random seed: the same seed gives the same run."""
    num_agents: int = Field(5, ge=1, le=100_000)
    """Agents in the world, each with its own model, memory and optimiser."""
    turn_order: Literal["sequential", "simultaneous"] = "sequential"
    """sequential: each agent sees what those before it did; simultaneous: all see and choose first, then act in order."""
    train_interval: int = Field(1, ge=1)
    """Epochs per update of each agent."""
    checkpoint_interval: int | None = Field(None, ge=1)
    """Epochs between two checkpoints; null: by checkpoint_minutes alone. One is also written when a run ends or stops."""
    checkpoint_minutes: float | None = Field(5.0, gt=0)
    """Minutes between two checkpoints; null: by checkpoint_interval alone."""
    keep_checkpoints: int = Field(2, ge=1)
    """How many of the newest checkpoints are kept, beside the one with the highest reward."""
    compute_threads: int = Field(1, ge=1, le=1024)
    """Threads of an update's arithmetic. Results depend on it, by rounding, so it never follows the machine."""
    timeline: bool = True
    """Whether timeline.json in the run folder says what each process did when (`abreast timeline RUN`); costs under 1 %."""
    load_agents: Annotated[dict[int, str], BY_AGENT] = Field(default_factory=dict)
    """Agents that begin with what agents of other runs have learned, say {2: runs/x:4}; without :4, agent 2 of that run."""
    freeze: Annotated[list[int], AfterValidator(lambda given: sorted(set(given)))] = Field(default_factory=list)
    """Agents that choose and do not learn, say [0, 3]; one explores if its own entry in model.per_agent gives epsilon."""
    opponents: OpponentsConfig = Field(default_factory=OpponentsConfig)
    """Agents that do not learn and are drawn from a pool."""

    @property
    def steps(self) -> int:
        """Steps of the environment that a run has at most."""
        return min(self.epochs * self.max_turns, self.max_steps or sys.maxsize)

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.max_steps is not None and "epochs" not in self.model_fields_set:
            object.__setattr__(self, "epochs", self.max_steps)  # an episode has a step at least
        return self

    @model_validator(mode="after")
    def _opponents_are_frozen(self) -> Self:
        if self.opponents.pool:
            object.__setattr__(self, "freeze", sorted({*self.freeze, *self.opponents.seats}))
        return self


class MPConfig(Section):
    """Settings of the parallel run."""

    enabled: bool = False
    """Whether `abreast train` learns in worker processes."""
    mode: Literal["snapshot", "double_buffer"] = "snapshot"
    """How the actor reads published weights: by a copy checked afterwards, or in place, from a slot it holds."""
    schedule: ScheduleName = "pipelined"
    """lockstep: identical to the sequential run; pipelined: full overlap, identical from run to run; free: no waiting."""
    workers: Literal["auto", "processes", "threads", "inline", "ray"] = "auto"
    """Where learners live; inline: one after the other in this thread; auto: where it is fastest here, by measurement; ray:
    where it is fastest on this machine and on the nodes of a Ray cluster."""
    buffer_capacity: int | None = Field(None, ge=1)
    """Overrides model.buffer_capacity, for agents whose own entry in model.per_agent says nothing of it."""
    batch_size: int | None = Field(None, ge=1)
    """Overrides model.batch_size, for agents whose own entry in model.per_agent says nothing of it."""
    learning_rate: float | None = Field(None, gt=0)
    """Overrides model.learning_rate, for agents whose own entry in model.per_agent says nothing of it."""
    train_interval: int | None = Field(None, ge=1)
    """Overrides experiment.train_interval."""
    publish_interval: int = Field(10, ge=1)
    """Updates between two publishes in the schedule free; the others publish after every round."""
    max_updates_per_step: float | None = Field(None, gt=0)
    """Most updates per agent-step in the schedule free, times the agent's priority; null: as many as there is time for."""
    priority: Annotated[dict[int, Annotated[float, Field(gt=0)]], BY_AGENT] = Field(default_factory=dict)
    """Weights of single agents, say {0: 2}; others have 1. free: updates per agent-step; else only who is trained first."""
    num_workers: int | None = Field(None, ge=1)
    """Workers that host the learners; null: as many as are fastest here, not more than agents, nor than two for each GPU."""
    num_envs: int = Field(1, ge=1)
    """Lanes: copies of the environment played side by side, by all actors together; also in the sequential run."""
    num_actors: int | None = Field(None, ge=1)
    """Actors that share the num_envs lanes in equal parts: the first plays here, others in processes; null: as planned."""
    device: str = "auto"
    """Where learners compute: auto (a GPU if there is one), cpu, cuda, cuda:1 … Also in the sequential run."""
    device_per_agent: bool = False
    """Whether agents are dealt out to all GPUs in turn, instead of all using the first."""
    learner_timeout: float = Field(30.0, gt=0)
    """Seconds without a sign of life after which a learner that has something to do is killed and restarted."""
    actor_timeout: float = Field(30.0, gt=0)
    """Seconds without a sign of life after which an actor process is killed and restarted."""
    max_restarts: int = Field(3, ge=0)
    """Restarts of a learner or an actor that dies without progress in between before it is given up. A model of your own, or
    an actor, that raises an error is tried once."""
    cluster: TrainingCluster = Field(default_factory=TrainingCluster)
    """The cluster, where workers is ray."""

    @model_validator(mode="after")
    def _has_shared_memory(self) -> Self:
        if self.workers == "ray" and self.schedule == "free":
            raise ValueError(
                "workers is ray and schedule is free, but free learners look into memory that nodes do not share: set"
                " schedule to pipelined or lockstep."
            )
        return self

    @model_validator(mode="after")
    def _are_shared(self) -> Self:
        if self.num_envs % self.actors:
            raise ValueError(
                f"num_envs is {self.num_envs} and num_actors is {self.num_actors}, but num_envs are the lanes of all actors"
                f" together, shared in equal parts: set num_envs to a multiple of num_actors, say"
                f" {-(-self.num_envs // self.actors) * self.actors}."
            )
        return self

    def weight(self, agent: int) -> float:
        """The priority of an agent."""
        return self.priority.get(agent, 1.0)

    @property
    def actors(self) -> int:
        """How many actors there are; one, unless it is said or planned."""
        return self.num_actors or 1

    @property
    def lanes(self) -> int:
        """How many epochs are played in a pass."""
        return self.num_envs

    @property
    def lanes_per_actor(self) -> int:
        """How many of the lanes each actor plays."""
        return self.num_envs // self.actors

    @classmethod
    def from_experiment_config(cls, config: object) -> "MPConfig":
        """The parallel settings of a whole configuration, in this spelling or the older one (`parallel`)."""
        return config if isinstance(config, MPConfig) else parse_config(config).multiprocessing


class BatchedSection(Section):
    """Settings of worlds that have a batched world beside them."""

    batched: bool | Literal["auto"] = "auto"
    """Whether all lanes are played at once, on the device of the learners, in a batched world; auto: on a GPU, with 32 lanes
    or more, if every model can choose there."""


class GridSection(OpenSection):
    """The settings of a world that does not declare them: the size of a plain grid, and any other key."""

    height: int | None = Field(None, ge=1, le=10_000)
    """Rows; null: 10, unless the game makes its own world."""
    width: int | None = Field(None, ge=1, le=10_000)
    """Columns; null: 10, unless the game makes its own world."""
    layers: int | None = Field(None, ge=1, le=100)
    """Entities in a cell, one above the other; null: 1, unless the game makes its own world."""


USUAL_NAMES = {
    "experiment.epochs": "episodes num_episodes n_episodes num_epochs n_epochs iterations",
    "experiment.max_steps": "steps total_timesteps timesteps total_steps n_timesteps",
    "experiment.max_turns": "turns horizon episode_length max_episode_steps max_cycles",
    "experiment.seed": "random_seed rng_seed",
    "experiment.num_agents": "agents n_agents players num_players n_players",
    "experiment.train_interval": "update_interval update_every",
    "experiment.compute_threads": "threads num_threads n_threads",
    "model.algorithm": "algo method",
    "model.agent_vision_radius": "radius vision vision_radius view view_size",
    "model.n_frames": "frames num_frames frame_stack n_stack",
    "model.epsilon": "eps epsilon_start eps_start exploration exploration_initial_eps",
    "model.epsilon_decay": "eps_decay",
    "model.epsilon_min": "eps_min epsilon_end eps_end final_epsilon min_epsilon exploration_final_eps",
    "model.gamma": "discount discount_factor",
    "model.learning_rate": "lr alpha step_size",
    "model.buffer_capacity": "buffer buffer_size replay_size replay_capacity memory_size capacity",
    "model.batch_size": "batch minibatch minibatch_size",
    "model.gradient_steps": "grad_steps num_updates n_updates",
    "model.train_freq": "train_frequency",
    "model.learning_starts": "warmup warmup_steps start_steps",
    "model.target_rate": "tau polyak",
    "model.target_interval": "target_update_interval target_network_frequency",
    "model.gradient_norm": "grad_norm max_grad_norm grad_clip clip_norm",
    "model.hidden_size": "hidden hidden_dim hidden_units hidden_layer_size layer_size",
    "model.network": "net arch architecture torso policy_network network_type",
    "world.height": "rows",
    "world.width": "columns cols",
    "multiprocessing.enabled": "parallel",
    "multiprocessing.num_workers": "n_workers processes num_processes",
    "multiprocessing.num_envs": "envs n_envs lanes num_lanes",
    "multiprocessing.num_actors": "actors n_actors",
}
"""What others call our settings."""


class Config(Section, Generic[M, W]):
    """A whole configuration; `M` and `W` are the sections of the chosen algorithm and of the game's world."""

    USUAL_NAMES = MappingProxyType({name: key for key, names in USUAL_NAMES.items() for name in names.split()})

    game: str | None = None
    """The game, as `abreast train` finds it: a name, MODULE:NAME or FILE.py. Every run writes it down."""
    experiment: ExperimentConfig = Field(default_factory=ExperimentConfig)
    model: M
    world: W
    multiprocessing: MPConfig = Field(default_factory=MPConfig)

    def __reduce__(self) -> Any:
        """As values, because a class made from parameters cannot be found by name in another process. Only those given:
        what an agent of another algorithm gets depends on which were.
        """
        return parse_config, (self.model_dump(exclude_unset=True), type(self.world))

    def check_agents(self, count: int) -> None:
        """Refuse settings that name agents which are not there."""
        named: Iterable[tuple[str, Iterable[int]]] = (
            ("experiment.load_agents", self.experiment.load_agents),
            ("experiment.opponents.seats", self.experiment.opponents.seats if self.experiment.opponents.pool else ()),
            ("experiment.freeze", self.experiment.freeze),
            ("multiprocessing.priority", self.multiprocessing.priority),
        )
        for key, agents in named:
            for agent in agents:
                if not 0 <= agent < count:
                    raise ConfigError(
                        f"{key} names agent {agent}, but the last agent is {count - 1} (the first is 0): raise"
                        f" experiment.num_agents, which is {count}, or leave it out."
                    )
        if self.experiment.opponents.pool and len(self.experiment.freeze) == count:
            raise ConfigError(
                "experiment.opponents is given, but no agent learns: leave one out of experiment.opponents.seats and"
                " experiment.freeze."
            )

    def model_of(self, agent: int, algorithm: "str | type[BaseModel] | None" = None) -> ModelConfig:
        """All settings of agent number `agent`. `algorithm` is what its game makes it, unless `model.per_agent` says."""
        own: ModelConfig | None = self.model.per_agent.get(agent)
        if own is not None and (algorithm is None or "algorithm" in own.model_fields_set):
            found = own
        elif algorithm is None:
            found = self.model.with_derived(per_agent={}) if self.model.per_agent else self.model
        else:
            found = self._agent_of_game(agent, own or self.model, algorithm)
        return frozen(found, self.gives_epsilon(agent)) if agent in self.experiment.freeze else found

    def gives_epsilon(self, agent: int) -> bool:
        """Whether a frozen agent's own entry in `model.per_agent` says how much it explores."""
        return agent in self.model.per_agent and "epsilon" in self.model.per_agent[agent].model_fields_set

    def _agent_of_game(self, agent: int, given: ModelConfig, name: "str | type[BaseModel]") -> ModelConfig:
        """The settings of an agent whose algorithm its game chooses: those given, as far as this algorithm has them."""
        kind = algorithm(name, f"the algorithm of agent {agent} in make_model")
        where = "model" if given is self.model else f"model.per_agent.{agent}"
        for key in sorted(given.model_fields_set - self.model.model_fields_set - kind.Config.model_fields.keys()):
            raise ConfigError(
                f"{where}.{key} is given, but the game makes agent {agent} a model {name_of(kind)}, which has no {key}:"
                f" leave it out, or give {where}.algorithm too."
            )
        named = name if isinstance(name, str) else name_of(kind)
        return self.settings_of(kind, given, {}, where, named, agent not in self.experiment.freeze)

    def settings_of(
        self,
        kind: type[BaseModel],
        below: ModelConfig,
        own: Mapping[str, Any],
        where: str,
        name: str,
        learns: bool = True,
    ) -> ModelConfig:
        """The settings of an agent with a model of that kind: its own, over those given below that such a model has."""
        inherited = {key: getattr(below, key) for key in below.model_fields_set & kind.Config.model_fields.keys()}
        section = kind.Config.parse({**inherited, **own, "algorithm": name, "per_agent": {}}, where)
        section.model_fields_set.difference_update({"per_agent"}, {"algorithm"} - own.keys())
        section = self.complete(section)
        if learns:
            self.check_learning(section, where)
        return section

    def complete(self, section: ModelConfig) -> ModelConfig:
        """A model's settings with what follows from the experiment: how fast epsilon falls, if that is not given."""
        if section.epsilon_decay is not None or section.exploration_fraction is not None:
            return section
        if self.experiment.max_steps is not None:
            return section.with_derived(exploration_fraction=0.5)
        lowest = section.epsilon_min or section.epsilon / 100
        if section.epsilon <= lowest:
            return section.with_derived(epsilon_decay=0.0)
        half = max(1.0, self.experiment.epochs / 2)
        return section.with_derived(epsilon_decay=1.0 - (lowest / section.epsilon) ** (1 / half))

    def check_learning(self, section: ModelConfig, where: str) -> None:
        """Refuse updates that are counted in two ways, a warm-up that never ends, and a replay that cannot hold what an
        on-policy model learns from.
        """
        for name in ("n_steps", "train_freq"):
            if getattr(section, name, None) and self.experiment.train_interval > 1:
                raise ConfigError(
                    f"{where}.{name} is {getattr(section, name)} and experiment.train_interval is"
                    f" {self.experiment.train_interval}, but updates are counted in rows or in epochs: leave one out."
                )
        steps = self.experiment.steps
        if (starts := getattr(section, "learning_starts", 0)) >= steps:
            raise ConfigError(
                f"{where}.learning_starts is {starts}, but the run has {steps:,} steps at most, so nothing would be learned:"
                " lower it, or raise experiment.epochs or experiment.max_steps."
            )
        lanes, waited_for = self.multiprocessing.lanes, getattr(section, "n_steps", None)
        if waited_for is not None and lanes * (waited_for + self.experiment.max_turns) > section.buffer_capacity:
            raise ConfigError(
                f"{where}.buffer_capacity is {section.buffer_capacity}, but each of {lanes} lanes may hold"
                f" {where}.n_steps {waited_for} rows and then those of an episode of experiment.max_turns"
                f" {self.experiment.max_turns}: raise it to {lanes * (waited_for + self.experiment.max_turns)} or more."
            )
        passes = -(-self.experiment.train_interval // lanes)
        rows = passes * lanes * self.experiment.max_turns
        if section.on_policy and waited_for is None and rows > section.buffer_capacity:
            raise ConfigError(
                f"{where}.buffer_capacity is {section.buffer_capacity}, but {section.algorithm} learns from all"
                f" {rows} rows that {passes * lanes} epochs of experiment.max_turns {self.experiment.max_turns} may have:"
                f" raise it to {rows} or more."
            )


def parse_config(values: object, world_section: type[Section] = OpenSection) -> Config[Any, Any]:
    """The configuration in a mapping of sections (or an instance already), with defaults for what it leaves out."""
    if isinstance(values, Config):
        return values
    sections: dict[str, Any] = dict(values) if isinstance(values, Mapping) else {}
    for section in ("experiment", "model", "world", "multiprocessing"):
        if sections.get(section) is None:  # absent, or an empty heading in a YAML file
            sections[section] = {}
    _apply_overrides(sections)
    name, per_agent = ModelConfig().algorithm, None
    if isinstance(sections["model"], Mapping):
        model = sections["model"] = dict(sections["model"])
        name, per_agent = model.get("algorithm", name), model.pop("per_agent", None)
    whole = Config[algorithm(name).Config, world_section]  # type: ignore[valid-type,misc]
    parsed: Config[Any, Any] = whole.parse(sections if isinstance(values, Mapping) else values)
    parsed.check_agents(parsed.experiment.num_agents)
    agents = _parse_agents(per_agent, parsed) if per_agent else {}
    complete = parsed.complete(parsed.model)
    if len(agents.keys() | set(parsed.experiment.freeze)) < parsed.experiment.num_agents:
        parsed.check_learning(complete, "model")
    return parsed.with_derived(model=complete.model_copy(update={"per_agent": agents}) if agents else complete)


def _parse_agents(per_agent: object, config: Config[Any, Any]) -> dict[int, ModelConfig]:
    """All settings of each agent that has some of its own."""
    agents: dict[int, ModelConfig] = {}
    for agent, own in _by_number(per_agent, config.experiment.num_agents).items():
        where = f"model.per_agent.{agent}"
        name = own.get("algorithm", config.model.algorithm)
        if "per_agent" in own:
            raise ConfigError(f"unknown key {where}.per_agent: an agent's own settings have no others inside.")
        kind, learns = algorithm(name, f"{where}.algorithm"), agent not in config.experiment.freeze
        section = config.settings_of(kind, config.model, own, where, name, learns)
        agents[agent] = section if learns else frozen(section, explores="epsilon" in own)
    return agents


def frozen(section: ModelConfig, explores: bool) -> ModelConfig:
    """The settings of an agent that does not learn: epsilon is 0, or stays what its own entry says (`explores`)."""
    still = section.with_derived(epsilon=section.epsilon if explores else 0.0, epsilon_decay=0.0)
    still.model_fields_set.difference_update(set() if explores else {"epsilon"})  # given for others, not for this one
    return still


def agent_number(key: object) -> int | None:
    """The number of an agent, given as a number or as text; None if it is none."""
    if isinstance(key, bool) or not isinstance(key, int | str):
        return None
    digits = str(key) if isinstance(key, str) or 0 <= key < 10**9 else ""
    return int(digits) if digits.isdecimal() and len(digits) <= 9 else None


def _by_number(per_agent: object, num_agents: int) -> dict[int, dict[str, Any]]:
    """What is given in `model.per_agent`; the same agent in numbers (a file) and as text (the command line) is one."""
    if not isinstance(per_agent, Mapping):
        raise ConfigError(f"model.per_agent is {short(per_agent)}: expected agents and settings, say {EXAMPLE}.")
    given: dict[int, dict[str, Any]] = {}
    for key, own in per_agent.items():
        agent = agent_number(key)
        if agent is None:
            raise ConfigError(
                f"model.per_agent has a key {short(key)}: expected the number of an agent, say {EXAMPLE}."
            )
        if agent >= num_agents:
            raise ConfigError(
                f"model.per_agent.{key} is given, but the last agent is {num_agents - 1} (the first is 0): raise"
                f" experiment.num_agents, which is {num_agents}, or leave it out."
            )
        if own is not None and not isinstance(own, Mapping):
            raise ConfigError(f"model.per_agent.{key} is {short(own)}: expected settings, say {{algorithm: ppo}}.")
        given[agent] = {**given.get(agent, {}), **(own or {})}
    return dict(sorted(given.items()))


EXAMPLE = "{0: {algorithm: ppo}}"


def _apply_overrides(sections: dict[str, Any]) -> None:
    """Bring the older section `parallel` into today's spelling, and parallel overrides to the settings they override."""
    parallel = sections.pop("parallel", None) or {}
    if isinstance(parallel, Mapping) and isinstance(sections["multiprocessing"], Mapping):
        sections["multiprocessing"] = {**_translate_older(parallel), **sections["multiprocessing"]}
    settings = sections["multiprocessing"]
    if not isinstance(settings, Mapping):
        return
    for key, section in OVERRIDES.items():
        if settings.get(key) is not None and isinstance(sections[section], Mapping):
            sections[section] = {**sections[section], key: settings[key]}


OVERRIDES = {
    "buffer_capacity": "model",
    "batch_size": "model",
    "learning_rate": "model",
    "train_interval": "experiment",
}
SAME = ("enabled", "train_interval", "num_workers")
OLDER = (*SAME, "parallel_actions", "parallel_training", "async_learning", "use_threads")


def _translate_older(parallel: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the older spelling means."""
    for key in parallel:
        if key not in OLDER:
            raise ConfigError(f"unknown key parallel.{key}: {nearest(str(key), OLDER)}")
    meant = {key: parallel[key] for key in SAME if key in parallel}
    if "parallel_training" in parallel and not parallel["parallel_training"]:
        meant["workers"] = "inline"
    elif "use_threads" in parallel:
        meant["workers"] = "threads" if parallel["use_threads"] else "processes"
    if "async_learning" in parallel:
        meant["schedule"] = "free" if parallel["async_learning"] else "lockstep"
    return meant
