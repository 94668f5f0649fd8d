"""Configurations as users have them: YAML files with Hydra's `defaults`, OmegaConf objects, files of other programs.

 file ──read_config──▶ mapping ──own_sections──▶ the sections of abreast, as plain values ──▶ RolloutConfig

Sections of other programs stay in the mapping, since ours may refer to them (`${trainer.n}`), and are then left alone.
"""

import re
import sys
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from abreast.errors import ConfigError, short
from abreast.settings import read_yaml

NEAR = 0.84
"""Similarity from which a foreign section is taken for one of ours, misspelt (env_manager: 0.86, ctx_manager: 0.76)."""
REFERENCE = re.compile(r"(?<!\\)\$\{([^${}]*)\}")
KEY = re.compile(r"[\w-]+(\.[\w-]+)*")


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
    merged: dict[str, Any] = {}
    absent: list[Any] = []
    for entry in listed if "_self_" in listed else [*listed, "_self_"]:
        if entry == "_self_":
            merged = _merge(merged, own)
            continue
        name, package = _named(entry)
        file = path.parent / f"{name}.yaml"
        if name is None or not file.is_file():
            absent.append(entry)
            continue
        inside = read_config(file, (*above, path))
        absent += [each for each in inside.pop("defaults", ()) if each not in absent]
        for key in reversed(package):
            inside = {key: inside}
        merged = _merge(merged, inside)
    return {**merged, "defaults": absent} if absent else merged


class Own(NamedTuple):
    """What a configuration says to abreast."""

    values: dict[str, Any]
    """Our sections, as plain values, and those keys that look like mistakes in ours."""
    faults: dict[str, str]
    """What could not be resolved, by dotted key."""


def own_sections(given: Mapping[Any, Any], sections: Collection[str], settings: Collection[str]) -> Own:
    """Those of `sections` that are given, and what is likely to be meant for one: a near miss, or one of the `settings`.

    If none is given, nothing is left out: it is then another kind of file, which should be told.
    """
    plain: dict[Any, Any] = _omegaconf(given, resolve=False) if _is_omegaconf(given) else dict(given)
    if not sections & plain.keys():
        return Own(plain, {})
    resolver = _Resolver(given, plain)
    kept = {
        str(key): resolver.section(key)
        for key, value in plain.items()
        if key in sections or _looks_like_ours(key, value, sections, settings)
    }
    if isinstance(plain.get("agent_proxy"), Mapping):
        proxy = resolver.section("agent_proxy")
        kept["custom_envs"] = _with_turns(kept.get("custom_envs"), proxy.get("max_turn"))
        if kept.get("context") is None:
            kept["context"] = _context_of(proxy)
    return Own(kept, resolver.faults)


def _context_of(proxy: Mapping[str, Any]) -> dict[str, Any]:
    """What RAGEN's section `agent_proxy` says, in the words of our section `context`; its other keys are its own."""
    same = ("enable_think", "action_sep", "max_actions_per_turn")
    said = {key: proxy[key] for key in same if proxy.get(key) is not None}
    turns = 1 if proxy.get("without_history") else proxy.get("max_context_window")
    if turns is not None and not (isinstance(turns, int) and turns <= 0):  # -1: all
        said["history_window"] = turns
    return said


def _with_turns(tags: Any, turns: Any) -> Any:
    """Tags that take as many turns as RAGEN's `agent_proxy.max_turn` says, where they do not say so themselves."""
    if turns is None or not isinstance(tags, Mapping):
        return tags
    return {
        name: {"max_turns": turns, **settings} if isinstance(settings, Mapping) else settings
        for name, settings in tags.items()
    }


# ---- Hydra's lists of defaults


def _named(entry: Any) -> tuple[str | None, tuple[str, ...]]:
    """The file that an entry of `defaults` names, without its ending, and the section its contents go into."""
    group, option = "", entry
    if isinstance(entry, dict) and len(entry) == 1:
        ((group, option),) = entry.items()
    if not isinstance(group, str) or not isinstance(option, str) or group.startswith("override "):
        return None, ()
    group, at, package = group.removeprefix("optional ").partition("@")
    path = "/".join(part for part in (*group.split("/"), *option.partition("@")[0].split("/")) if part)
    folder = path.split("/")[:-1]
    inside = (package if at else option.partition("@")[2]).split(".") if at or "@" in option else folder
    return path, tuple(part for part in inside if part and part != "_global_")


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """As Hydra merges: sections key by key, lists and null as a whole."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged


# ---- which keys are ours


def _looks_like_ours(key: Any, value: Any, sections: Collection[str], settings: Collection[str]) -> bool:
    if not isinstance(key, str) or get_close_matches(key.casefold(), sections, n=1, cutoff=NEAR):
        return True
    inside = value if isinstance(value, Mapping) else {key: value}
    return key in settings and any(each in settings for each in inside)


# ---- interpolation


class _Resolver:
    """Replaces references such as `${trainer.n}` by what they refer to; OmegaConf does so itself, with its resolvers."""

    def __init__(self, given: Mapping[Any, Any], plain: Mapping[Any, Any]) -> None:
        self._given, self._plain = given, plain
        self.faults: dict[str, str] = {}

    def section(self, key: Any) -> Any:
        """A section with all its references resolved."""
        if not _is_omegaconf(self._given):
            return self._resolved(self._plain[key], str(key))
        try:
            return _omegaconf(self._given[key], resolve=True)
        except Exception as error:  # of OmegaConf, or of a resolver
            where, said = getattr(error, "full_key", None) or str(key), str(error).splitlines()[0]
            self.faults[where] = f"{where} cannot be resolved: {said.rstrip('.')}."
            return _omegaconf(self._given, resolve=False)[key]

    def _resolved(self, value: Any, where: str, above: tuple[str, ...] = ()) -> Any:
        if _is_omegaconf(value):
            value = _omegaconf(value, resolve=True)
        if isinstance(value, Mapping):
            return {key: self._resolved(each, f"{where}.{key}", above) for key, each in value.items()}
        if isinstance(value, list):
            return [self._resolved(each, f"{where}.{index}", above) for index, each in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        if whole := REFERENCE.fullmatch(value):
            return self._target(whole[1], value, where, above)
        text = REFERENCE.sub(lambda found: str(self._target(found[1], value, where, above)), value)
        return text.replace("\\${", "${")

    def _target(self, reference: str, value: str, where: str, above: tuple[str, ...]) -> Any:
        key, said = reference.strip(), f"{where} is {short(value)}"
        if not KEY.fullmatch(key):
            self.faults[where] = (
                f"{said}: in a file or a mapping only references such as ${{section.key}} are resolved; write the value,"
                " or give the manager an OmegaConf object."
            )
            return value
        target: Any = self._plain
        for part in key.split("."):
            target = target.get(part, self) if isinstance(target, Mapping) else self
        if target is self:
            self.faults[where] = f"{said}, but there is no {key} in this configuration: write the value itself."
            return value
        if key in above:
            self.faults[where] = f"{said}, which refers to itself: write the value."
            return value
        return self._resolved(target, where, (*above, key))


def _is_omegaconf(value: Any) -> bool:
    """Whether it is a container of OmegaConf, which is not imported for that."""
    return type(value).__module__.partition(".")[0] == "omegaconf" and isinstance(value, Collection)


def _omegaconf(value: Any, resolve: bool) -> Any:
    if not _is_omegaconf(value):
        return value
    return sys.modules["omegaconf"].OmegaConf.to_container(value, resolve=resolve)
