"""What a function of the user's takes."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """Its parameters by name; None if that cannot be known, say of a function that is written in C."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
