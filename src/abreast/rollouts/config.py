"""Settings of environments and of the manager that steps them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pydantic
from pydantic import Field

from abreast.cluster.config import RolloutCluster
from abreast.errors import ConfigError
from abreast.processes.fork_server import StartMethod
from abreast.rollouts import ragen
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.files import own_sections
from abreast.settings import Section, read_yaml, setting_names

MOST_ENVS = 1_000_000
"""Environments in one manager."""

Preset = Literal["ragen"]
SPARE_TURNS = 5
"""Where a turn without a valid action is free, an episode has as many more turns than actions, unless max_turns is given."""


class Lenient(Section):
    """A section in which a key without a value counts as not given, as in files of RAGEN."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, given: Any) -> Any:
        is_mapping = isinstance(given, Mapping)
        return {key: value for key, value in given.items() if value is not None} if is_mapping else given


class EnvConfig(Section):
    """Settings every environment has; each environment's own class adds to them."""

    THEIR_KEYS: ClassVar[str] = "none"
    """The section of `ragen.KEYS` that has the keys of RAGEN."""

    action_lookup: dict[int, str] | None = None
    """Actions by number. With it, names become numbers and unknown ones are dropped; without it, texts are passed on."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _own_keys(cls, values: Any) -> Any:
        return ragen.own_keys(values, ragen.KEYS.get(cls.THEIR_KEYS, {}))

    @classmethod
    def own_name(cls, key: str) -> str:
        """The name that a key of RAGEN has here."""
        own = ragen.KEYS.get(cls.THEIR_KEYS, {}).get(key, key)
        return own if isinstance(own, str) else own.file_key or key

    @pydantic.model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [name.strip().casefold() for name in (self.action_lookup or {}).values()]
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(
                f"action_lookup is {self.action_lookup}: expected names that differ in more than upper and lower case and"
                " blanks, since these are ignored."
            )
        return self

    @property
    def is_replayable(self) -> bool:
        """Whether episodes may be rebuilt from seed and actions; a class of environments says it with `replayable`."""
        return True

    def knows(self, action: object) -> bool:
        """Whether this is the number of an action (of Python or numpy)."""
        is_number = isinstance(action, int | np.integer) and not isinstance(action, bool)
        return is_number and action in (self.action_lookup or ())


class OpenEnvConfig(EnvConfig):
    """Settings of an environment without a configuration class: every key is accepted."""

    model_config = pydantic.ConfigDict(extra="allow")


class TagConfig(Lenient):
    """A tag: an environment type with settings, under a name."""

    env_type: str
    """Its type; `abreast envs` lists them."""
    max_actions_per_traj: int = Field(10, ge=1)
    """Actions an episode may take."""
    env_instruction: str | None = None
    """What a language model is told to do; null: the instruction of the type. What states and actions mean is added."""
    max_tokens: int | None = Field(None, ge=1)
    """Tokens a language model may answer with; `abreast rollout --policy openai` sends it as max_tokens. Under
    `preset: ragen` it is what prompts ask for in words (`context.max_words`), and nothing is cut off."""
    parallel_friendly: bool = False
    """A key of RAGEN; without effect, since es_manager.use_multiprocessing decides where environments run."""
    max_workers: int | None = Field(None, ge=1)
    """A key of RAGEN; without effect, since es_manager.max_workers is for all tags together."""
    invalid_turn_cost: int | None = Field(None, ge=0, le=1)
    """Actions that a turn without a valid action costs; null: 1, under `preset: ragen` 0."""
    max_turns: int | None = Field(None, ge=1)
    """Turns after which an episode is cut off; null: no limit, or actions + 5 where invalid turns cost nothing."""
    preset: Preset | Literal["off"] | None = None
    """Rules of another project for this tag; null: the `preset` of the configuration; off: none at all."""
    env_config: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment; null: its defaults."""
    context: dict[str, Any] = Field(default_factory=dict)
    """Keys of the section context that are different for this tag."""

    UNSUPPORTED: ClassVar[Mapping[str, str]] = ragen.unsupported("custom_envs")

    def preset_under(self, preset: str | None) -> str | None:
        """The preset of this tag in a configuration that has one, or none."""
        return {None: preset, "off": None}.get(self.preset, self.preset)


def tag_context(settings: TagConfig, given: ContextConfig | None, preset: str | None, where: str) -> ContextConfig:
    """Prompts and answers of a tag: its own keys, over those of the configuration, over those of the preset."""
    calls = settings.context.get("tools", given is not None and given.tools)  # an answer of calls has no opening tag
    below = {**ragen.CONTEXT, "prefill": ragen.CONTEXT["prefill"] and not calls} if preset == "ragen" else {}
    if below and settings.max_tokens is not None:  # RAGEN tells the model this number, and cuts nothing off
        below = {**below, "max_words": settings.max_tokens}
    return (given or ContextConfig()).between(below, settings.context, where)


class TagGroups(Lenient):
    """How many groups of each tag."""

    tags: list[str] = Field(default_factory=lambda: ["SimpleSokoban"], min_length=1)
    """Names under custom_envs, or of tags that ship."""
    n_groups: list[Annotated[int, Field(ge=1)]] = Field(default_factory=list)
    """Groups of each of them; null: env_groups spread evenly over the tags."""


class GroupsConfig(Lenient):
    """Which environments there are."""

    env_groups: int = Field(8, ge=1)
    """Groups in all; left out: the sum of n_groups, or else 8 for training and 256 for validation."""
    group_size: int = Field(16, ge=1)
    """Environments in a group; they have the same seed. Left out: 16 for training, 1 for validation."""
    env_configs: TagGroups = Field(default_factory=TagGroups)
    """Groups by tag."""

    @pydantic.model_validator(mode="after")
    def _adds_up(self) -> Self:
        tags, counts = self.env_configs.tags, self.env_configs.n_groups
        groups = self.env_groups if not counts or "env_groups" in self.model_fields_set else sum(counts)
        if groups * self.group_size > MOST_ENVS:
            raise ValueError(
                f"env_groups is {groups} and group_size is {self.group_size}: expected {MOST_ENVS:,} environments at most."
            )
        if not counts:
            counts, rest = [groups // len(tags)] * len(tags), groups % len(tags)
            if rest:
                raise ValueError(
                    f"env_groups is {groups}, which cannot be spread evenly over {len(tags)} tags: give"
                    f" env_configs.n_groups, or make env_groups a multiple of {len(tags)}."
                )
        if len(tags) != len(counts):
            raise ValueError(
                f"env_configs has {len(tags)} tags but {len(counts)} n_groups: give one number of groups for each tag."
            )
        if sum(counts) != groups:
            raise ValueError(
                f"env_configs.n_groups {counts} add up to {sum(counts)}, but env_groups is {groups}: make them equal."
            )
        vars(self).update(env_groups=groups, env_configs=self.env_configs.with_derived(n_groups=counts))
        return self


class ValidationGroups(GroupsConfig):
    """As for training, with other defaults."""

    env_groups: int = Field(256, ge=1)
    """Groups in all; left out: the sum of n_groups, or else 256."""
    group_size: int = Field(1, ge=1)
    """Environments in a group; they have the same seed."""


class EpisodesConfig(Section):
    """Single episodes, begun at any time (`EnvStateManager.episode`)."""

    max: int = Field(256, ge=1, le=MOST_ENVS)
    """Environments of a tag that they may have at the same time; each is made when it is first wanted."""
    when_full: Literal["wait", "refuse"] = "wait"
    """What happens if so many are in use: the caller waits for one, or gets an error."""
    wait_timeout: float | None = Field(None, ge=0)
    """Seconds for which a caller waits at most. None: any time."""
    idle_timeout: float | None = Field(600.0, gt=0)
    """Seconds without a call after which an episode is ended, if its environment is wanted. None: never."""


class ManagerConfig(Section):
    """Settings of the manager."""

    use_multiprocessing: bool | Literal["auto", "threads"] = "auto"
    """true: environments run in worker processes; threads: in threads of the main process, for those that wait for a network
    or the like; false: in the main process; auto: measured, where they are faster. A change counts when episodes begin."""
    max_workers: int | None = Field(None, ge=1, le=1024)
    """Worker processes; null: one for each core, at most 8, or as many as a cluster has room for. With `threads`, threads;
    null: one for each environment."""
    sequential_env_types: list[str] = Field(default_factory=list)
    """Types whose environments always run in the main process."""
    format_penalty: float = 0.1
    """By how much a turn with an unknown action, or without any, lowers the score; the sign does not matter."""
    step_timeout: float | None = Field(30.0, gt=0)
    """Seconds for one turn; then its worker is killed, or it is interrupted in the main process. None: no limit."""
    start_method: StartMethod = "forkserver"
    """How worker processes are started."""
    backend: Literal["processes", "ray"] = "processes"
    """What workers are: processes of this machine, or of any node of a Ray cluster (`cluster`)."""
    cluster: RolloutCluster = Field(default_factory=RolloutCluster)
    """The cluster, where backend is ray."""
    timeline: bool = True
    """Whether timeline.json in the run folder of `abreast rollout` says what each process did when; costs under 1 %."""
    worker_memory_mb: int | None = Field(None, ge=1)
    """Memory a worker may allocate; one that runs out of memory is replaced like any that dies. None: no limit."""
    episodes: EpisodesConfig = Field(default_factory=EpisodesConfig)
    """Single episodes."""
    train: GroupsConfig = Field(default_factory=GroupsConfig)
    """Environments to train with."""
    val: ValidationGroups = Field(default_factory=ValidationGroups)
    """Environments to validate with."""

    render_multi_actions: bool = False
    """A key of RAGEN; without effect, since a turn shows the state after its last action only. A warning says so."""

    UNSUPPORTED: ClassVar[Mapping[str, str]] = ragen.unsupported("es_manager")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_what_is_off(cls, given: Any) -> Any:
        """Keys of RAGEN that are switched off are no settings, and groups without a value are the default ones."""
        if not isinstance(given, Mapping):
            return given
        off = {*cls.UNSUPPORTED, *(key for key in ("train", "val") if given.get(key) is None)}
        return {key: value for key, value in given.items() if value or key not in off}


class SeedConfig(Lenient):
    """First seeds."""

    train: int = Field(10_000, ge=0)
    """Seed of the first group in training; every later group gets the next number."""
    val: int = Field(123, ge=0)
    """Seed of the first group in validation, at every reset."""


class RolloutConfig(Lenient):
    """A whole configuration."""

    seed: SeedConfig = Field(default_factory=SeedConfig)
    """First seeds."""
    es_manager: ManagerConfig = Field(default_factory=ManagerConfig)
    """The manager and its environments."""
    custom_envs: dict[str, TagConfig] = Field(default_factory=dict)
    """Your own tags; they hide tags of the same name that ship."""
    context: ContextConfig = Field(default_factory=ContextConfig)
    """Prompts and answers of language models."""
    preset: Preset | None = None
    """ragen: rules, rooms and tags as in RAGEN, where ours differ. It selects settings; those that are given win."""

    @classmethod
    def parse(cls, values: object, where: str = "", foreign: bool = True) -> Self:
        """As `Section.parse`; takes OmegaConf objects too and, if `foreign`, leaves sections of other programs alone."""
        if isinstance(values, cls) or not isinstance(values, Mapping) or not foreign:
            return super().parse(values, where)
        own, unresolved = own_sections(values, cls.model_fields.keys(), setting_names(cls))
        faults = list(unresolved.values())
        try:
            parsed = super().parse(own, where)
        except ConfigError as error:
            told = tuple(f"{key} is " for key in unresolved)
            faults += [each for each in error.faults if not each.startswith(told)]
        if faults:
            raise ConfigError.of(faults)
        return parsed


@cache  # reading YAML takes longer than all else that finding a tag does
def shipped_tags(preset: str | None = None) -> Mapping[str, TagConfig]:
    """The tags that come with abreast, by name; those of a preset hide others of the same name."""
    files = ["tags.yaml", *([f"tags_{preset}.yaml"] if preset else [])]
    tags = {name: tag for file in files for name, tag in read_yaml(Path(__file__).parent / file).items()}
    return MappingProxyType({name: TagConfig.parse(values) for name, values in tags.items()})
