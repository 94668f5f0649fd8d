"""Settings of environments and of the manager that steps them."""

from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pydantic
from pydantic import Field

from abreast.processes.process import StartMethod
from abreast.rollouts.context.config import ContextConfig
from abreast.settings import Section, read_yaml

MOST_ENVS = 1_000_000
"""Environments in one manager."""


class EnvConfig(Section):
    """Settings every environment has; each environment's own class adds to them."""

    action_lookup: dict[int, str] | None = None
    """Actions by number. With it, names become numbers and unknown ones are dropped; without it, texts are passed on."""

    @pydantic.model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [name.strip().casefold() for name in (self.action_lookup or {}).values()]
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(
                f"action_lookup is {self.action_lookup}: expected names that differ in more than upper and lower case and"
                " blanks, since these are ignored."
            )
        return self

    def knows(self, action: object) -> bool:
        """Whether this is the number of an action (of Python or numpy)."""
        is_number = isinstance(action, int | np.integer) and not isinstance(action, bool)
        return is_number and action in (self.action_lookup or ())


class OpenEnvConfig(EnvConfig):
    """Settings of an environment without a configuration class: every key is accepted."""

    model_config = pydantic.ConfigDict(extra="allow")


class TagConfig(Section):
    """A tag: an environment type with settings, under a name."""

    env_type: str
    """Its type; `abreast envs` lists them."""
    max_actions_per_traj: int = Field(10, ge=1)
    """Actions an episode may take."""
    env_instruction: str | None = None
    """What a language model is told to do; none: the instruction of the type. What states and actions mean is added."""
    max_tokens: int | None = Field(None, ge=1)
    """Tokens a language model may answer with; not used by abreast itself."""
    env_config: dict[str, Any] = Field(default_factory=dict)
    """Settings of the environment."""
    context: dict[str, Any] = Field(default_factory=dict)
    """Keys of the section context that are different for this tag."""


class TagGroups(Section):
    """How many groups of each tag."""

    tags: list[str]
    """Names under custom_envs, or of tags that ship."""
    n_groups: list[int]
    """Groups of each of them."""


class GroupsConfig(Section):
    """Which environments there are."""

    env_groups: int = Field(ge=1)
    """Groups in all."""
    group_size: int = Field(ge=1)
    """Environments in a group; they have the same seed."""
    env_configs: TagGroups
    """Groups by tag."""

    @pydantic.model_validator(mode="after")
    def _adds_up(self) -> Self:
        tags, counts = self.env_configs.tags, self.env_configs.n_groups
        if len(tags) != len(counts):
            raise ValueError(
                f"env_configs has {len(tags)} tags but {len(counts)} n_groups: give one number of groups for each tag."
            )
        if any(count < 1 for count in counts):
            raise ValueError(f"env_configs.n_groups is {counts}: each tag needs at least one group.")
        if self.env_groups * self.group_size > MOST_ENVS:
            raise ValueError(
                f"env_groups is {self.env_groups} and group_size is {self.group_size}: expected {MOST_ENVS:,} environments"
                " at most."
            )
        if sum(counts) != self.env_groups:
            raise ValueError(
                f"env_configs.n_groups {counts} add up to {sum(counts)}, but env_groups is {self.env_groups}:"
                " make them equal."
            )
        return self


def _groups(groups: int, size: int) -> GroupsConfig:
    tags = TagGroups(tags=["SimpleSokoban"], n_groups=[groups])
    return GroupsConfig(env_groups=groups, group_size=size, env_configs=tags)


class EpisodesConfig(Section):
    """Single episodes, begun at any time (`EnvStateManager.episode`)."""

    when_full: Literal["wait", "refuse"] = "wait"
    """What happens if every environment of the tag is in use: the caller waits for one, or gets an error."""
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
    """Worker processes; none: one for each core, at most 8. Threads; none: one for each environment."""
    sequential_env_types: list[str] = Field(default_factory=list)
    """Types whose environments always run in the main process."""
    format_penalty: float = 0.1
    """By how much a turn with an unknown action, or without any, lowers the score; the sign does not matter."""
    step_timeout: float | None = Field(30.0, gt=0)
    """Seconds for one turn; then its worker is killed, or it is interrupted in the main process. None: no limit."""
    start_method: StartMethod = "forkserver"
    """How worker processes are started."""
    worker_memory_mb: int | None = Field(None, ge=1)
    """Memory a worker may allocate; beyond it, allocations raise MemoryError. None: no limit."""
    episodes: EpisodesConfig = Field(default_factory=EpisodesConfig)
    """Single episodes."""
    train: GroupsConfig = Field(default_factory=lambda: _groups(8, 16))
    """Environments to train with."""
    val: GroupsConfig = Field(default_factory=lambda: _groups(256, 1))
    """Environments to validate with."""


class SeedConfig(Section):
    """First seeds."""

    train: int = Field(10_000, ge=0)
    """Seed of the first group in training; every later group gets the next number."""
    val: int = Field(123, ge=0)
    """Seed of the first group in validation, at every reset."""


class RolloutConfig(Section):
    """A whole configuration."""

    seed: SeedConfig = Field(default_factory=SeedConfig)
    """First seeds."""
    es_manager: ManagerConfig = Field(default_factory=ManagerConfig)
    """The manager and its environments."""
    custom_envs: dict[str, TagConfig] = Field(default_factory=dict)
    """Your own tags; they hide tags of the same name that ship."""
    context: ContextConfig = Field(default_factory=ContextConfig)
    """Prompts and answers of language models."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _skips_empty_headings(cls, given: Any) -> Any:
        return {key: value for key, value in given.items() if value is not None} if isinstance(given, dict) else given


def shipped_tags() -> dict[str, TagConfig]:
    """The tags that come with abreast, by name."""
    tags = read_yaml(Path(__file__).parent / "tags.yaml")
    return {name: TagConfig.parse(values) for name, values in tags.items()}
