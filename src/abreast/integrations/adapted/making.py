"""Calling the functions that make users' environments."""

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from abreast.errors import AbreastError, ConfigError, nearest, short, words


def called(function: Callable[..., Any], arguments: Mapping[str, Any], name: str) -> Any:
    """What a function makes, with the settings of the section `world` as its arguments; one it does not take is refused."""
    check_arguments(function, arguments, name)
    try:
        return function(**arguments)
    except AbreastError:
        raise
    except Exception as error:
        for key, value in arguments.items():
            if isinstance(error, TypeError) and f"unexpected keyword argument '{key}'" in str(error):
                raise ConfigError(
                    f"world.{key} is {short(value)}, but {name} takes no argument {key!r}: leave it out."
                ) from None
        given = ", ".join(f"world.{key}={short(value)}" for key, value in arguments.items())
        raise ConfigError(
            f"{name} could not be made{given and f' with {given}'}: it raised {words(error, Path(__file__).parent)}: give it"
            " arguments that it takes (world.KEY=VALUE), and install what it needs."
        ) from error


def check_arguments(function: Callable[..., Any], arguments: Mapping[str, Any], name: str) -> None:
    """Refuse arguments that a function does not take, and those missing that it needs."""
    there = parameters(function)
    known = [each.name for each in there if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in there)
    for key, value in arguments.items():
        if key not in known and not takes_any:
            hint = nearest(key, known) if known else "it takes none, so leave it out."
            raise ConfigError(f"world.{key} is {short(value)}, but {name} takes no argument {key!r}: {hint}")
    for each in there:
        if each.default is each.empty and each.name in known and each.name not in arguments:
            raise ConfigError(f"{name} needs an argument {each.name!r}: give world.{each.name}=VALUE.")


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Those of a function; of one that tells none, that it takes any."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)]


def plain_name(text: str) -> str:
    """A name that a folder can have."""
    return re.sub(r"[^\w.-]+", "_", text).strip("_") or "environment"


def first_line(thing: Any) -> str:
    """The first line of a docstring of its own."""
    return next(iter((inspect.getdoc(thing) or "").strip().splitlines()), "")
