"""JSON schemas of the arguments of tools: the keywords that are supported, and what is wrong with a value.

    fault_of("up", {"enum": ["Up", "Down"]}, "direction")    # 'direction is "up": it must be one of ["Up", "Down"].'
    check_schema({"multipleOf": 2}, "size")                   # an error: this keyword is not supported

Keywords mean what JSON Schema says: a pattern may match anywhere in a text, and 2.0 is an integer.
"""

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from abreast.errors import RolloutError, nearest, short

_TYPES: Mapping[str, Any] = {
    "string": str, "integer": (int, float), "number": (int, float), "boolean": bool, "array": list, "object": dict,
    "null": type(None),
}  # fmt: skip


def fault_of(value: Any, schema: Mapping[str, Any], name: str) -> str:
    """Return what is wrong with the JSON value `name`, or an empty text if it follows the schema."""
    return next((fault for key in schema for fault in _KEYWORDS[key][1](value, schema[key], name, schema) if fault), "")


def check_schema(schema: Mapping[str, Any], name: str) -> None:
    """Raise a RolloutError if the schema of `name` has a keyword, or a value of a keyword, that is not supported."""
    for key, given in schema.items() if isinstance(schema, Mapping) else [("schema", schema)]:
        try:
            _KEYWORDS[key][0](given)
        except (
            TypeError,
            ValueError,
            LookupError,
            AttributeError,
            re.error,
            RolloutError,
        ):  # RolloutError: of one inside
            raise RolloutError(
                f"{name} has {key}: {short(given)} in its JSON schema: expected one of these keywords with a value that JSON"
                f" Schema allows: {', '.join(_KEYWORDS)}."
            ) from None


def _is(value: Any, *kinds: str) -> bool:
    """Return True if a value has one of these types of JSON Schema."""
    return any(
        isinstance(value, _TYPES[kind])
        and (kind == "boolean" or not isinstance(value, bool))
        and (kind != "integer" or value % 1 == 0)
        for kind in kinds
    )


def _limit(words: str, holds: Callable[[Any, Any], Any], *kinds: str) -> Callable[..., list[str]]:
    """Return what finds the fault of values of these types (none: of all) that a keyword does not allow."""
    return lambda value, given, name, schema: (
        [f"{name} is {json.dumps(value)[:80]}: it must {words} {json.dumps(given, ensure_ascii=False)[:300]}."]
        if _is(value, *kinds or _TYPES) and not holds(value, given)
        else []
    )


def _one_of(value: Any, given: Any) -> bool:
    """Return True if a value is one of those given; True is not 1."""
    return any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in given)


_KEYWORDS: Mapping[str, tuple[Callable[[Any], Any], Callable[..., Iterable[str]]]] = {
    "type": (
        lambda given: {_TYPES[kind] for kind in ([given] if isinstance(given, str) else given)},
        _limit("be of type", lambda value, given: _is(value, *([given] if isinstance(given, str) else given))),
    ),
    "enum": (list.copy, _limit("be one of", _one_of)),
    "const": (json.dumps, _limit("be", lambda value, given: _one_of(value, [given]))),
    "minimum": (abs, _limit("be at least", operator.ge, "number")),
    "maximum": (abs, _limit("be at most", operator.le, "number")),
    "exclusiveMinimum": (abs, _limit("be more than", operator.gt, "number")),
    "exclusiveMaximum": (abs, _limit("be less than", operator.lt, "number")),
    "minLength": (range, _limit("have a length of at least", lambda value, given: len(value) >= given, "string")),
    "maxLength": (range, _limit("have a length of at most", lambda value, given: len(value) <= given, "string")),
    "pattern": (re.compile, _limit("match", lambda value, given: re.search(given, value), "string")),
    "minItems": (range, _limit("have a length of at least", lambda value, given: len(value) >= given, "array")),
    "maxItems": (range, _limit("have a length of at most", lambda value, given: len(value) <= given, "array")),
    "items": (
        lambda given: check_schema(given, "items"),
        lambda value, given, name, schema: (
            fault_of(each, given, f"{name}[{place}]") for place, each in enumerate(value if _is(value, "array") else ())
        ),
    ),
    "required": (
        list.copy,
        lambda value, given, name, schema: (
            f"{name}.{key} is missing." for key in given if _is(value, "object") and key not in value
        ),
    ),
    "additionalProperties": (
        {True: True, False: False}.__getitem__,
        lambda value, given, name, schema: (
            f"{name}.{key} is not expected: {nearest(key, known) if (known := schema.get('properties')) else 'none is.'}"
            for key in (value if _is(value, "object") and not given else ())
            if key not in schema.get("properties", {})
        ),
    ),
    "properties": (
        lambda given: [*map(check_schema, given.values(), given)],
        lambda value, given, name, schema: (
            fault_of(value[key], each, f"{name}.{key}")
            for key, each in given.items()
            if _is(value, "object") and key in value
        ),
    ),
    "anyOf": (
        lambda given: [*map(check_schema, given, given)],
        _limit("follow one of", lambda value, given: not all(fault_of(value, each, "") for each in given)),
    ),
    **{
        key: (json.dumps, lambda *_: ())
        for key in ("title", "description", "default", "examples", "deprecated", "$comment")
    },
}
"""For each keyword, what raises if it cannot take what is given, and what finds the fault of a value."""
