"""From what a user gives as a configuration to settings and tags; everything that is wrong with it is one error."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, get_args

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts import ragen
from abreast.rollouts.config import Preset, RolloutConfig, TagConfig
from abreast.rollouts.files import own_sections, read_config
from abreast.rollouts.registry import Tag, find_tag, tag_settings
from abreast.settings import setting_names

log = logging.getLogger("abreast")


class Loaded(NamedTuple):
    """A configuration, and the tags that it uses."""

    config: RolloutConfig
    tags: dict[str, Tag]


def load_config(given: object, mode: str, played: Sequence[str] = ()) -> Loaded:
    """The settings in a YAML file, a mapping or an OmegaConf object, and the tags that `mode` (train or val) uses.

    `played` are tags that are used in place of these.

    Tags that are not used may be of types that are not there. A single fault is raised as it is, several as one list.
    """
    values = read_config(Path(given)) if isinstance(given, str | Path) else {} if given is None else given
    config, errors = None, list[ConfigError | RolloutError]()
    try:
        config = RolloutConfig.parse(values)
        names, custom, preset = getattr(config.es_manager, mode).env_configs.tags, config.custom_envs, config.preset
    except ConfigError as error:
        errors.append(error)
        names, custom, preset = _usable(values, mode)
        if played:
            names, played = [name for name in played if custom.get(name) is not _FAULTY], ()
    tags: dict[str, Tag] = {}
    for name in dict.fromkeys(played or names):
        try:
            tags[name] = find_tag(name, custom, mode, preset, config.context if config else None)
        except ConfigError as error:
            errors.append(error)
        except RolloutError as error:
            errors.append(RolloutError(f"{error}{_not_found(values)}"))
    if len(errors) == 1:
        raise errors[0]
    if errors or config is None:
        raise ConfigError.of(
            fault for error in errors for fault in (error.faults if isinstance(error, ConfigError) else [str(error)])
        )
    _warn(config, tags)
    return Loaded(config, tags)


def _warn(config: RolloutConfig, tags: Mapping[str, Tag]) -> None:
    """Say what is played otherwise than a configuration of RAGEN asks for."""
    if config.es_manager.render_multi_actions:
        log.warning("es_manager.render_multi_actions has no effect: a turn shows the state after its last action only.")
    for name, tag in tags.items():
        own = tag_settings(name, config.custom_envs, config.preset).preset_under(config.preset)
        key, theirs, ours = ragen.DATA_SETS.get(tag.kind.name, ("", "", ""))
        if own == "ragen" and key and getattr(tag.config, key) is None:
            log.warning(
                "%s: RAGEN plays %s, which no %s names, so %s stand in.", name, theirs, f"env_config.{key}", ours
            )


def _usable(values: Any, mode: str) -> tuple[list[str], dict[str, TagConfig], Preset | None]:
    """Of a configuration with faults: the used tags whose type is known, the settings of all its tags, its preset."""
    if not isinstance(values, Mapping):
        return [], {}, None
    own = own_sections(values, RolloutConfig.model_fields.keys(), setting_names(RolloutConfig)).values
    given: Any = own.get("custom_envs")
    custom, faulty = dict[str, TagConfig](), set[str]()
    for name, settings in given.items() if isinstance(given, Mapping) else ():
        custom[name] = _without_faults(settings) or _FAULTY
        if custom[name] is _FAULTY:
            faulty.add(name)
    names: Any = []
    with suppress(KeyError, TypeError):
        names = own["es_manager"][mode]["env_configs"]["tags"]
    used = names if isinstance(names, list) else []
    preset = own.get("preset")
    usable = [name for name in used if isinstance(name, str) and name not in faulty]
    return usable, custom, preset if preset in get_args(Preset) else None


_FAULTY = TagConfig(env_type="?")
"""Stands for a tag whose type is not known: its name is suggested for misspelt ones."""


def _without_faults(settings: Any) -> TagConfig | None:
    """The settings of a tag without those that are wrong, so that faults in its env_config are found, too."""
    try:
        return TagConfig.parse(settings)
    except ConfigError:
        if not isinstance(settings, Mapping):
            return None
    for kept in (("env_type", "env_config", "context"), ("env_type", "env_config"), ("env_type", "context")):
        with suppress(ConfigError):
            return TagConfig.parse({key: settings[key] for key in kept if key in settings})
    return None


def _not_found(values: Any) -> str:
    """Where a missing tag may be, if the file names others that were not found."""
    absent = values.get("defaults") if isinstance(values, Mapping) else None
    if not absent:
        return ""
    names = ", ".join(str(each) for each in absent)
    return f" (Among the defaults of this configuration, these have no file beside it: {names}.)"
