"""Finding environments: every package in `envs`, every entry point of the group `abreast.envs`, every `register`ed one.

A package exposes `KIND`, an `EnvKind`. An installed package adds its own with

    [project.entry-points."abreast.envs"]
    myenv = "my_package.myenv:MyEnv"

and a script adds one with the decorator `register`. Any environment that can be imported is a type too, as MODULE:ENV.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, get_origin

import gymnasium

from abreast.errors import ConfigError, RolloutError, nearest
from abreast.plugins import Plugins, import_target, is_target
from abreast.rollouts.adapters.adapt import Adapted
from abreast.rollouts.config import (
    SPARE_TURNS,
    EnvConfig,
    OpenEnvConfig,
    TagConfig,
    shipped_tags,
    tag_context,
)
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.context.schema import check_schema
from abreast.rollouts.signatures import parameters_of

KINDS = Plugins("environment type", "abreast.rollouts.envs", "KIND", "abreast.envs", RolloutError)
_ID = re.compile(r"-v\d+$")
T = TypeVar("T", bound=Callable[[Any], Any])

Solver = Callable[[Any, Sequence[Mapping[str, Any]]], list[str]]
"""Called with an environment's configuration and the history of its episode; returns the actions of the next turn."""
Legend = Callable[[Any], str]
"""Called with an environment's configuration; returns what its states show and what its actions do."""


@dataclass(frozen=True)
class Tool:
    """A tool that takes an action, for models that call tools."""

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    """JSON schema of each parameter, by name; all are required. `context/schema.py` has the keywords that are supported."""
    action: str
    """The action of a call, with parameters in braces, say `search[{words}]`."""

    def __post_init__(self) -> None:
        for name, schema in self.parameters.items():
            check_schema(schema, f"the parameter {name!r} of the tool {self.name!r}")

    @property
    def arguments(self) -> dict[str, Any]:
        """JSON schema of the arguments together."""
        return {"type": "object", "properties": dict(self.parameters), "required": list(self.parameters)}


@dataclass(frozen=True)
class EnvKind:
    """An environment type."""

    name: str
    summary: str
    """One sentence for `abreast envs`."""
    env: Callable[[Any], Any]
    """Makes the environment from its configuration: a class, usually."""
    config: type[EnvConfig]
    instruction: str
    """What a language model is told to do: the task only."""
    solver: Solver | None = None
    """A policy that plays well from the history alone, if there is one."""
    legend: Legend | None = None
    """What states show and actions do, in the variant that a configuration chooses. The names of actions are added."""
    listed_actions: Callable[[Any], Sequence[str]] | None = None
    """Which names of actions a configuration's instruction lists; none: all. For types whose episodes differ in them."""
    turn_metrics: frozenset[str] | None = None
    """Keys of `info` that are averaged over the turns in `cache["metrics"]`; others are summed. None: all are averaged."""
    by_mode: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Defaults of `env_config` for managers of mode train and val, such as the split that tasks come from."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Defaults of `env_config` under `preset: NAME`; they go before those by mode."""
    address_setting: str | None = None
    """The key of `env_config` that is given after a colon, as in openenv:http://localhost:8000, if there is one."""
    budget_setting: str | None = None
    """The key of `env_config` that is the tag's budget by default, without a preset: for tasks to be made to fit it."""
    tools: Callable[[Any], Sequence[Tool]] | None = None
    """The tools of a configuration's actions; none: one tool that takes any of them. A class that is registered, or named as
    MODULE:ENV, may have it as a method `tools(config)` that needs no instance."""


class Tag(NamedTuple):
    """A tag with its parsed settings."""

    name: str
    kind: EnvKind
    config: EnvConfig
    budget: int
    """Actions an episode may take."""
    instruction: str
    context: ContextConfig = ContextConfig()
    """Prompts and answers, with the tag's own keys."""
    invalid_turn_cost: int = 1
    """Actions that a turn without a valid action costs."""
    max_turns: int | None = None
    """Turns an episode may take."""


registered: dict[str, EnvKind] = {}
"""Types that this program has registered, by name."""


def register(
    name: str,
    *,
    config: type[EnvConfig] = OpenEnvConfig,
    summary: str = "",
    instruction: str = "",
    solver: Solver | None = None,
    legend: Legend | None = None,
) -> Callable[[T], T]:
    """Register an environment class (or a function) under a name; it is called with its configuration.

    @register("mine", config=MyConfig)
    class MyEnv(gymnasium.Env): ...
    """

    def keep(env: T) -> T:
        taken: EnvKind | None = KINDS.find(name) if KINDS.ships(name) else registered.get(name)
        if taken is not None and not _is_new_version(env, taken.env):
            raise RolloutError(f"the environment type {name!r} is taken, by {taken.env!r}: give {env!r} another name.")
        registered[name] = EnvKind(name, summary, env, config, instruction, solver, legend, tools=_tools(env))
        return env

    return keep


def _is_new_version(env: Any, old: Any) -> bool:
    """Whether it has the same name in the same module: that was changed, or imported a second time."""
    mine, its = (
        (str(each.__module__).replace("__mp_main__", "__main__"), getattr(each, "__qualname__", each))
        for each in (env, old)
    )
    return mine == its


def list_kinds() -> list[str]:
    """The names of all types that can be found."""
    return sorted({*KINDS.names(), *registered})


def find_kind(name: str) -> EnvKind:
    """Return the type of that name, or of MODULE:ENV, FILE.py:ENV, or FILE.py with a single environment."""
    if name in registered:
        return registered[name]
    if is_target(name):
        return _as_kind(name, import_target(name, "environment", RolloutError))
    if name not in KINDS.names():
        raise RolloutError(
            f"there is no environment type {name!r}: {nearest(name, list_kinds())} One of your own is known when the module"
            " that registers it has been imported, or as MODULE:ENV."
        )
    return _as_kind(name, KINDS.find(name))


def tag_settings(name: str, custom: Mapping[str, TagConfig], preset: str | None = None) -> TagConfig:
    """The settings of a tag: the user's own, one that ships, or a plain one of the environment type or Gymnasium id."""
    shipped = shipped_tags(preset)
    tags = {**shipped, **custom}
    if name in tags:
        return tags[name]
    types = list_kinds()
    if name not in types and is_gymnasium_id(name) and not takes_address(name):
        return TagConfig(env_type="gymnasium", env_config={"id": name})
    if takes_address(name):
        kind, _, address = name.partition(":")
        return TagConfig(env_type=kind, env_config={str(find_kind(kind).address_setting): address})
    if name not in types and not is_target(name):
        raise RolloutError(
            f"there is no tag or environment type {name!r}: {nearest(name, [*tags, *types])} Tags of your own go under"
            " custom_envs; an environment that can be imported is a type too, as MODULE:ENV."
        )
    plain = TagConfig(env_type=name)
    alike = next((tag for tag in shipped.values() if tag.env_type == name), plain)
    return plain.model_copy(update={"max_actions_per_traj": alike.max_actions_per_traj})


def takes_address(name: str) -> bool:
    """Whether it is a type and the address of an environment of that type elsewhere: openenv:http://localhost:8000."""
    kind, colon, _ = name.partition(":")
    return bool(colon) and kind in list_kinds() and find_kind(kind).address_setting is not None


def is_gymnasium_id(name: str) -> bool:
    """Whether it is registered in Gymnasium, or has the form of its ids: ID-v0, or MODULE:ID-v0."""
    return name.rpartition(":")[2] in gymnasium.registry or _ID.search(name) is not None


def find_tag(
    name: str,
    custom: Mapping[str, TagConfig],
    mode: str = "train",
    preset: str | None = None,
    context: ContextConfig | None = None,
) -> Tag:
    """The tag of that name, for managers of this mode; `preset` is that of the configuration, over which the tag's wins.

    Defaults of `env_config` come from the budget, the mode and the preset, each over the one before; what is given wins.
    Its own keys of `context` are put over those given. Its environments are adapted where they need it.
    """
    settings = tag_settings(name, custom, preset)
    preset = settings.preset_under(preset)
    kind = find_kind(settings.env_type)
    usual, budget = 0 if preset == "ragen" else 1, settings.max_actions_per_traj
    cost = usual if settings.invalid_turn_cost is None else settings.invalid_turn_cost
    faults = list[str]()
    try:
        config = kind.config.parse(_with_defaults(kind, settings, mode, preset))
    except ConfigError as error:
        faults += error.inside(f"env_config of the tag {name!r}").faults
    try:
        told = tag_context(settings, context, preset, f"custom_envs.{name}.context")
    except ConfigError as error:
        faults += error.faults
    if faults:
        raise ConfigError.of(faults)
    kind = replace(kind, env=Adapted(kind.env, mode, is_replayable=config.is_replayable, shows_each=told.tools))
    return Tag(
        name,
        kind,
        config,
        budget,
        settings.env_instruction or kind.instruction,
        told,
        invalid_turn_cost=cost,
        max_turns=settings.max_turns or (None if cost else budget + SPARE_TURNS),
    )


def _with_defaults(kind: EnvKind, settings: TagConfig, mode: str, preset: str | None) -> dict[str, Any]:
    given = settings.env_config
    names = {kind.config.own_name(key) for key in given}
    by_budget = {kind.budget_setting: settings.max_actions_per_traj} if kind.budget_setting and not preset else {}
    defaults = {**by_budget, **kind.by_mode.get(mode, {}), **kind.presets.get(preset or "", {})}
    return {**{key: value for key, value in defaults.items() if key not in names}, **given}


# ---- environments by MODULE:ENV


def _as_kind(name: str, thing: Any) -> EnvKind:
    """The type itself, the type of this environment class, or a new type for it."""
    if inspect.ismodule(thing):
        own = [
            each
            for each in vars(thing).values()
            if isinstance(each, type) and each.__module__ == thing.__name__
            if hasattr(each, "reset") and hasattr(each, "step")
        ]
        if len(own) != 1:
            raise RolloutError(
                f"{name} has {', '.join(each.__name__ for each in own) or 'no class'} with reset and step: name one"
                f" environment, as in {name}:{own[0].__name__ if own else 'NAME'}."
            )
        thing = own[0]
    if isinstance(thing, EnvKind):
        return thing
    shipped: list[EnvKind] = [KINDS.find(each) for each in KINDS.names() if KINDS.ships(each)]
    for kind in (*registered.values(), *shipped):
        if kind.env is thing:
            return kind
    is_env = not inspect.isclass(thing) or (hasattr(thing, "reset") and hasattr(thing, "step"))
    if not callable(thing) or not is_env:
        raise RolloutError(
            f"{name} is {thing!r}: expected an environment class, a factory of environments or an EnvKind."
        )
    make = thing if _takes_config(thing) else partial(_make_by_keywords, thing)
    return EnvKind(
        name, next(iter((inspect.getdoc(thing) or "").splitlines()), ""), make, OpenEnvConfig, "", tools=_tools(thing)
    )


def _tools(env: Any) -> Callable[[Any], Sequence[Tool]] | None:
    tools = inspect.getattr_static(env, "tools", None)
    return env.tools if isinstance(tools, staticmethod | classmethod) else None


def _make_by_keywords(factory: Callable[..., Any], config: OpenEnvConfig) -> Any:
    return factory(**(config.model_extra or {}))


def constructor_settings(kind: EnvKind) -> list[inspect.Parameter]:
    """Return the keyword arguments that `env_config` may hold, of an environment without a configuration class."""
    make = kind.env.make if isinstance(kind.env, Adapted) else kind.env
    if not isinstance(make, partial) or make.func is not _make_by_keywords:
        return []
    return [each for each in (parameters_of(make.args[0]) or {}).values() if each.default is not each.empty]


def text_settings(kind: EnvKind) -> set[str]:
    """Return the keys env.KEY of settings that hold a text, as the constructor or the configuration class declares them."""
    declared = {
        **{each.name: (each.annotation, each.default) for each in constructor_settings(kind)},
        **{key: (field.annotation, field.default) for key, field in kind.config.model_fields.items()},
    }
    return {f"env.{key}" for key, (annotation, default) in declared.items() if _is_text(annotation, default)}


def _is_text(annotation: Any, default: Any) -> bool:
    """Return True if a parameter is declared as a text; without an annotation that is evaluated, its default decides."""
    is_open = annotation is inspect.Parameter.empty or isinstance(annotation, str) or get_origin(annotation) is Literal
    return isinstance(default, str) if is_open else annotation in (str, str | None)


def _takes_config(factory: Callable[..., Any]) -> bool:
    """Whether to call it with a configuration: if its first argument has no default, or is named config. Else: keywords."""
    given = (parameters_of(factory) or {}).values()
    by_place = [each for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return bool(by_place) and (by_place[0].default is inspect.Parameter.empty or by_place[0].name == "config")
