"""Validated settings: YAML and `section.key=value` in, typed sections out, one clear sentence when they are wrong.

Each section of a configuration is a subclass of `Section`; every field is documented once, beside its default.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, get_args

import pydantic
import yaml

from abreast.errors import ConfigError, nearest


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
            raise ConfigError(f"the configuration is {values!r}, expected a mapping of sections such as experiment.")
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
        raise ConfigError(f"the configuration file {path} holds {values!r}, expected sections such as experiment.")
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
            yield prefix + name, value, " ".join((field.description or "").split())


def _sentence(cls: type[Section], error: pydantic.ValidationError) -> str:
    faults = error.errors()
    first, more = faults[0], len(faults) - 1
    path = ".".join(str(part) for part in first["loc"]) or "the configuration"
    if first["type"] == "extra_forbidden":
        text = f"unknown key {path}: {_nearest_key(cls, path)}"
    elif first["type"] == "value_error":
        text = str(first["ctx"]["error"])
    else:
        expected = first["msg"].replace("Input should be", "expected", 1)
        text = f"{path} is {first['input']!r}: {expected}."
    return text + (f" ({more} more fault{'s' if more > 1 else ''} in this configuration.)" if more else "")


def _nearest_key(cls: type[Section], path: str) -> str:
    section, _, key = path.rpartition(".")
    known = list(_dotted_fields(cls))
    beside = [name for name in known if name.rpartition(".")[0] == section]
    elsewhere = [name for name in known if name.rpartition(".")[2] == key]
    if elsewhere:
        return f"did you mean {elsewhere[0]!r}?"
    return nearest(path, beside or known)


def _dotted_fields(cls: type[Section], prefix: str = "") -> Iterable[str]:
    for name, field in cls.model_fields.items():
        yield prefix + name
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, Section):
                yield from _dotted_fields(inner, f"{prefix}{name}.")
