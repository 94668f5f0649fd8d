"""Attributes that a user's model class has added, and which side of a parallel run owns them.

choosing (actor)                                learning (learner)
  take_action, remember, epoch actions            train_step
  those named in `acting` ── with every order ──▶ a copy
  a copy ◀──────────────── with every publish ─── all others

Each side looks, once a pass, whether it has changed what the other one owns. That would give two values to one attribute, so
it is refused by name, with the line to add. A sequential run has one copy of everything, and refuses nothing.
"""

import ast
import inspect
import random
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from abreast.attributes import reachable, shared_memory
from abreast.codec import Names, Places, attributes_of, decode, digest, encode_possible
from abreast.errors import AttributeStateError, ModelError, StateError
from abreast.state import State

if TYPE_CHECKING:
    from abreast.models.model_state import ModelState

LEARNED, CHOSEN = "own", "own_acting"
"""Arrays of the state of learning and of choosing: users' attributes in the one codec."""
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)
MUTATING = {name for kind in (list, set, dict, deque, np.random.Generator) for name in dir(kind)} - {
    *dir(tuple),
    *dir(""),
}
"""Methods that change what they are called on, or are at least called for that."""
CHOOSING = "choosing (take_action, remember, epoch actions and what else an actor calls)"


class ModelAttributes:
    """The attributes that a user has added to a model. Of our own classes there are none, and nothing here takes time."""

    def __init__(self, model: "ModelState") -> None:
        self._model = model
        self.is_guarded = False
        """Whether changes on the side that does not own an attribute are looked for: in a parallel run."""
        self.fault: str | None = None
        """What learning did that it must not, for the side that can end the run."""
        self.unkept: dict[str, AttributeStateError] = {}
        """Attributes that can be neither sent nor kept. (Found once: to find them again for every state takes time.)"""
        self.shared: dict[str, str] = {}
        """Attributes that another agent's model has too, and whose they are."""
        self._seen: dict[str, bytes | None] = {}

    @property
    def values(self) -> dict[str, Any]:
        """All of them, by name."""
        return attributes_of(self._model)

    @property
    def learned(self) -> set[str]:
        """Those that learning owns."""
        return self.values.keys() - set(self._model.acting)

    @cached_property
    def _names(self) -> Names:
        return Names([self._model])

    # ---- in a parallel run

    def guard(self) -> None:
        """A parallel run begins: refuse what one side cannot tell the other, and look for changes from now on."""
        kind, values = type(self._model).__name__, self.values
        for name in self._model.acting:
            if name not in values:
                raise ModelError(
                    f"{kind}.acting names {name!r}, but the model has no such attribute of its own: make it in setup, or"
                    " take the name out."
                )
        if values:
            if (views := shared_memory(values, self._model.places())) is not None:
                raise ModelError(
                    f"{kind}: {views} share memory, so that a change of one changes the other, which is lost where they are"
                    " copied: keep one of them, and make the view where it is used."
                )
            self.encoded(values)
        for error in self.unkept.values():
            raise error
        self.is_guarded = True
        self.look()

    def release(self) -> None:
        """The run is over."""
        self.is_guarded, self.fault, self.shared = False, None, {}

    def look(self) -> None:
        """Take attributes as they are now for unchanged."""
        if self.is_guarded:
            self._seen = self._digests()

    def _digests(self) -> dict[str, bytes | None]:
        values = self.values
        places = self._model.places() if values else {}
        return {name: digest(value, places) for name, value in {**values, "epsilon": self._model.epsilon}.items()}

    def _changed(self, names: Iterable[str]) -> list[str]:
        now = self._digests()
        return sorted(name for name in names if now.get(name, b"") != self._seen.get(name, b""))

    def check_choosing(self) -> None:
        """A pass was played: refuse attributes that it has changed though learning owns them."""
        if self.is_guarded and (changed := self._changed((self.learned | self._seen.keys()) - self._acting)):
            learned = changed_in_code(type(self._model), "train_step")
            if both := [name for name in changed if name in learned]:
                raise ModelError(self._on_both_sides(both))
            line = ", ".join(f'"{name}"' for name in (*self._model.acting, *changed))
            raise ModelError(
                f"{type(self._model).__name__} changes {', '.join(changed)} in {CHOOSING}, and learning, perhaps in another"
                f" process, has a copy: add the line `acting = ({line},)` to the class."
            )

    def refuse_fault(self, facts: Mapping[str, Any]) -> None:
        """Raise what a learner has noted in `fault`."""
        if facts.get("fault") is not None:
            raise ModelError(str(facts["fault"]))

    def check_learning(self) -> None:
        """A round was trained: note, for the side that chooses, that it has changed what choosing owns."""
        if self.is_guarded and (changed := self._changed(self._acting)):
            self.fault = self._on_both_sides(changed)
        self.look()

    def _on_both_sides(self, names: Iterable[str]) -> str:
        return (
            f"{type(self._model).__name__} changes {', '.join(names)} in choosing and in learning (train_step), which"
            " happen in separate processes: keep experience in self.memory, draw choices from self.choosing_rng and what"
            " learning draws from a generator of its own, lower epsilon in epsilon_decay; or run it sequentially."
        )

    @property
    def _acting(self) -> set[str]:
        return {*self._model.acting, "epsilon"}

    # ---- as part of a state

    def with_learned(self, state: State) -> State:
        """The state of learning, with the attributes that learning owns."""
        found = self._with(state, LEARNED, self.learned)
        for error in self.unkept.values() if self.is_guarded else ():
            self.fault = f"{type(self._model).__name__}: {error}."
        return found if self.fault is None else found._replace(facts={**found.facts, "fault": self.fault})

    def with_chosen(self, state: State) -> State:
        """The state of choosing, with the attributes that choosing owns."""
        found = self._with(state, CHOSEN, self._model.acting)
        for error in self.unkept.values() if self.is_guarded else ():
            raise error
        return found

    def _with(self, state: State, key: str, names: Collection[str]) -> State:
        found = {name: value for name, value in self.values.items() if name in names}
        return state._replace(arrays={**state.arrays, key: self.encoded(found)}) if found else state

    def encoded(self, values: dict[str, Any]) -> NDArray[np.uint8]:
        """These attributes as bytes, but for what cannot be encoded, which is then in `unkept`."""
        kept = {name: value for name, value in sorted(values.items()) if name not in self.unkept}
        data, left_out = encode_possible(kept, self._model.places(), self._names)
        self.unkept |= left_out
        return data

    def take_learned(self, state: State) -> None:
        """Take over what learning has changed elsewhere, to choose with it or to learn on."""
        if not self.values and LEARNED not in state.arrays:
            return
        before = self._seen
        self.take(state.arrays.get(LEARNED), self.learned)
        self.look()
        for name in sorted(self.shared) if self.is_guarded else ():
            if before.get(name) != self._seen.get(name):
                raise ModelError(
                    f"{type(self._model).__name__}.{name} changes, and is one and the same as {self.shared[name]}, but"
                    " agents are independent learners, perhaps in separate processes: make one for each."
                )

    def take_chosen(self, state: State) -> None:
        """Take over what choosing has changed elsewhere."""
        if CHOSEN in state.arrays:
            self.take(state.arrays[CHOSEN], set(self._model.acting) & self.values.keys())
        self.look()

    def take(self, data: NDArray[np.uint8] | None, owned: Collection[str] = ()) -> None:
        """Have the attributes that were encoded, and no others of those `owned` there."""
        model = self._model
        found = {} if data is None else decode(data, model.places(), self._names, self.values)
        for name in found:
            if name in model.KNOWN:
                raise StateError(f"{name} is an attribute of {type(model).__name__} that is not kept so.")
        for name in set(owned) - found.keys() - self.unkept.keys():
            object.__delattr__(model, name)
        for name, value in found.items():
            object.__setattr__(model, name, value)

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Let random generators in the attributes begin new streams."""
        values = [value for _, value in sorted(self.values.items())]
        reseed_generators(values, self._model.places() if values else {}, seed)


def changed_in_code(kind: type, method: str) -> set[str]:
    """Attributes that a method, and what it calls of the class, set or change in place, as far as their source says."""
    calls, found = [method], set[str]()
    for name, owner in ((name, owner) for name in calls for owner in kind.__mro__ if name in vars(owner)):
        with suppress(OSError, TypeError, SyntaxError):  # it is no function, or its source is not there
            for node in ast.walk(ast.parse(dedent(inspect.getsource(vars(owner)[name])))):
                match node:
                    case (
                        ast.Attribute(attr=attribute, ctx=ast.Store() | ast.Del())
                        | ast.Subscript(value=ast.Attribute(attr=attribute), ctx=ast.Store() | ast.Del())
                    ):
                        found.add(attribute)
                    case ast.Call(func=ast.Attribute(attr=call, value=ast.Attribute(attr=attribute))) if (
                        call in MUTATING
                    ):
                        found.add(attribute)
                    case ast.Attribute(attr=attribute) if attribute not in calls:
                        calls.append(attribute)
    return found


def note_shared(models: "Sequence[ModelState]") -> None:
    """Find out which attributes of users' models are, or hold, one and the same thing."""
    owners: dict[int, tuple[int, str]] = {}
    for agent, model in enumerate(models):
        own = model.own_attributes
        for name, value in own.values.items():
            for each in reachable(value, model.places()):
                other, other_name = owners.setdefault(id(each), (agent, name))
                if other != agent:
                    own.shared[name] = f"that of agent {other}"
                    models[other].own_attributes.shared[other_name] = f"that of agent {agent}"


def reseed_generators(values: object, places: Places, seed: np.random.SeedSequence) -> None:
    """Let all random generators in some values begin new streams; places, and the global one of torch, are passed over."""
    found = [each for each in reachable(values, places) if isinstance(each, GENERATORS)]
    for generator, own in zip(found, seed.spawn(len(found)), strict=True):
        if generator is not torch.default_generator:
            _reseed(generator, own)


def _reseed(generator: Any, seed: np.random.SeedSequence) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
    elif isinstance(generator, np.random.RandomState):
        generator.seed(seed.generate_state(4))
    elif isinstance(generator, random.Random):
        generator.seed(int(seed.generate_state(1, np.uint64)[0]))
    else:
        generator.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
