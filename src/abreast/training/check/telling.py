"""What checks of games and of models share: comparing what was learned, and errors in words."""

import hashlib
import json
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import abreast
from abreast.attributes import digest
from abreast.errors import AbreastError, words
from abreast.models import BaseModel
from abreast.plain_values import Unwritable, encode_all, user_modules
from abreast.state import State, join

HERE = Path(__file__).parent
OURS = Path(abreast.__file__).parent
SEED = 1


def told(error: BaseException) -> str:
    """What was raised: our own errors are sentences already; of others, the innermost line of the user's own code."""
    if isinstance(error, AbreastError):
        return f"{str(error).rstrip('.')}."
    places = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [place for place in places if OURS not in place[0].parents and "site-packages" not in place[0].parts]
    what = f"{type(error).__name__}: {error} ({own[-1][0].name}, line {own[-1][1]})" if own else words(error, HERE)
    return " ".join([f"it raised {what}.", *getattr(error, "__notes__", ())])


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what a run logs from the terminal: a verdict says it."""
    log = logging.getLogger("abreast")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def learned(model: BaseModel) -> dict[str, bytes]:
    """All that a model has learned, and where choosing is: by name, and alike wherever it was learned.

    (Pickles of equal objects may differ, so attributes of a user's are compared as they are written to files.)
    """
    state = join(learning=model.learning_state(), acting=model.acting_state())
    facts = {name: value for name, value in state.facts.items() if name != "learning.changed_by_learning"}
    return _digests(State(facts, state.arrays)) | kept(model)


def kept(model: BaseModel) -> dict[str, bytes]:
    """Digests of the attributes that a user's class has added, of those that can be kept in a file."""
    found = {}
    places, modules = model.places(), user_modules([model])
    for name in model.own_attributes.added if model.own_attributes.is_foreign else ():
        try:
            parts = _digests(encode_all({name: vars(model)[name]}, places, modules))
        except Unwritable:
            continue
        found[name] = b"".join(parts[key] for key in sorted(parts))
    return found


def not_kept(model: BaseModel) -> list[str]:
    """Attributes of a user's that cannot be kept in a file. Functions need not be."""
    if not model.own_attributes.is_foreign:
        return []
    known = kept(model)
    lost = {name: vars(model)[name] for name in model.own_attributes.added if name not in known}
    return [name for name, value in lost.items() if not callable(value) or hasattr(value, "state_dict")]


def attributes(model: BaseModel) -> dict[str, bytes]:
    """Digests of all that can be compared within one process."""
    found = learned(model)
    for name in model.own_attributes.added if model.own_attributes.is_foreign else ():
        if name not in found and (own := digest(vars(model)[name], model.places())) is not None:
            found[name] = own
    return found


def differing(one: Mapping[str, bytes], two: Mapping[str, bytes]) -> list[str]:
    """Names of what is not the same in both."""
    return sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))


def _digests(state: State) -> dict[str, bytes]:
    found = {name: json.dumps(value, sort_keys=True).encode() for name, value in state.facts.items()}
    for name, array in state.arrays.items():
        found[name] = f"{array.dtype} {array.shape} ".encode() + hashlib.blake2b(array.tobytes()).digest()
    return found
