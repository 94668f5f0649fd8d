"""Attributes that a user's model class has added: which side changes them, how they are sent, and how they are kept.

choosing (actor)                                  learning (learner)
  take_action, remember, epoch actions              train_step
  changed here: `chosen` ──── with every order ───▶ a copy
  a copy ◀───────────────── with every publish ──── changed here: `learned`

An attribute that both sides change would have two values: it is refused by name.
"""

import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from abreast.attributes import ClassAttributes, OwnAttributes, is_foreign, reachable, shared_memory, unpack
from abreast.errors import ModelError
from abreast.state import Opaque, State

if TYPE_CHECKING:
    from abreast.models.base import BaseModel

log = logging.getLogger("abreast")

OF_CHOOSING = frozenset({"epsilon", "choosing_rng"})
"""Attributes of ours that belong to choosing, and are part of `acting_state` anyway."""
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)


class ModelAttributes(OwnAttributes):
    """The attributes of a user's model class. For our own classes there are none, and nothing here takes time."""

    def __init__(self, model: "BaseModel") -> None:
        super().__init__(model, model.KNOWN, model.places)
        self._model = model
        self.is_foreign = is_foreign(model)
        self.is_tracked = False
        self.has_learned = False
        self._of_class: ClassAttributes | None = None
        self.shared: dict[str, str] = {}
        """Attributes that another agent's model has too, and whose they are."""
        self.chosen: set[str] = set(OF_CHOOSING)
        """Attributes that choosing has changed."""
        self.learned: set[str] = set()
        """Attributes that learning has changed."""

    @property
    def watched(self) -> list[str]:
        return [*self.added, *OF_CHOOSING] if self.is_foreign else []

    def initial(self) -> list[str]:
        """Attributes that other actors begin with: all but those with generators, of which each actor has its own."""
        places, attributes = self._places(), vars(self._model)

        def draws(value: Any) -> bool:
            return any(isinstance(each, GENERATORS) for each in reachable(value, places))

        return [name for name in self.added if not draws(attributes[name])]

    # ---- which side changes them

    def track(self) -> None:
        """From now on, find out which side changes what."""
        if not self.is_foreign:
            return
        views = shared_memory({name: vars(self._model)[name] for name in self.added}, self._places())
        if views is not None:
            raise ModelError(
                f"{type(self._model).__name__}: {views} share memory, so that a change of one changes the other, which is"
                " lost where they are copied: keep one of them, and make the view where it is used."
            )
        self.look()
        self.is_tracked = True
        self._of_class = ClassAttributes([self._model])

    def untrack(self) -> None:
        """The run is over."""
        self.is_tracked, self.has_learned = False, False
        self.chosen, self.learned, self.shared = set(OF_CHOOSING), set(), {}

    def note_choosing(self) -> None:
        """An epoch was played."""
        if self.is_tracked:
            self.chosen |= self.changed()
            self._refuse(self.learned)
            self._check_class("choosing")

    def begin_learning(self) -> None:
        """A round is about to be trained; epsilon was lowered since the last epoch, and not by learning."""
        if self.is_tracked:
            self.look(OF_CHOOSING)

    def note_learning(self) -> None:
        """A round was trained."""
        if self.is_tracked:
            self.learned |= self.changed()
            self.has_learned = True
            self._check_class("learning")

    def _check_class(self, side: str) -> None:
        """Refuse what changes in a class, of which every process has its own."""
        assert self._of_class is not None
        changed = self._of_class.changed()
        if changed is not None:
            raise ModelError(
                f"{changed} belongs to the class and changes in {side}, but every process has a class of its own: make it an"
                " attribute of self, in setup."
            )

    def _refuse(self, learned: Iterable[str]) -> None:
        """Refuse attributes that both sides change, and those that change and that another agent's model has too."""
        if not self.is_tracked:
            return
        for name in sorted((self.chosen | set(learned)) & self.shared.keys()):
            raise ModelError(
                f"{type(self._model).__name__}.{name} changes, and is one and the same as {self.shared[name]}, but agents"
                " are independent learners, perhaps in separate processes: make one for each."
            )
        both = sorted(self.chosen & set(learned))
        if both:
            raise ModelError(
                f"{type(self._model).__name__} changes {', '.join(both)} in choosing (take_action, remember, epoch actions)"
                " and in learning (train_step), which happen in separate processes: keep experience in self.memory, draw"
                " choices from self.choosing_rng and what learning draws from a generator of its own, lower epsilon in"
                " epsilon_decay; or run it sequentially."
            )

    # ---- sent

    def with_learned(self, state: State) -> State:
        """The state of learning, with what learning changes; before the first round, with what other actors begin with."""
        if not self.is_tracked:
            return state
        facts = {**state.facts, "changed_by_learning": sorted(self.learned), "has_learned": self.has_learned}
        return self._with(state._replace(facts=facts), self.learned if self.has_learned else self.initial())

    def take_learned(self, state: State, to_learn: bool = False) -> None:
        """Take over what learning has changed elsewhere, to choose with it or to learn on.

        A learner has all that others begin with already, by its recipe.
        """
        changed = set(state.facts.get("changed_by_learning", ()))
        self._refuse(changed)
        if "own" in state.opaque and (state.facts["has_learned"] or not to_learn):
            self.take(state.opaque["own"].data)
        self.learned |= changed

    def with_chosen(self, state: State) -> State:
        """The state of choosing, with what choosing changes."""
        return self._with(state, self.chosen if self.is_tracked else ())

    def take_chosen(self, state: State) -> None:
        """Take over what choosing has changed elsewhere."""
        if "own" in state.opaque:
            self.chosen |= self.take(state.opaque["own"].data)
        if self.is_tracked:
            self.look(OF_CHOOSING)

    def unlearned(self) -> bytes:
        """All that can be sent and that learning does not change, as it is now."""
        return self.pack(set(self.added) - self.learned)

    @contextmanager
    def as_it_was(self, unlearned: bytes) -> Iterator[None]:
        """Inside, what choosing has changed since `unlearned` is as it was then."""
        attributes, names = vars(self._model), self.chosen - OF_CHOOSING
        now = {name: attributes.pop(name) for name in names if name in attributes}
        before = unpack(unlearned, self._places())
        attributes.update({name: before[name] for name in names if name in before})
        self.look(names)
        try:
            yield
        finally:
            for name in names:
                attributes.pop(name, None)
            attributes.update(now)
            self.look(names)

    def _with(self, state: State, names: Iterable[str]) -> State:
        sent = sorted(set(names) - OF_CHOOSING)
        return state._replace(opaque={**state.opaque, "own": Opaque("pickle", self.pack(sent))}) if sent else state

    def generators(self) -> list[Any]:
        """Random generators in the attributes, in a fixed order."""
        if not self.is_foreign:
            return []
        values = [vars(self._model)[name] for name in sorted(self.added)]
        return [each for each in reachable(values, self._places()) if isinstance(each, GENERATORS)]

    # ---- kept in a file, where nothing is pickled

    def kept(self) -> State:
        """The attributes as facts and arrays; one that cannot be written so is named in the log."""
        facts: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for name in self.added if self.is_foreign else ():
            value = vars(self._model)[name]
            found: dict[str, Any] = {}
            try:
                facts[name] = _encode(value, f"own.{name}", found)
                arrays |= found
            except (_Unknown, RecursionError) as unknown:
                if not callable(value) or isinstance(value, torch.nn.Module):
                    log.warning(
                        "%s.%s holds a %s, which cannot be kept in a file: whoever loads the model has it as `setup` makes"
                        " it.",
                        type(self._model).__name__,
                        name,
                        unknown,
                    )
        return State(facts, arrays)

    def restore(self, state: State) -> None:
        """Take attributes over from what `kept` returned."""
        attributes = vars(self._model)
        for name, encoded in state.facts.items():
            try:
                attributes[name] = _decode(encoded, state.arrays, attributes.get(name))
            except _Unknown as unknown:
                log.warning(
                    "%s.%s is not restored from the file: %s, which `setup` would have to make first.",
                    type(self._model).__name__,
                    name,
                    unknown,
                )


def note_shared(models: "Sequence[BaseModel]") -> None:
    """Find out which attributes of users' models are, or hold, one and the same thing."""
    owners: dict[int, tuple[int, str]] = {}
    for agent, model in enumerate(models):
        own = model.own_attributes
        places = model.places() if own.is_foreign else {}
        for name in own.added if own.is_foreign else ():
            for each in reachable(vars(model)[name], places):
                other, other_name = owners.setdefault(id(each), (agent, name))
                if other != agent:
                    own.shared[name] = f"that of agent {other}"
                    models[other].own_attributes.shared[other_name] = f"that of agent {agent}"


def reseed(generator: Any, seed: np.random.SeedSequence) -> None:
    """Let a generator of any kind begin a new stream."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = type(generator.bit_generator)(seed).state
    elif isinstance(generator, np.random.RandomState):
        generator.seed(seed.generate_state(4))
    elif isinstance(generator, random.Random):
        generator.seed(int(seed.generate_state(1, np.uint64)[0]))
    else:
        generator.manual_seed(int(seed.generate_state(1, np.uint64)[0]))


class _Unknown(Exception):
    """There is no way to write such a value."""


PLAIN = (bool, int, float, str, type(None))
KIND, VALUE = "kind", "value"


def _encode(value: Any, path: str, arrays: dict[str, Any]) -> Any:
    """A value as JSON, with its arrays apart."""

    def inner(each: Any, key: object) -> Any:
        return _encode(each, f"{path}.{key}", arrays)

    def array(each: Any) -> str:
        arrays[path] = np.array(each)  # a copy: the file's own
        return path

    if type(value) in PLAIN:
        return value
    if type(value) is list:
        return [inner(each, number) for number, each in enumerate(value)]
    if type(value) is tuple:
        return {KIND: "tuple", VALUE: [inner(each, number) for number, each in enumerate(value)]}
    if type(value) is set:
        return {KIND: "set", VALUE: [inner(each, number) for number, each in enumerate(sorted(value, key=repr))]}
    if type(value) is deque:
        return {KIND: "deque", VALUE: [inner(each, number) for number, each in enumerate(value)], "most": value.maxlen}
    if isinstance(value, dict):
        pairs = [[inner(key, f"key{number}"), inner(each, number)] for number, (key, each) in enumerate(value.items())]
        return {KIND: "dict", VALUE: pairs}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return {KIND: "array" if isinstance(value, np.ndarray) else "scalar", VALUE: array(value)}
    if isinstance(value, torch.Tensor) and value.grad_fn is None and value.dtype != torch.bfloat16:
        return {KIND: "tensor", VALUE: array(value.detach().cpu().numpy())}
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return {KIND: "state_dict", VALUE: inner(dict(value.state_dict()), "state")}
    if isinstance(value, np.random.Generator):
        return {KIND: "generator", VALUE: _plain(value.bit_generator.state)}
    if isinstance(value, torch.Generator):
        return {KIND: "torch_generator", VALUE: array(value.get_state().numpy())}
    if isinstance(value, random.Random):
        return {KIND: "random", VALUE: inner(value.getstate(), "state")}
    raise _Unknown(type(value).__name__)


def _plain(state: Any) -> Any:
    """The state of a NumPy generator as JSON."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state


def _decode(encoded: Any, arrays: dict[str, Any], current: Any) -> Any:
    """The value that was encoded; modules, optimisers, tensors and generators are changed in place."""
    if isinstance(encoded, list):
        now = current if isinstance(current, list) and len(current) == len(encoded) else [None] * len(encoded)
        return [_decode(each, arrays, old) for each, old in zip(encoded, now, strict=True)]
    if not isinstance(encoded, dict):
        return encoded
    return DECODERS[encoded[KIND]](encoded, arrays, current)


def _decode_dict(encoded: Any, arrays: Any, current: Any) -> Any:
    pairs = [(_decode(key, arrays, None), value) for key, value in encoded[VALUE]]
    now = current if isinstance(current, dict) else {}
    decoded = {key: _decode(value, arrays, now.get(key)) for key, value in pairs}
    if type(now) is dict:
        return decoded
    now.clear()  # a defaultdict, say, which stays one
    now.update(decoded)
    return now


def _decode_tensor(encoded: Any, arrays: Any, current: Any) -> Any:
    tensor = torch.from_numpy(arrays[encoded[VALUE]].copy())
    if not isinstance(current, torch.Tensor) or current.shape != tensor.shape or current.dtype != tensor.dtype:
        return tensor
    with torch.no_grad():
        current.copy_(tensor)
    return current


def _decode_sequence(encoded: Any, arrays: Any, current: Any) -> list[Any]:
    return _decode(encoded[VALUE], arrays, list(current) if isinstance(current, tuple | deque) else None)  # type: ignore[no-any-return]


def _there(current: Any, attribute: str, what: str) -> None:
    """Refuse to restore what is changed in place where there is none."""
    if not hasattr(current, attribute):
        raise _Unknown(f"it holds {what}")


def _decode_state_dict(encoded: Any, arrays: Any, current: Any) -> Any:
    _there(current, "load_state_dict", "a module or optimiser")
    current.load_state_dict(_decode(encoded[VALUE], arrays, None))
    return current


def _decode_generator(encoded: Any, arrays: Any, current: Any) -> Any:
    _there(current, "bit_generator", "a generator")
    current.bit_generator.state = encoded[VALUE]
    return current


def _decode_torch_generator(encoded: Any, arrays: Any, current: Any) -> Any:
    _there(current, "set_state", "a generator")
    current.set_state(torch.from_numpy(arrays[encoded[VALUE]].copy()))
    return current


def _decode_random(encoded: Any, arrays: Any, current: Any) -> Any:
    _there(current, "setstate", "a generator")
    current.setstate(_decode(encoded[VALUE], arrays, None))
    return current


DECODERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tuple": lambda encoded, arrays, current: tuple(_decode_sequence(encoded, arrays, current)),
    "set": lambda encoded, arrays, current: set(_decode(encoded[VALUE], arrays, None)),
    "deque": lambda encoded, arrays, current: deque(_decode_sequence(encoded, arrays, current), encoded["most"]),
    "dict": _decode_dict,
    "array": lambda encoded, arrays, current: arrays[encoded[VALUE]],
    "scalar": lambda encoded, arrays, current: arrays[encoded[VALUE]][()],
    "tensor": _decode_tensor,
    "state_dict": _decode_state_dict,
    "generator": _decode_generator,
    "torch_generator": _decode_torch_generator,
    "random": _decode_random,
}
