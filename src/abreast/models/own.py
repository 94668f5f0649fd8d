"""Attributes that a user's model class has added: which side changes them, how they are sent, and how they are kept.

choosing (actor)                                  learning (learner)
  take_action, remember, epoch actions              train_step
  changed here: `chosen` ──── with every order ───▶ a copy
  a copy ◀───────────────── with every publish ──── changed here: `learned`

An attribute that both sides change would have two values: it is refused by name.
"""

import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from abreast.attributes import REMEDY, ClassAttributes, OwnAttributes, is_foreign, reachable, shared_memory, unpack
from abreast.errors import ModelError, StateError
from abreast.plain_values import Decoder, NotHere, Unwritable, encode_all, user_modules
from abreast.plain_values.older import is_older, translated
from abreast.state import Opaque, State

if TYPE_CHECKING:
    from abreast.models.base import BaseModel

log = logging.getLogger("abreast")

OF_CHOOSING = frozenset({"epsilon", "choosing_rng"})
"""Attributes of ours that belong to choosing, and are part of `acting_state` anyway."""
PREFIX = "own."
"""Names of arrays in files that hold users' attributes begin with this."""
GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)


class ModelAttributes(OwnAttributes):
    """The attributes of a user's model class. For our own classes there are none, and nothing here takes time."""

    has_copy = False
    """Whether a copy of the model learns beside the one that plays even in one thread, where the two do not take turns."""

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

    def track_in_step(self) -> None:
        """The same, where learning happens in this thread, after every pass, because that was planned."""
        self.track()

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
        begin = [] if self.has_learned else [name for name in self.initial() if name not in self.chosen]
        return self._with(state._replace(facts=facts), self.learned if self.has_learned else begin)

    def take_learned(self, state: State, to_learn: bool = False) -> None:
        """Take over what learning has changed elsewhere, to choose with it or to learn on.

        A learner has all that others begin with already, by its recipe. What others begin with is read again until there
        is something learned (a frozen agent never learns): what choosing has changed here since then stays.
        """
        changed = set(state.facts.get("changed_by_learning", ()))
        self._refuse(changed)
        if "own" in state.opaque and (state.facts["has_learned"] or not to_learn):
            self.take(state.opaque["own"].data, () if state.facts["has_learned"] else self.chosen)
        self.learned |= changed

    def with_chosen(self, state: State) -> State:
        """The state of choosing, with what choosing changes."""
        return self._with(state, self.chosen if self.is_tracked else ())

    def take_chosen(self, state: State) -> None:
        """Take over what choosing has changed elsewhere."""
        if "own" in state.opaque:
            self.chosen |= self.take(state.opaque["own"].data)
        if "own" in state.facts:
            arrays = {name: array for name, array in state.arrays.items() if name.startswith(PREFIX)}
            self.chosen |= self._take_kept(State(state.facts["own"], arrays))
        if self.is_tracked:
            self.look(OF_CHOOSING)

    def chosen_for_file(self, state: State) -> State:
        """The state of choosing, as `with_chosen` returned it, with nothing pickled; `take_chosen` takes it too."""
        if not self.is_tracked:
            return state._replace(opaque={})
        own = self._kept_strictly(self.chosen - OF_CHOOSING)
        return State({**state.facts, "own": own.facts}, {**state.arrays, **own.arrays})

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
        """The attributes as facts and arrays; one that cannot be written so is left out, and named in the log."""
        names = set(self.added) if self.is_foreign else set()
        while True:
            try:
                return self._kept(names)
            except Unwritable as error:
                names.discard(error.root)
                if not callable(vars(self._model)[error.root]) or isinstance(
                    vars(self._model)[error.root], torch.nn.Module
                ):
                    log.warning(
                        "%s.%s holds a %s, which cannot be kept in a file: a model that loads it has the one that `setup`"
                        " makes.",
                        type(self._model).__name__,
                        error.root,
                        error.kind,
                    )

    def kept_whole(self) -> State:
        """The attributes as facts and arrays, and which side has changed which; one that cannot be written so is named in a
        `StateError`.
        """
        kept = self._kept_strictly(self.added if self.is_foreign else ())
        if self.is_tracked:
            sides = {"chosen": sorted(self.chosen), "learned": sorted(self.learned), "has_learned": self.has_learned}
            kept = kept._replace(facts={**kept.facts, "sides": sides})
        return kept

    def _kept_strictly(self, names: Iterable[str]) -> State:
        try:
            return self._kept(names)
        except Unwritable as error:
            raise StateError(
                f"{type(self._model).__name__}.{error.path} ({error.kind}) cannot be kept in a file, because {error.reason}:"
                f" {REMEDY}."
            ) from None

    def _kept(self, names: Iterable[str]) -> State:
        attributes = vars(self._model)
        values = {name: attributes[name] for name in sorted(names) if name in attributes}
        if not values:
            return State()
        state = encode_all(values, self._places(), self._modules)
        gone = {"deleted": sorted(set(names) - values.keys())} if set(names) - values.keys() else {}
        return State({**state.facts, **gone}, {PREFIX + name: array for name, array in state.arrays.items()})

    @property
    def _modules(self) -> frozenset[str]:
        return user_modules([self._model])

    def restore(self, state: State) -> None:
        """Take attributes over from what `kept` returned; one that this model cannot take is named in the log."""
        self._take_kept(state, is_strict=False)

    def restore_whole(self, state: State) -> None:
        """Become what `kept_whole` was asked of: all its attributes and no others, each on the side that changes it."""
        taken = self._take_kept(state)
        for name in set(self.added) - taken if self.is_foreign else ():
            del vars(self._model)[name]
        if sides := state.facts.get("sides"):
            self.chosen = set(OF_CHOOSING) | set(map(str, sides.get("chosen", ())))
            self.learned = set(map(str, sides.get("learned", ())))
            self.has_learned = bool(sides.get("has_learned", False))
        if self.is_tracked:
            self.look()

    def _take_kept(self, state: State, is_strict: bool = True) -> set[str]:
        """Take attributes over from a file; returns their names."""
        facts = {name: fact for name, fact in state.facts.items() if name != "sides"}
        if not facts:
            return set()
        attributes = vars(self._model)
        facts = translated(facts) if is_older(facts) else facts
        arrays = {name.removeprefix(PREFIX): array for name, array in state.arrays.items()}
        arrays |= state.arrays  # older files have the prefix in their facts
        decoder = Decoder(State(facts, arrays), attributes, self._places(), self._modules)
        for name in decoder.names:
            if name in self._known:
                raise StateError(f"{name} is an attribute of {type(self._model).__name__} that is not kept so.")
            try:
                attributes[name] = decoder.value(name)
            except NotHere as error:
                if is_strict:
                    raise StateError(f"{type(self._model).__name__}.{error}") from None
                log.warning("%s.%s", type(self._model).__name__, error)
        gone = set(map(str, facts.get("deleted", ()))) - set(self._known)
        for name in gone:
            attributes.pop(name, None)
        names = gone | set(decoder.names)
        if self.is_tracked:
            self.look(names)
        return names


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


def stream_of(generator: Any) -> Any:
    """Where a generator of any kind is in its stream."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state()


def set_stream(generator: Any, stream: Any) -> None:
    """Let a generator go on from where `stream_of` one of the same kind was."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = stream
    elif isinstance(generator, random.Random):
        generator.setstate(stream)
    else:
        generator.set_state(stream)


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
