"""Can a run of this game be resumed, bit for bit? If not, why not, in a sentence that names the thing.

What a checkpoint holds is the state of the game and of its models. A user's code may keep more: in objects that cannot be
written, in attributes of classes, in variables of modules, on a map that outlives `reset`. Whatever of this is found when a
checkpoint is taken would be lost, so the run says so instead.
"""

import json
import random
import sys
from collections import deque
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from abreast.attributes import ClassAttributes, digest, is_foreign
from abreast.errors import StateError
from abreast.models import BaseModel
from abreast.plain_values import user_modules
from abreast.state import State
from abreast.worlds.playable import Playable

WATCHED = (bool, int, float, str, list, dict, set, tuple, deque, bytearray, np.ndarray)
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


class Resumability:
    """Made before a run begins: what changes from then on, outside of what a checkpoint holds, is a reason."""

    def __init__(self, game: Playable) -> None:
        self._game = game
        objects = self._objects()
        foreign = [each for each in objects if is_foreign(each)]
        self._classes = ClassAttributes(foreign) if foreign else None
        self._variables = ModuleVariables(user_modules(foreign)) if foreign else None

    def reason(self) -> str | None:
        """Why a run of this game could not be resumed from a checkpoint of now; None if it could."""
        try:
            self._write()
        except StateError as error:
            return str(error)
        if getattr(self._game, "keeps_map", False):
            return (
                f"{type(self._environments[0]).__name__}.reset leaves the map as it was, which is part of no checkpoint:"
                " call self.world.create_world and put everything on the map again."
            )
        if self._classes is not None and (name := self._classes.changed()) is not None:
            return (
                f"{name} belongs to a class and has changed since the run began, but a checkpoint holds attributes of"
                " objects: make it an attribute of self."
            )
        if self._variables is not None and (name := self._variables.changed()) is not None:
            return (
                f"the variable {name} of a module has changed since the run began, but a checkpoint holds attributes of"
                " objects: make it an attribute of the environment, the world, an agent or a model."
            )
        return None

    def _write(self) -> None:
        """Write all that a checkpoint needs of users' objects; raises `StateError`."""
        if self._classes is None:  # all of it is ours
            return
        check_state(getattr(self._game, "file_state", self._game.state)(), type(self._game).__name__)
        for model in self._models:
            model.own_attributes.kept_whole()

    @property
    def _environments(self) -> list[Any]:
        return list(getattr(self._game, "environments", ()))

    @property
    def _models(self) -> list[BaseModel]:
        return [player.model for player in self._game.players]

    def _objects(self) -> list[object]:
        """Everything whose class a user may have written."""
        found: list[object] = [self._game, *self._models]
        for env in self._environments:
            found += [env, env.world, *env.agents]
            found += {type(entity): entity for entity in env.world.map.flat}.values()
        return found


def check_state(state: State, owner: str) -> None:
    """Refuse, by a `StateError`, a state that does not fit into a file."""
    if state.opaque:
        raise StateError(
            f"{owner}.state has opaque parts ({', '.join(state.opaque)}), which are not kept in files: give them as facts"
            " (JSON) and arrays."
        )
    for name, value in state.facts.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise StateError(
                f"{owner}.state has the fact {name}, which does not fit into JSON ({error}): make it of numbers, text, lists"
                " and dictionaries."
            ) from None
    for name, array in state.arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise StateError(f"{owner}.state has the array {name}, which is not one of numbers: make it one.")


class ModuleVariables:
    """Variables of users' modules that their functions refer to: have they changed?"""

    def __init__(self, modules: Collection[str]) -> None:
        self._modules = sorted(modules)
        self._digests = self._look()

    def changed(self) -> str | None:
        """The name of one that has changed."""
        now = self._look()
        names = {**self._digests, **now}
        return next((name for name in names if now.get(name, b"") != self._digests.get(name, b"")), None)

    def _look(self) -> dict[str, bytes | None]:
        found = {}
        for name in self._modules:
            variables = vars(sys.modules[name]) if name in sys.modules else {}
            used = set(_names_used(name, variables))
            for key, value in list(variables.items()):
                if key in used and not key.startswith("__") and self._is_watched(value):
                    found[f"{name}.{key}"] = digest(value, {})
        return found

    def _is_watched(self, value: object) -> bool:
        if isinstance(value, WATCHED + GENERATORS):
            return True
        own = type(value).__module__ in self._modules
        return own and not isinstance(value, type | FunctionType | ModuleType) and hasattr(value, "__dict__")


def _names_used(module: str, variables: dict[str, Any]) -> Iterator[str]:
    """Names that the code of a module's functions and methods refers to."""
    left: list[Any] = [value for value in list(variables.values()) if getattr(value, "__module__", None) == module]
    while left:
        value = left.pop()
        if isinstance(value, CodeType):
            yield from value.co_names
            left += [each for each in value.co_consts if isinstance(each, CodeType)]
        elif isinstance(value, type):
            left += vars(value).values()
        elif isinstance(value, property):
            left += [value.fget, value.fset]
        elif isinstance(value, staticmethod | classmethod):
            left.append(value.__func__)
        elif isinstance(value, FunctionType):
            left.append(getattr(value, "__wrapped__", None))
            left.append(value.__code__)
