"""Model files: the whole state of a model as one, its blocks parameter by parameter (`state_file.py` has the form)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import ModelFileError, StateFileError, short
from abreast.state import State, join
from abreast.state_file import loads

FORMAT = 2
MOST = 2**62
"""A count of updates is less."""


def whole_state(algorithm: str, learning: State, acting: State, own: State) -> State:
    """The two halves of a model's state, and the attributes of a user's class, as one."""
    facts = {"learning": learning.facts, "acting": acting.facts, "own": own.facts}
    arrays = learning.arrays | acting.arrays | own.arrays
    return State({"format": FORMAT, "algorithm": algorithm, **facts}, arrays)


def read_model_file(path: Path) -> State:
    """The whole state of a model that was written to a file."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise StateFileError("it is not a file")
        return loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelFileError(f"there is no model file {path}: give the folder of a finished run.") from None
    except (OSError, StateFileError) as error:
        reason = str(error).rstrip(".")
        raise ModelFileError(f"the model file {path} is damaged or not one of abreast's: {reason}.") from None


def split_state(state: State, path: Path, algorithm: str, places: Mapping[str, NDArray[Any]]) -> tuple[State, State]:
    """The facts of both halves, joined, and the attributes of a user's class. The arrays of the halves are copied to their
    places, if all of them fit. `path` is where the state comes from, for messages.

    A random stream that is not in the file, or is that of another device, stays as it is.
    """
    about, arrays = state.facts, state.arrays
    found = about.get("algorithm"), about.get("format")
    if found != (algorithm, FORMAT):
        raise ModelFileError(
            f"{path} holds a model of algorithm {short(found[0])} in format {short(found[1])}, expected {algorithm!r} in"
            f" format {FORMAT}: set model.algorithm to match."
        )
    try:
        epsilon, updates = about["acting"]["epsilon"], about["learning"]["updates"]
        if not 0 <= epsilon <= 1 or not 0 <= updates < MOST:
            raise ValueError(f"epsilon is {short(epsilon)} after {short(updates)} updates")
        facts, own_facts = join(learning=State(about["learning"]), acting=State(about["acting"])), dict(about["own"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(f"the model file {path} is damaged or not one of abreast's: {error}.") from None
    own = {name: array for name, array in arrays.items() if name.startswith("own.")}
    arrays = {name: array for name, array in arrays.items() if name not in own}
    expected = {name: f"{each.shape} of {each.dtype}" for name, each in places.items()}
    given = {name: f"{each.shape} of {each.dtype}" for name, each in arrays.items()}
    for name in sorted(given.keys() | expected.keys()):
        if given.get(name) != expected.get(name) and not name.endswith("generator"):
            raise ModelFileError(
                f"{path} does not fit this model: {name} is {given.get(name, 'missing')}, expected"
                f" {expected.get(name, 'no such tensor')}; the agent's view, actions or model settings differ."
            )
    for name, place in places.items():
        if given.get(name) == expected[name]:
            np.copyto(place, arrays[name])
    return facts, State(own_facts, own)
