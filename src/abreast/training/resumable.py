"""Can a run of this game be resumed, bit for bit? If not, why not, in a sentence that names the thing.

What a checkpoint holds is the state of the game and of its models. A user's code may keep more: in objects that cannot be
written, in attributes of classes, in variables of modules, on a map that outlives `reset`. Whatever of this is found when a
checkpoint is taken would be lost, so the run says so instead.
"""

import json
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any

import numpy as np

from abreast.attributes import ClassAttributes, digest, first_change, is_foreign
from abreast.errors import StateError
from abreast.models import BaseModel
from abreast.plain_values import Places, user_modules
from abreast.plain_values.encoding import enclosed_by, slots_of
from abreast.plain_values.needed import needed as needed_by
from abreast.state import State, part_of
from abreast.worlds.playable import Playable


class Resumability:
    """Made before a run begins: what changes from then on, outside of what a checkpoint holds, is a reason."""

    def __init__(self, game: Playable, *others: object) -> None:
        """`others`: what else a script may hold of the run, and what is not part of the game."""
        self._game, self._others = game, others
        objects = self._objects()
        for env in self._environments:
            objects += {type(entity): entity for entity in env.world.map.flat}.values()
        foreign = [each for each in objects if is_foreign(each)]
        self._classes = ClassAttributes(foreign) if foreign else None
        self._bodies, self._configs = self._kinds(), self._all_configs()
        self._there: dict[str, str] | None = None
        """What was there when the run began, of that which has to be there when it goes on."""
        with suppress(StateError):  # which will be told as a reason
            self._there = self._write()
        self._variables = ModuleVariables(user_modules(foreign), self._places) if foreign else None

    def reason(self) -> str | None:
        """Why a run of this game could not be resumed from a checkpoint of now; None if it could."""
        known: str | None = getattr(self._game, "why_not_resumable", None)
        if known is not None:
            return known
        try:
            needed = self._write()
        except StateError as error:
            return str(error)
        there = needed if self._there is None else self._there
        for path, told in needed.items():
            if path not in there and ("." not in told or told not in there.values()):
                return (
                    f"{path} ({told}) was made after the run began, and is not made from a file: make it in __init__,"
                    " setup_agents or setup, so that it is there when the run goes on."
                )
        if getattr(self._game, "keeps_map", False):
            return (
                f"{type(self._environments[0]).__name__}.reset leaves the map as it was, which is part of no checkpoint:"
                " call self.world.create_world and put everything on the map again."
            )
        if self._classes is not None and (reason := self._of_bodies()) is not None:
            return reason
        if self._classes is not None and (name := self._classes.changed()) is not None:
            return (
                f"{name} belongs to a class and has changed since the run began, but a checkpoint holds attributes of"
                " objects: make it an attribute of self."
            )
        if self._variables is not None and (name := self._variables.changed()) is not None:
            return (
                f"{name} has changed since the run began, but a checkpoint holds attributes of objects: make it an attribute"
                " of the environment, the world, an agent or a model."
            )
        return None

    def _of_bodies(self) -> str | None:
        """What is wrong with the classes of worlds, agents and models, if anything is."""
        for each in self._objects():
            if is_foreign(each) and (slots := _own_slots(type(each))):
                return (
                    f"{type(each).__name__} keeps {slots[0]} in a slot, but a checkpoint holds attributes: leave out"
                    " __slots__."
                )
        for (name, was), now in zip(self._bodies.items(), self._kinds().values(), strict=False):
            if now is not was:
                return (
                    f"the {name} is a {now.__name__} now and was a {was.__name__} when the run began, but a checkpoint"
                    " holds the attributes of an object, not its class: let one class do both."
                )
        for (name, before), config in zip(self._configs.items(), self._all_configs().values(), strict=False):
            if config != before:
                return (
                    f"the configuration of {name} has changed since the run began, but a checkpoint holds the one it was"
                    " begun with: keep what changes in an attribute."
                )
        return None

    def _kinds(self) -> dict[str, type]:
        """The classes of all worlds and agents."""
        found: dict[str, type] = {}
        for lane, env in enumerate(self._environments):
            of_lane = f" of lane {lane}" if lane else ""
            found[f"world{of_lane}"] = type(env.world)
            found |= {f"agent {number}{of_lane}": type(agent) for number, agent in enumerate(env.agents)}
        return found

    def _all_configs(self) -> dict[str, Any]:
        """The settings of environments and models."""
        found = {f"{type(env).__name__}, lane {lane},": env.config for lane, env in enumerate(self._environments)}
        return found | {f"agent {number}'s model": model.config for number, model in enumerate(self._models)}

    def _write(self) -> dict[str, str]:
        """Write all that a checkpoint needs of users' objects; raises `StateError`. Returns what has to be there already
        when it is read.
        """
        if self._classes is None:  # all of it is ours
            return {}
        state = getattr(self._game, "file_state", self._game.state)()
        check_state(state, type(self._game).__name__)
        found: dict[str, str] = {}
        modules = user_modules(self._objects())
        for lane in range(len(self._environments)):
            of_lane = f" of lane {lane}" if lane else ""
            added = needed_by(part_of(state, f"lane{lane}.added"), modules)
            found |= {f"{path}{of_lane}": told for path, told in added.items()}
        for number, model in enumerate(self._models):
            own = needed_by(model.own_attributes.kept_whole(), modules)
            found |= {f"{type(model).__name__}.{path} of agent {number}": told for path, told in own.items()}
        return found

    def _places(self) -> dict[str, object]:
        """What checkpoints hold anyway: a script's own variables usually refer to it."""
        found: dict[str, object] = {"game": self._game, **{f"other {i}": each for i, each in enumerate(self._others)}}
        for number, env in enumerate(self._environments):
            found |= {f"{number}.{name}": place for name, place in env._places().items()}
        for number, model in enumerate(self._models):
            found |= {f"model {number}.{name}": place for name, place in model.places().items()}
        return found

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
    """What users' modules hold, and their classes and functions with them: has any of it changed?

    Variables count if a function of the module refers to them. Of a function: its defaults, what it encloses,
    its attributes.
    (What `functools.cache` remembers is taken for what would be computed again.)
    """

    def __init__(self, modules: Collection[str], places: Callable[[], Places]) -> None:
        self._modules, self._places = sorted(modules), places
        self._digests = self._look()

    def changed(self) -> str | None:
        """One that has changed, in words."""
        return first_change(self._digests, self._look())

    def _look(self) -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        self._seen: set[int] = set()
        self._now = self._places()
        for name in self._modules:
            variables = vars(sys.modules[name]) if name in sys.modules else {}
            used = set(_names_used(name, variables))
            for key, value in list(variables.items()):
                if isinstance(value, FunctionType | type) and value.__module__ == name:
                    self._look_inside(f"{name}.{key}", value, found)
                elif key in used and not key.startswith("__") and self._is_watched(value):
                    found[f"the variable {name}.{key} of a module"] = self._digest(value)
        return found

    def _look_inside(self, path: str, thing: Any, found: dict[str, bytes | None]) -> None:
        """What a class or a function holds."""
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        if isinstance(thing, FunctionType):
            enclosed = enclosed_by(thing)
            defaults: dict[Any, Any] = {**dict(enumerate(thing.__defaults__ or ())), **(thing.__kwdefaults__ or {})}
            for about, held in (
                ("a default of", defaults),
                ("an attribute of", {key: each for key, each in vars(thing).items() if key != "__wrapped__"}),
                ("what is enclosed in", enclosed),
            ):
                for key, value in held.items():
                    if self._is_watched(value):
                        found[f"{about} the function {path} ({key})"] = self._digest(value)
            for value in (*enclosed.values(), getattr(thing, "__wrapped__", None)):
                if isinstance(value, FunctionType) and value.__module__ in self._modules:
                    self._look_inside(path, value, found)
            return
        for key, value in list(vars(thing).items()):
            if isinstance(value, property):
                functions = [each for each in (value.fget, value.fset) if isinstance(each, FunctionType)]
            else:
                functions = [getattr(value, "__func__", value)]
            for each in functions:
                if isinstance(each, FunctionType | type):
                    if each.__module__ == thing.__module__:
                        self._look_inside(f"{path}.{key}", each, found)
                elif not key.startswith(("__", "_abc_")) and self._is_watched(each):
                    found[f"the attribute {path}.{key} of a class"] = self._digest(each)

    def _is_watched(self, value: object) -> bool:
        return not isinstance(value, type | ModuleType | FunctionType | BuiltinFunctionType)

    def _digest(self, value: Any) -> bytes | None:
        if isinstance(value, GeneratorType):
            frame = value.gi_frame
            about = (frame.f_lasti, digest(dict(frame.f_locals), self._now)) if frame is not None else ()
            return repr(about).encode()
        return digest(value, self._now)


def _own_slots(kind: type) -> list[str]:
    return [name for name, slot in slots_of(kind).items() if not slot.__objclass__.__module__.startswith("abreast.")]


def _names_used(module: str, variables: dict[str, Any]) -> Iterator[str]:
    """Names that the code of a module's functions and methods refers to."""
    left: list[Any] = [value for value in list(variables.values()) if getattr(value, "__module__", None) == module]
    seen: set[int] = set()
    while left:
        value = left.pop()
        if id(value) in seen:  # classes may name each other
            continue
        seen.add(id(value))
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
