"""From what a user gives as a configuration to settings and tags; everything that is wrong with it is one error."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from abreast.errors import MOST_FAULTS, ConfigError, RolloutError, log
from abreast.rollouts import ragen
from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.files import own_sections, read_config
from abreast.rollouts.registry import Tag, find_tag, tag_settings
from abreast.settings import setting_names


def load_config(given: object, mode: str, played: Sequence[str] = ()) -> tuple[RolloutConfig, dict[str, Tag]]:
    """The settings in a YAML file, a mapping or an OmegaConf object, and the tags that `mode` (train or val) uses.

    `played` are tags that are used in place of these.

    Tags that are not used may be of types that are not there. A single fault is raised as it is, several as one list.
    """
    values = read_config(Path(given)) if isinstance(given, str | Path) else {} if given is None else given
    errors, faulty, tags = list[ConfigError | RolloutError](), set[str](), dict[str, Tag]()
    try:
        config = RolloutConfig.parse(values)
    except ConfigError as error:
        errors.append(error)
        config, faulty = _usable(values)
    names = played or getattr(config.es_manager, mode).env_configs.tags
    for name in dict.fromkeys(name for name in names if name not in faulty):
        try:
            tags[name] = find_tag(name, config.custom_envs, mode, config.preset, config.context)
        except ConfigError as error:
            errors.append(error)
        except RolloutError as error:
            errors.append(RolloutError(f"{error}{_not_found(values)}"))
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ConfigError.of(
            fault for error in errors for fault in (error.faults if isinstance(error, ConfigError) else [str(error)])
        )
    _warn(config, tags)
    return config, tags


def _warn(config: RolloutConfig, tags: Mapping[str, Tag]) -> None:
    """Say what is played otherwise than a configuration of RAGEN asks for."""
    if config.es_manager.render_multi_actions:
        log.warning("es_manager.render_multi_actions has no effect: a turn shows the state after its last action only.")
    for name, tag in tags.items():
        own = tag_settings(name, config.custom_envs, config.preset).preset_under(config.preset)
        key, theirs, ours = ragen.DATA_SETS.get(tag.kind.name, ("", "", ""))
        is_theirs = own == "ragen" or getattr(tag.config, "dataset", None) is not None
        if is_theirs and key and getattr(tag.config, key) is None:
            log.warning(
                "%s: RAGEN plays %s, which no %s names, so %s stand in.", name, theirs, f"env_config.{key}", ours
            )


def _usable(values: Any) -> tuple[RolloutConfig, set[str]]:
    """What is right in a configuration with faults, and the names of tags that are wrong: of others, all faults are told."""
    if not isinstance(values, Mapping):
        return RolloutConfig(), set()
    own, _ = own_sections(values, RolloutConfig.model_fields.keys(), setting_names(RolloutConfig))
    right, given = copy.deepcopy(own), own.get("custom_envs")
    for _ in range(MOST_FAULTS):
        try:
            config = RolloutConfig.model_validate(right)
            return config, set(given) - set(config.custom_envs) if isinstance(given, Mapping) else set()
        except ValidationError as error:
            _remove(right, error.errors()[0]["loc"])
    return RolloutConfig(), set()


def _remove(values: dict[Any, Any], place: Sequence[int | str]) -> None:
    """Remove what is at a place, or the section that lacks something."""
    holder, inside = values, values
    key: int | str = place[0] if place else ""
    for part in place:
        if not isinstance(inside, dict) or part not in inside:
            break
        holder, key, inside = inside, part, inside[part]
    holder.pop(key, None)


def _not_found(values: Any) -> str:
    """Where a missing tag may be, if the file names others that were not found."""
    absent = values.get("defaults") if isinstance(values, Mapping) else None
    if not absent:
        return ""
    return f" (Among the defaults of this configuration, these have no file beside it: {', '.join(map(str, absent))}.)"
