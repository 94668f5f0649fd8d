"""Validated settings: YAML and `section.key=value` in, typed sections out, one clear sentence when they are wrong.

Each section of a configuration is a subclass of `Section`; every field is documented once, beside its default.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_origin

import pydantic
import yaml

from abreast.errors import ConfigError, nearest, short


class Section(pydantic.BaseModel):
    """Base of every settings section: unknown keys are refused, types are strict, values cannot be changed later."""

    model_config = pydantic.ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    @classmethod
    def parse(cls, values: object) -> Self:
        """Validate `values` (a mapping, or an instance already), or raise one `ConfigError` that names the field."""
        if isinstance(values, cls):
            return values
        if not isinstance(values, Mapping):
            raise ConfigError(f"the configuration is {short(values)}, expected a mapping with {_some_keys(cls)}.")
        try:
            return cls.model_validate(values)
        except pydantic.ValidationError as error:
            raise ConfigError(_sentence(cls, error)) from None


class OpenSection(Section):
    """A section that takes any key: for worlds that do not declare their settings."""

    model_config = pydantic.ConfigDict(extra="allow")


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; a missing, damaged or otherwise shaped file is a `ConfigError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration file {path}: {error}.") from None
    try:
        values = _from_yaml(text)
    except ValueError as error:
        reason = " ".join(str(error).split())[:300]
        raise ConfigError(f"the configuration file {path} is not valid YAML: {reason}.") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"the configuration file {path} holds {short(values)}, expected sections with settings.")
    return values


def apply_overrides(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """`values` with each `section.key=value` put in its place; the values are read as YAML."""
    result: dict[str, Any] = copy.deepcopy(dict(values))
    for override in overrides:
        path, equals, text = override.partition("=")
        keys = path.strip().split(".")
        if not equals or len(keys) < 2 or not all(keys):
            raise ConfigError(f"the override {override!r} is not of the form section.key=value.")
        try:
            value = _from_yaml(text)
        except ValueError:
            raise ConfigError(f"the value of the override {override!r} is not valid YAML.") from None
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


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads `1e-4` as text; everyone who writes it in a configuration means the number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*)(?:\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def _from_yaml(text: str) -> Any:
    """What a text in YAML says; ValueError if it says nothing sensible. (The parser lets many kinds of error out.)"""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def explain(section: Section, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every setting of a section and of those inside it: (dotted key, value, meaning)."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Section):
            yield from explain(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value, " ".join([*(field.description or "").split(), *_choices(field.annotation)])


def _choices(annotation: Any) -> list[str]:
    """What a setting may be, if that is one of a few words."""
    inner = [each for each in (annotation, *get_args(annotation)) if get_origin(each) is Literal]
    words = [str(word) for each in inner for word in get_args(each)]
    return [f"One of {', '.join(words)}."] if len(words) > 1 else []


def _some_keys(cls: type[Section]) -> str:
    names = list(cls.model_fields)[:3]
    return f"keys such as {', '.join(names)}" if names else "keys and values"


def _sentence(cls: type[Section], error: pydantic.ValidationError) -> str:
    """The first fault, and how many more there are. Of a value that may be of several kinds, one fault for each is told."""
    by_field: dict[tuple[Any, ...], list[Any]] = {}
    for fault in error.errors():
        is_key = fault["type"] in ("extra_forbidden", "missing")
        by_field.setdefault(fault["loc"] if is_key else _field_of(cls, fault["loc"]), []).append(fault)
    (place, faults), more = next(iter(by_field.items())), len(by_field) - 1
    first, path = faults[0], ".".join(map(str, place)) or "the configuration"
    if first["type"] == "extra_forbidden":
        text = f"unknown key {path}: {_nearest_key(cls, path)}"
    elif first["type"] == "value_error":
        text = str(first["ctx"]["error"])
    elif first["type"] == "missing":
        text = f"{path} is missing: give it a value."
    else:
        expected = [fault["msg"].removeprefix("Input should be ") for fault in faults]
        text = f"{path} is {short(first['input'])}: expected {' or '.join(expected)}."
    return text + (f" ({more} more fault{'s' if more > 1 else ''} in this configuration.)" if more else "")


def _field_of(cls: type[Section], place: tuple[Any, ...]) -> tuple[Any, ...]:
    """The setting that a fault is in; where it may be of several kinds, the name of the kind comes after it."""
    names = set(_dotted_fields(cls))
    if (
        ".".join(map(str, place)) not in names
        and ".".join(map(str, place[:-1])) in names
        and isinstance(place[-1], str)
    ):
        return place[:-1]
    return place


def _nearest_key(cls: type[Section], path: str) -> str:
    section, _, key = path.rpartition(".")
    known = list(_dotted_fields(cls))
    beside = [name for name in known if name.rpartition(".")[0] == section]
    elsewhere = [name for name in known if name.rpartition(".")[2] == key]
    if elsewhere:
        return f"did you mean {elsewhere[0]!r}?"
    if not beside:  # it may be in one of several sections under names of the user's own
        above = section.rpartition(".")[0]
        inside = [name.rpartition(".")[2] for name in known if above and name.rpartition(".")[0] == above]
        beside = [f"{section}.{name}" for name in inside]
    return nearest(path, beside or known)


def _dotted_fields(cls: type[Section], prefix: str = "") -> Iterable[str]:
    for name, field in cls.model_fields.items():
        yield prefix + name
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, Section):
                yield from _dotted_fields(inner, f"{prefix}{name}.")
