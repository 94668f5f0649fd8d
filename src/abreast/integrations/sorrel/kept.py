"""What is kept of an environment of sorrel's: all attributes of it, of its world, its agents and their models.

They are written as one pickle (`codec.py`), so that what they share stays shared. When they are read, the objects
themselves stay: an environment that a script has built is the one that goes on.
"""

import copy
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from abreast.attributes import IMMUTABLE, reachable
from abreast.codec import Names, Places, decode, encode_possible
from abreast.errors import ConfigError, StateError

LEFT_OUT = "left_out"
"""Where a pickle names attributes that are not in it. (All others have a dot in their names.)"""
LOCKS = {"lock": threading.Lock, "RLock": threading.RLock}
"""By the names of their types: models of sorrel's hold them, and they have no state between two epochs."""


def owners_of(env: Any) -> dict[str, Any]:
    """The objects whose attributes are kept."""
    agents = {f"agent{number}": agent for number, agent in enumerate(env.agents)}
    models = {f"model{number}": agent.model for number, agent in enumerate(env.agents)}
    return {"env": env, "world": env.world, **agents, **models}


def shared_places(config: Any) -> dict[str, object]:
    """What is not kept: the generator of the process, which models refer to, and the configuration."""
    return {"torch.default_generator": torch.default_generator, **dict(_sections(config, "config"))}


def _sections(config: Any, path: str) -> Iterator[tuple[str, object]]:
    if not isinstance(config, IMMUTABLE):  # a number is one and the same object wherever it occurs
        yield path, config
    for name, section in config.items_ex(resolve=False) if hasattr(config, "items_ex") else ():  # OmegaConf's
        yield from _sections(section, f"{path}.{name}")


def attributes_of(owners: Mapping[str, Any]) -> dict[str, Any]:
    """Their attributes, by names such as `agent0.location`."""
    return {f"{key}.{name}": value for key, owner in owners.items() for name, value in vars(owner).items()}


def encode_attributes(
    owners: Mapping[str, Any], places: Places, names: Names
) -> tuple[NDArray[np.uint8], dict[str, str]]:
    """All attributes of these objects as bytes; and those that cannot be encoded, which are left out, with the reason."""
    values = attributes_of(owners)
    locks = [each for each in reachable(list(values.values()), places) if type(each).__name__ in LOCKS]
    places = {**places, **{f"{type(lock).__name__} {number}": lock for number, lock in enumerate(locks)}}
    data, left_out = encode_possible({**values, LEFT_OUT: []}, places, names)
    if left_out:
        kept = {path: value for path, value in values.items() if path not in left_out}
        data, _ = encode_possible({**kept, LEFT_OUT: [*left_out]}, places, names)
    return data, {path: error.of(type(_owner(owners, path)[0]).__name__) for path, error in left_out.items()}


def set_attributes(owners: Mapping[str, Any], data: NDArray[np.uint8], places: Places, names: Names) -> None:
    """Give objects the attributes that `encode_attributes` was given, and no others; what was left out there stays."""
    now = attributes_of(owners)
    found = decode(data, _WithNewLocks(places), names, now)
    gone = now.keys() - found.keys() - set(found.pop(LEFT_OUT))
    changes = [(*_owner(owners, path), value) for path, value in found.items()]  # one that does not fit changes nothing
    for owner, name in [_owner(owners, path) for path in gone]:
        del vars(owner)[name]
    for owner, name, value in changes:
        vars(owner)[name] = value


class _WithNewLocks(dict[str, object]):
    """Places, and a new lock for each that was in what is read."""

    def __missing__(self, name: str) -> object:
        self[name] = LOCKS[name.partition(" ")[0]]()
        return self[name]


def copy_environment(env: Any) -> Any:
    """Another environment like this one, which shares nothing with it; a `ConfigError` says why there is none."""
    owners, names, config = owners_of(env), Names(owners_of(env).values()), copy.deepcopy(env.config)
    data, left_out = encode_attributes(owners, {**owners, **shared_places(env.config)}, names)
    copies = {key: object.__new__(type(owner)) for key, owner in owners.items()}
    try:
        for reason in left_out.values():
            raise StateError(reason)
        set_attributes(copies, data, {**copies, **shared_places(config)}, names)
    except StateError as error:
        raise ConfigError(
            f"{type(env).__name__} cannot be evaluated here, because it cannot be copied: {error} (`abreast eval RUN` builds"
            " another one.)"
        ) from error
    return copies["env"]


def _owner(owners: Mapping[str, Any], path: str) -> tuple[Any, str]:
    key, _, name = path.partition(".")
    if key not in owners:
        raise StateError(f"{path} is in the state, but there is no such object here.")
    return owners[key], name
