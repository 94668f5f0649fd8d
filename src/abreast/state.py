"""State: the one form in which anything is kept or sent, namely facts that fit into JSON and arrays, both by name.

Every part that changes offers `state()` and takes `set_state(...)` (a model in two halves: what learning changes, and what
choosing changes). Publishing weights, restarting a worker, saving and loading all use these and nothing else.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.errors import StateError


class State(NamedTuple):
    """Facts and arrays. The arrays may be views of what they describe: a receiver that keeps a state copies it."""

    facts: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    arrays: dict[str, NDArray[Any]] = {}  # noqa: RUF012


def copied(state: State) -> State:
    """The state as it is now, whatever becomes of what it describes."""
    return State(dict(state.facts), {name: array.copy() for name, array in state.arrays.items()})


def join(**parts: State) -> State:
    """Several states as one; what was called `rows` in the part `replay` is then called `replay.rows`."""

    def named(kind: int) -> dict[str, Any]:
        return {f"{part}.{name}": value for part, state in parts.items() for name, value in state[kind].items()}

    return State(named(0), named(1))


def part_of(state: State, part: str) -> State:
    """The state that `join` was given under this name."""
    prefix = f"{part}."

    def named(values: dict[str, Any]) -> dict[str, Any]:
        return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}

    return State(named(state.facts), named(state.arrays))


def check_arrays(expected: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], given: State, owner: str) -> None:
    """Refuse a state in which an array is missing, or of another shape or element type."""
    for name, wanted in expected.items():
        array = given.arrays.get(name)
        found = None if array is None else (array.shape, array.dtype)
        if found != wanted:
            raise StateError(f"{owner} does not fit: {name} is {found or 'missing'}, expected {wanted}.")


def fit(places: Mapping[str, NDArray[Any]], given: State, owner: str) -> None:
    """Copy the arrays of a state to their places; one that is missing, or of another shape or type, changes nothing."""
    check_arrays({name: (place.shape, place.dtype) for name, place in places.items()}, given, owner)
    for name, place in places.items():
        np.copyto(place, given.arrays[name])
