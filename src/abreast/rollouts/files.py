"""Configurations as users have them: YAML files with Hydra's `defaults`, OmegaConf objects, files of other programs.

 file ──read_config──▶ mapping ──own_sections──▶ the sections of abreast, as plain values ──▶ RolloutConfig

Sections of other programs stay in the mapping, since ours may refer to them (`${trainer.n}`), and are then left alone.
Files are merged and references resolved by OmegaConf, which is imported only where there is something to do for it.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

from abreast.errors import ConfigError, short
from abreast.plugins import import_extra
from abreast.rollouts import ragen
from abreast.settings import read_yaml

NEAR = 0.84
"""Similarity from which a foreign section is taken for one of ours, misspelt (env_manager: 0.86, ctx_manager: 0.76)."""


def read_config(path: Path, above: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The mapping in a YAML file, over those of the files in its `defaults`, which lie beside it.

    Names in `defaults` without such a file (they are in Hydra's search path) are left, under `defaults`.
    """
    if path in above:
        chain = " -> ".join(each.name for each in (*above, path))
        raise ConfigError(f"the configuration file {path} is among its own defaults ({chain}): take it out.")
    own = read_yaml(path)
    listed = own.pop("defaults", None)
    if listed is None:
        return own
    if not isinstance(listed, list):
        raise ConfigError(f"defaults is {short(listed)} in {path}: expected a list of files beside it, say [base].")
    layers, absent = list[dict[str, Any]](), list[Any]()
    for entry in listed if "_self_" in listed else [*listed, "_self_"]:
        name = _named(entry)
        file = path.parent / f"{name}.yaml"
        if entry == "_self_":
            layers.append(own)
        elif file.is_file():
            inside = read_config(file, (*above, path))
            absent += [each for each in inside.pop("defaults", ()) if each not in absent]
            for key in reversed(name.parts[:-1]):  # its contents go into the section of its group
                inside = {key: inside}
            layers.append(inside)
        else:
            absent.append(entry)
    merged: dict[str, Any] = own
    if len(layers) > 1:
        tool = _omegaconf(f"the defaults of {path}")
        try:
            merged = tool.to_container(tool.merge(*layers))
        except Exception as error:
            raise ConfigError(f"{path} cannot be merged with its defaults: {_said(error)}.") from None
    return {**merged, "defaults": absent} if absent else merged


def own_sections(
    given: Mapping[Any, Any], sections: Collection[str], settings: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Those of `sections` that are given, and what is likely to be meant for one: a near miss, or one of the `settings`; as
    plain values. And what could not be resolved, by dotted key.

    If none is given, nothing is left out: it is then another kind of file, which should be told.
    """
    if not sections & given.keys():
        return _plain(given), {}
    kept = {key for key in given if key in sections or _looks_like_ours(key, given, sections, settings)}
    faults = dict[str, str]()
    resolved = _resolved(given, kept | ({"agent_proxy"} & given.keys()), faults)
    values = {str(key): resolved[key] for key in given if key in kept}
    proxy = resolved.get("agent_proxy")
    if isinstance(proxy, Mapping):
        values["custom_envs"] = ragen.with_turns(values.get("custom_envs"), proxy.get("max_turn"))
        if values.get("context") is None:
            values["context"] = ragen.context_of(proxy)
    return values, faults


def _named(entry: Any) -> PurePosixPath:
    """The file that an entry of `defaults` names: `name`, `group/name` or {group: name}."""
    parts = next(iter(entry.items())) if isinstance(entry, dict) and entry else (entry,)
    return PurePosixPath(*(str(part).strip("/") for part in parts))


def _looks_like_ours(key: Any, given: Mapping[Any, Any], sections: Collection[str], settings: Collection[str]) -> bool:
    if not isinstance(key, str) or get_close_matches(key.casefold(), sections, n=1, cutoff=NEAR):
        return True
    if key not in settings:
        return False
    value = given[key]
    return any(each in settings for each in (value if isinstance(value, Mapping) else (key,)))


# ---- what OmegaConf does


def _resolved(given: Mapping[Any, Any], keys: Collection[Any], faults: dict[str, str]) -> dict[Any, Any]:
    """Some sections as plain values, with all references resolved; `faults` gets what cannot be, by dotted key."""
    if not _is_omegaconf(given) and "${" not in repr({key: given[key] for key in keys}):
        return {key: _plain(given[key]) for key in keys}
    tool, values = _omegaconf("references such as ${section.key}"), dict[Any, Any]()
    try:
        whole = given if _is_omegaconf(given) else tool.create(dict(given))
    except Exception as error:
        raise ConfigError(f"the configuration cannot be resolved: {_said(error)}.") from None
    for key in keys:
        try:
            section = whole[key]
            values[key] = tool.to_container(section, resolve=True) if _is_omegaconf(section) else section
        except Exception as error:  # of OmegaConf, or of a resolver
            where = getattr(error, "full_key", None) or str(key)
            faults[where] = f"{where} cannot be resolved: {_said(error)}; write the value itself."
            values[key] = tool.to_container(whole, resolve=False)[key]
    return values


def _plain(value: Any) -> Any:
    if _is_omegaconf(value):
        return _omegaconf("an OmegaConf object").to_container(value, resolve=True)
    return dict(value) if isinstance(value, Mapping) else value


def _is_omegaconf(value: Any) -> bool:
    """Whether it is a container of OmegaConf, which is not imported for that."""
    return type(value).__module__.partition(".")[0] == "omegaconf" and isinstance(value, Collection)


def _omegaconf(what: str) -> Any:
    return import_extra("omegaconf", f"{what} need", "omegaconf", ConfigError).OmegaConf


def _said(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
