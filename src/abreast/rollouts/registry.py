"""Finding environments: every package in `envs`, every entry point of the group `abreast.envs`, every `register`ed one.

A package exposes `KIND`, an `EnvKind`. An installed package adds its own with

    [project.entry-points."abreast.envs"]
    myenv = "my_package.myenv:KIND"

and a script with the decorator `register`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from abreast.errors import ConfigError, RolloutError, nearest
from abreast.plugins import Plugins
from abreast.rollouts.config import EnvConfig, OpenEnvConfig, TagConfig, shipped_tags

KINDS = Plugins("environment type", "abreast.rollouts.envs", "KIND", "abreast.envs", RolloutError)
T = TypeVar("T", bound=Callable[[Any], Any])

Solver = Callable[[Any, Sequence[Mapping[str, Any]]], list[str]]
"""Called with an environment's configuration and the history of its episode; returns the actions of the next turn."""


@dataclass(frozen=True)
class EnvKind:
    """A type of environment, known by name."""

    name: str
    summary: str
    """One sentence for `abreast envs`."""
    env: Callable[[Any], Any]
    """Makes the environment from its configuration: a class, usually."""
    config: type[EnvConfig]
    instruction: str
    """What a language model is told to do."""
    solver: Solver | None = None
    """A policy that plays well from what it sees alone, if there is one."""


class Tag(NamedTuple):
    """An environment under a name, ready to be made."""

    name: str
    kind: EnvKind
    config: EnvConfig
    budget: int
    """Actions an episode may take."""
    instruction: str


_registered: dict[str, EnvKind] = {}


def register(
    name: str, *, config: type[EnvConfig] = OpenEnvConfig, summary: str = "", instruction: str = ""
) -> Callable[[T], T]:
    """Make an environment class (or a function) known by a name; it is called with its configuration.

    @register("mine", config=MyConfig)
    class MyEnv(gymnasium.Env): ...
    """

    def keep(env: T) -> T:
        _registered[name] = EnvKind(name, summary, env, config, instruction)
        return env

    return keep


def list_kinds() -> list[str]:
    """The names of all types that can be found."""
    return sorted({*KINDS.names(), *_registered})


def find_kind(name: str) -> EnvKind:
    """The type of that name."""
    if name in _registered:
        return _registered[name]
    if name not in KINDS.names():
        raise RolloutError(f"there is no environment type {name!r}: {nearest(name, list_kinds())}")
    kind = KINDS.find(name)
    if not isinstance(kind, EnvKind):
        raise RolloutError(f"the environment type {name!r} is {kind!r}, expected an abreast.rollouts.EnvKind.")
    return kind


def find_tag(name: str, custom: Mapping[str, TagConfig]) -> Tag:
    """The tag of that name: the user's own, or one that ships."""
    known = {**shipped_tags(), **custom}
    if name not in known:
        raise RolloutError(
            f"there is no tag {name!r} under custom_envs or among those that ship: {nearest(name, known)}"
        )
    settings = known[name]
    kind = find_kind(settings.env_type)
    try:
        config = kind.config.parse(settings.env_config)
    except ConfigError as error:
        raise ConfigError(f"env_config of the tag {name!r}: {error}") from None
    return Tag(name, kind, config, settings.max_actions_per_traj, settings.env_instruction or kind.instruction)
