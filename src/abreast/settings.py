"""Validated settings: YAML and `section.key=value` in, typed sections out, one clear sentence for each that is wrong.

Each section of a configuration is a subclass of `Section`; every field is documented once, beside its default.
"""

import copy
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin

import pydantic
import yaml

from abreast.errors import ConfigError, nearest, short

ANY = "NAME"
"""Stands for names that users give to sections."""
MOST_CHARACTERS = 20_000_000
"""Of a YAML file; a device may have no end."""
MOST_VALUES = 1_000_000
"""Of a YAML text, aliases counted as what they stand for."""
MOST_BITS = 1024
"""Of an integer in a YAML text."""


class Section(pydantic.BaseModel):
    """Base of every settings section: unknown keys are refused, types are strict, values cannot be changed later."""

    model_config = pydantic.ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
    USUAL_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What others call some settings, and their keys here: for the error, they are not accepted."""
    UNSUPPORTED: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Keys that others have and this section has not, and why: for the error."""

    @classmethod
    def parse(cls, values: object, where: str = "") -> Self:
        """Validate `values` (a mapping, or an instance already), or raise one `ConfigError` that names every wrong field.

        `where` is the dotted key of the section, if it lies inside another.
        """
        if isinstance(values, cls):
            return values
        if not isinstance(values, Mapping):
            keys = f"keys such as {', '.join([*cls.model_fields][:3])}" if cls.model_fields else "keys and values"
            raise ConfigError(f"{where or 'the configuration'} is {short(values)}, expected a mapping with {keys}.")
        try:
            return cls.model_validate(values)
        except pydantic.ValidationError as error:
            raise ConfigError.of(_sentences(cls, error, where)) from None

    def with_derived(self, **values: Any) -> Self:
        """A copy with values that follow from other settings: they do not count as given (`model_fields_set`)."""
        copied = self.model_copy(update=values)
        copied.model_fields_set.difference_update(values.keys() - self.model_fields_set)
        return copied


class OpenSection(Section):
    """A section that takes any key: for worlds that do not declare their settings."""

    model_config = pydantic.ConfigDict(extra="allow")


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; a missing, damaged or otherwise shaped file is a `ConfigError`."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error}.") from None
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"the configuration file {path} has more than {MOST_CHARACTERS:,} characters: give another.")
    try:
        values = parse_yaml(text)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"the configuration file {path} is not valid YAML: {reason}.") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"the configuration file {path} holds {short(values)}, expected sections with settings.")
    return values


def apply_overrides(
    values: Mapping[str, Any],
    overrides: Iterable[str],
    schema: Callable[[], type[Section]] = lambda: Section,
    texts: Collection[str] = (),
) -> dict[str, Any]:
    """Return `values` with each `section.key=value` put in its place; the values are read as YAML.

    `schema` is asked which settings there are when an override lacks its section. `texts` are the dotted keys of settings
    that hold a text: their values are kept as they were typed where YAML reads something else, such as a number.
    """
    result: dict[str, Any] = copy.deepcopy(dict(values))
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = path.strip().split(".")
        if not equals or len(keys) < 2 or not all(keys):
            meant = _meant_or_near(schema(), path.strip()) if equals else None
            hint = f": did you mean {f'{meant}={text}'!r}?" if meant else "."
            raise ConfigError(f"the override {override!r} is not of the form section.key=value{hint}")
        try:
            value = parse_yaml(text)
        except ValueError:
            raise ConfigError(f"the value of the override {override!r} is not valid YAML.") from None
        value = text if path.strip() in texts and not isinstance(value, str | None) else value
        *sections, key = keys
        target = result
        for section in sections:
            inner = target.get(section)
            if inner is None:  # absent, or an empty heading in a YAML file
                inner = target[section] = {}
            if not isinstance(inner, dict):
                raise ConfigError(f"the override {override!r} goes into {section}, which is {inner!r}, not a section.")
            target = inner
        target[key] = value
    return result


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of `below` with the keys of `above` over them."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if value is None and isinstance(under, Mapping):
            continue  # an empty heading in a YAML file changes nothing
        merged[key] = merge(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads `1e-4` as text; everyone who writes it in a configuration means the number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*)(?:\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def parse_yaml(text: str) -> Any:
    """What a text in YAML says; ValueError if it says nothing sensible. (The parser lets many kinds of error out.)"""
    try:
        values = yaml.load(text, _Loader)
        if _count(values, {}) > MOST_VALUES:
            raise ValueError(f"its aliases stand for more than {MOST_VALUES:,} values")
        return values
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _count(value: Any, known: dict[int, int]) -> int:
    """How many values there are in a value, counted again wherever an alias stands for them; `known` are counts by id.

    (A few lines of aliases of aliases stand for more than a machine can hold, as soon as anything looks at all of them.)
    """
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError(f"an integer has more than {MOST_BITS:,} bits")  # Python refuses to print the longest
    if not isinstance(value, dict | list | tuple | set):
        return 1
    if id(value) not in known:
        known[id(value)] = -1  # under way: met again inside itself, it is a circle
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        counts = [_count(each, known) for each in inside]
        if min(counts, default=0) < 0:
            raise ValueError("an alias stands for what it is in")
        known[id(value)] = 1 + sum(counts)
    return known[id(value)]


def dotted(values: Mapping[Any, Any], whole: Collection[str] = (), prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All values in nested mappings by their dotted keys. A mapping named in `whole` is a single value."""
    for key, value in values.items():
        if isinstance(value, Mapping) and f"{prefix}{key}" not in whole:
            yield from dotted(value, whole, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def explain(section: Section, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every setting of a section and of those inside it: (dotted key, value, meaning)."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        parts = {name: value} if isinstance(value, Section) else {}
        if isinstance(value, dict):
            parts = {f"{name}.{key}": part for key, part in value.items() if isinstance(part, Section)}
        for key, part in parts.items():
            yield from explain(part, f"{prefix}{key}.")
        if not parts:
            yield prefix + name, value, " ".join([*(field.description or "").split(), *_choices(field.annotation)])
    for name, value in (section.model_extra or {}).items():
        yield prefix + name, value, "A setting that its section does not declare."


def setting_names(cls: type[Section]) -> set[str]:
    """The keys of all settings in the sections inside this one, without those sections' names."""
    return {name.rpartition(".")[2] for name in _dotted_fields(cls) if "." in name}


def _choices(annotation: Any) -> list[str]:
    """What a setting may be, if that is one of a few words."""
    inner = [each for each in (annotation, *get_args(annotation)) if get_origin(each) is Literal]
    words = [str(word) for each in inner for word in get_args(each)]
    return [f"One of {', '.join(words)}."] if len(words) > 1 else []


class SeveralFaults(ValueError):
    """What a validator raises if it finds more than one fault: a sentence for each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = list(faults)
        super().__init__(" ".join(self.faults))


def _sentences(cls: type[Section], error: pydantic.ValidationError, where: str) -> list[str]:
    """A sentence for each setting that is wrong.

    Rules that join several settings of a section are checked when each of these is right by itself.
    """
    by_place: dict[tuple[Any, ...], list[Any]] = {}
    for fault in error.errors():
        by_place.setdefault(_place(cls, fault["loc"]), []).append(fault)
    return [text for place, faults in by_place.items() for text in _sentences_of(cls, place, faults, where)]


def _sentences_of(cls: type[Section], place: tuple[Any, ...], faults: list[Any], where: str) -> list[str]:
    """What is wrong with one setting. Of a value that may be of several kinds, one fault for each is told."""
    first, path = faults[0], _joined(where, *place) or "the configuration"
    said = (fault["msg"].removeprefix("Input should be ").removeprefix("Keys should be ") for fault in faults)
    expected = " or ".join(said)
    if first["type"] == "extra_forbidden":
        reason = _section_at(cls, place[:-1]).UNSUPPORTED.get(str(place[-1]))
        if reason is not None:
            return [f"{path} is not supported: {reason}"]
        return [f"unknown key {path}: {_nearest_key(cls, path, where)}"]
    if first["type"] == "missing":
        return [f"{path} is missing: give it a value."]
    if first["type"] == "value_error":
        raised = first["ctx"]["error"]
        told = raised.faults if isinstance(raised, SeveralFaults) else [str(raised)]
        is_named = not (place or where)
        return [text if is_named or text.startswith(f"{path}.") else f"{path}: {text}" for text in told]
    if first["loc"][-1:] == ("[key]",) or first["type"] == "invalid_key":
        above = _joined(where, *place[:-1]) or "the configuration"
        return [f"{above} has a key {short(first['input'])}: expected {expected}."]
    return [f"{path} is {short(first['input'])}: expected {expected}."]


def _joined(*parts: Any) -> str:
    """A dotted key."""
    return ".".join(str(part) for part in parts if part != "")


def _place(cls: type[Section], location: tuple[Any, ...]) -> tuple[Any, ...]:
    """The setting that a fault is in, without what comes after it: what kind of value it was taken for, or [key]."""
    kind: Any = cls
    for depth, part in enumerate(location):
        if len(_kinds(kind)) > 1:
            return location[:depth] if depth == len(location) - 1 else location
        kind = _kind_inside(kind, part)
    return location[:-1] if location[-1:] == ("[key]",) else location


def _section_at(cls: type[Section], place: tuple[Any, ...]) -> type[Section]:
    """The section at a place inside another; that one itself if there is none."""
    kind: Any = cls
    for part in place:
        kind = _kind_inside(kind, part)
    found = _kinds(kind)[0]
    return found if _is_section(found) else cls


def _kinds(kind: Any) -> list[Any]:
    """What a value may be, besides none."""
    is_union = get_origin(kind) in (Union, types.UnionType)
    return [each for each in get_args(kind) if each is not type(None)] if is_union else [kind]


def _kind_inside(kind: Any, part: Any) -> Any:
    """What the value of a key may be, in a section, a dictionary or a list."""
    first = _kinds(kind)[0]
    if _is_section(first):
        field = first.model_fields.get(str(part))
        return None if field is None else field.annotation
    return (*get_args(first), None)[1 if get_origin(first) is dict else 0]


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _nearest_key(cls: type[Section], path: str, where: str) -> str:
    section, _, key = path.rpartition(".")
    if meant := _meant(cls, key, section):
        return f"did you mean {meant!r}?"
    known = [_under(_joined(where, name), section) for name in _dotted_fields(cls)]
    beside = [name for name in known if name.rpartition(".")[0] == section]
    return nearest(path, beside or known)


def _meant_or_near(cls: type[Section], key: str) -> str | None:
    """The setting that a key without a section may stand for."""
    by_key = {name.rpartition(".")[2]: name for name in _dotted_fields(cls) if "." in name}
    near = [] if key in cls.model_fields else get_close_matches(key, by_key, n=1, cutoff=0.8)
    return _meant(cls, key) or next((by_key[name] for name in near), None)


def _meant(cls: type[Section], key: str, section: str = "") -> str | None:
    """The setting that has this key in another section, or that others call so."""
    known = [_under(name, section) for name in _dotted_fields(cls) if "." in name]
    usual = cls.USUAL_NAMES.get(key)
    return next((name for name in known if name.rpartition(".")[2] == key or name == usual), None)


def _under(name: str, section: str) -> str:
    """A key with the user's own name of the section it is in, where sections have such."""
    above, _, _ = section.rpartition(".")
    return name.replace(f"{above}.{ANY}.", f"{section}.", 1) if name.startswith(f"{above}.{ANY}.") else name


def _dotted_fields(cls: type[Section], prefix: str = "") -> Iterable[str]:
    for name, field in cls.model_fields.items():
        yield prefix + name
        inside = f"{prefix}{name}.{ANY}." if get_origin(field.annotation) is dict else f"{prefix}{name}."
        for inner in (field.annotation, *get_args(field.annotation)):
            if _is_section(inner):
                yield from _dotted_fields(inner, inside)
