"""Model files: the whole state of a model as one, its blocks parameter by parameter (`state_file.py` has the form)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import ModelFileError, StateFileError, short
from abreast.models.own import CHOSEN, LEARNED
from abreast.state import State
from abreast.state_file import loads

FORMAT = 2
MOST = 2**62
"""A count of updates is less."""


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


def fill_places(places: Mapping[str, NDArray[Any]], state: State, path: Path, algorithm: str) -> None:
    """Copy the arrays of a model file to their places, if the file is of that algorithm and all of them fit; the attributes
    of a user's class are left out. `path` is where the state comes from, for messages.

    A random stream that is not in the file, or is that of another device, stays as it is.
    """
    about = state.facts
    if about.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} is in format {short(about.get('format'))}, expected {FORMAT}: load it with the version of abreast that"
            " wrote it."
        )
    if about.get("algorithm") != algorithm:
        raise ModelFileError(
            f"{path} holds a model of algorithm {short(about.get('algorithm'))}, but the agent that it is loaded into has a"
            f" model {algorithm!r}: set model.algorithm, or model.per_agent.N.algorithm of agent N, to match. To put another"
            " model in the place of an agent, begin a run of your own and load only the other agents there, as in"
            " --load-agent 1=RUN (experiment.load_agents)."
        )
    try:
        epsilon, updates = about["acting"]["epsilon"], about["learning"]["updates"]
        if not 0 <= epsilon <= 1 or not 0 <= updates < MOST:
            raise ValueError(f"epsilon is {short(epsilon)} after {short(updates)} updates")
    except (KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"the model file {path} is damaged or not one of abreast's: {error}.") from None
    expected, given = (
        {name: f"{each.shape} of {each.dtype}" for name, each in arrays.items() if name not in (LEARNED, CHOSEN)}
        for arrays in (places, state.arrays)
    )
    for name in sorted(given.keys() | expected.keys()):
        if given.get(name) != expected.get(name) and not name.endswith("generator"):
            raise ModelFileError(
                f"{path} does not fit this model: {name} is {given.get(name, 'missing')}, expected"
                f" {expected.get(name, 'no such tensor')}; the agent's view, actions or model settings differ."
            )
    for name, place in places.items():
        if name in given and given[name] == expected[name]:
            np.copyto(place, state.arrays[name])
