"""A model of sorrel's as one of ours: its agent's own object plays; where learning happens elsewhere, a copy of it learns.

                       rows (events.py)
    acting ── memory.add, epoch actions ──▶ replay ──▶ learning: the same calls, then its own `train_step`
      ▲                                                   │
      └───── all that the learner's copy is ◀─────────────┘   and then the rows it has not lived through yet

In a sequential run both are one object, and nothing is copied. In the others the two must have the same memory at the end of
every epoch, and playing may change nothing else in a model but by calls that are rows; if not, it is refused by name.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from abreast.attributes import reachable
from abreast.errors import ModelError, ModelFileError, StateError
from abreast.integrations.sorrel.calls import EpochCalls, Watch
from abreast.integrations.sorrel.carried import Carried, Packed, Side, from_blocks, in_blocks
from abreast.integrations.sorrel.events import MODEL_CALLS, Event, EventLog, Layout
from abreast.integrations.sorrel.generators import Generators, Unchanged
from abreast.integrations.sorrel.model_config import SorrelModelConfig
from abreast.models import BaseModel
from abreast.models.base import PlainObservation
from abreast.models.own import GENERATORS, ModelAttributes
from abreast.replay import Buffer
from abreast.state import State, copied, join, part_of
from abreast.streams import shared_streams

FORMAT = 1
"""Of the files of such models."""
STREAMS, OWN = "generators.", "own."


class SorrelModel(BaseModel):
    """Plays and learns with a model of sorrel's. `calls`: how its environment calls it, where the environment is."""

    Config = SorrelModelConfig
    config: SorrelModelConfig

    def __init__(
        self,
        carried: Carried,
        generators: Generators,
        playing: Generators | None,
        config: SorrelModelConfig,
        decay: float | None = None,
        calls: EpochCalls | None = None,
        memory: Buffer | None = None,
    ) -> None:
        inner = carried.model
        layout = Layout.of(inner.memory)
        self.why_inseparable: str | None = None if isinstance(layout, Layout) else layout
        """Why it can only play and learn in one place."""
        self.layout = layout if isinstance(layout, Layout) else Layout((1,), np.dtype(np.uint8), {})
        self.log = EventLog(self.layout)
        self.decay, self.playing, self.generators = decay, playing, generators
        self.calls = calls
        self.acting_side = self.learning = Side(carried)
        self.is_apart = False
        self.is_only_learner = memory is not None
        """Whether it is in a learner's process, and never plays."""
        self._watch = Watch(inner, self.note)
        self._has_to_adopt, self._decays = False, 0
        self._known: dict[str, object] = {}
        """Marks of what it is made of, as calls that are rows have left it."""
        self.epoch, self.reward, self.adds = 0, 0.0, 0
        """Of the epoch: its number, what was put into memory."""
        seen = PlainObservation(self.layout.shape, self.layout.dtype, 1.0)
        actions = getattr(inner, "action_space", 1)
        super().__init__(seen, actions if isinstance(actions, int) else len(actions), config, np.random.SeedSequence(0))
        if memory is not None:
            self.memory = memory

    def memory_options(self) -> dict[str, Any]:
        return {"extras": self.layout.columns()}

    @property
    def inner(self) -> Any:
        """The agent's own model."""
        return self.acting_side.carried.model

    @property
    def epsilon(self) -> float:
        return float(getattr(self.inner, "epsilon", 0.0))

    @epsilon.setter
    def epsilon(self, value: float) -> None:
        if "memory" in vars(self) and hasattr(self.inner, "epsilon"):  # not that of our settings (`BaseModel.__init__`)
            self.inner.epsilon = value

    @cached_property
    def own_attributes(self) -> "SorrelAttributes":
        return SorrelAttributes(self)

    # ---- playing

    def watch(self) -> None:
        """An epoch begins: from now on, calls of the model by its agent or environment are rows."""
        self.reward, self.adds = 0.0, 0
        self._catch_up_acting()
        self._look()
        self._watch.begin()

    def note(self, event: Event, *arguments: Any, **named: Any) -> None:
        """Write a call of the agent's model, or of its memory, as a row."""
        if event is Event.ADD:
            given = dict(zip(("obs", "action", "reward", "done"), arguments, strict=False)) | named
            self.reward, self.adds = self.reward + float(given["reward"]), self.adds + 1
            if self.why_inseparable is None:
                self.log.add(self.memory, **given)
        elif self.why_inseparable is None:
            self.log.note(self.memory, event, float(next(iter([*arguments, *named.values()]), 0.0)))
        if event in MODEL_CALLS.values():
            self._look()
        self._lived()

    def start_epoch_action(self, *, epoch: int) -> None:
        self.epoch = epoch
        self._refuse_other_changes()
        with self._watch.off(), self._playing("start_epoch_action"):
            if self.why_inseparable is None:
                self.log.note(self.memory, Event.START, epoch)
            if self.calls is not None:
                self.calls.start(epoch)
        if self._watch.is_on:
            self._watch.begin()
        self._lived()
        self._look()

    def end_epoch_action(self, *, epoch: int) -> None:
        self._watch.end()
        self._refuse_other_changes()
        with self._playing("end_epoch_action"):
            if self.why_inseparable is None:
                digest = self.acting_side.carried.digest() if self.is_apart else bytes(16)
                self.log.note(self.memory, Event.END, epoch, digest)
            if self.calls is not None:
                self.calls.end(epoch)
        self._lived()

    @contextmanager
    def _playing(self, name: str) -> Iterator[None]:
        """Inside, an action of the model draws as playing does; elsewhere, where it is repeated, it could not."""
        if self.playing is None:
            yield
            return
        with self.playing:
            before = shared_streams() if self.is_apart else []
            yield
            if self.is_apart and shared_streams() != before:
                raise ModelError(
                    f"{type(self.inner).__name__}.{name} draws random numbers, but it is also called where learning happens,"
                    " which would draw others: run it sequentially."
                )

    def _lived(self) -> None:
        self.acting_side.position = int(self.memory.ring.written()[0])

    def _look(self) -> None:
        """Take all but the memory as it is now for known."""
        self._known = self.acting_side.carried.marks() if self.is_apart else {}

    def _refuse_other_changes(self) -> None:
        """Refuse what playing changes in another way than by calls that are rows: learning would not know."""
        if not self.is_apart:
            return
        now = self.acting_side.carried.marks()
        changed = sorted(name for name in now if now[name] != self._known.get(name))
        if changed:
            raise ModelError(
                f"{type(self.inner).__name__} changes {', '.join(changed)} when it chooses, but learners elsewhere know only"
                " what is put into its memory: run it sequentially, or keep that out of the model."
            )

    def end_episode(self, lane: int, done: bool = False) -> None:
        self._watch.end()

    def epsilon_decay(self, rate: float) -> None:
        """As its environment's settings say, when this epoch's round has been trained, as in sorrel's own loop."""
        if self.decay is None:
            return
        if self.why_inseparable is None:
            self.log.note(self.memory, Event.DECAY, self.decay)
        else:
            self._decays += 1

    def take_actions(self, states: Sequence[NDArray[Any]], lanes: Sequence[int]) -> list[int]:
        """Asked for only when a run is measured: agents of sorrel's choose by themselves."""
        return [0] * len(lanes)

    def remember_all(
        self,
        states: Sequence[NDArray[Any]],
        actions: Sequence[int],
        rewards: Sequence[float],
        dones: Sequence[bool],
        lanes: Sequence[int],
    ) -> None:
        """Likewise."""
        try:
            self.inner.memory.add(states[0], actions[0], rewards[0], dones[0])
        except (AssertionError, TypeError):  # an action is a tuple with its log probability
            self.inner.memory.add(states[0], (actions[0], 0.0), rewards[0], dones[0])

    # ---- learning

    def train_step(self) -> float | None:
        self._catch_up(self.learning)
        with self.generators:
            inner = self.learning.carried.model
            is_here = self.learning is self.acting_side
            loss = self.calls.train() if is_here and self.calls is not None else inner.train_step()
        self._has_to_adopt = self.is_apart
        return float(np.asarray(loss))

    def _catch_up(self, side: Side) -> None:
        """Let a side live through the rows that it does not know."""
        if self.why_inseparable is not None or side.position >= int(self.memory.written[0]):
            return

        def check(digest: bytes) -> None:
            if any(digest) and side.carried.digest() != digest:
                raise ModelError(
                    f"the memory of {type(side.carried.model).__name__} is not the same after the same calls elsewhere:"
                    " does train_step change it, or memory.add draw? Run it sequentially."
                )

        with Unchanged():
            side.position = self.log.replay(side.carried.model, self.memory, side.position, check)

    def _catch_up_acting(self) -> None:
        if self._has_to_adopt and self.learning is not self.acting_side:
            self.acting_side.follow(self.learning)
        self._has_to_adopt = False
        self._catch_up(self.acting_side)
        for _ in range(self._decays):
            self.inner.epsilon_decay(self.decay)
        self._decays = 0

    def separate(self) -> None:
        """From now on, another copy learns than the one that plays."""
        if self.is_only_learner or self.is_apart:
            return
        if self.why_inseparable is not None:
            raise ModelError(
                f"{type(self.inner).__name__} cannot learn apart from its agent, because {self.why_inseparable}: run it"
                " sequentially."
            )
        self._watch.end()
        self.is_apart = True
        self.learning = Side(self.acting_side.carried.copy(), self.acting_side.position)

    def unite(self) -> None:
        """The agent's own model, which has taken over all that was learned, learns and plays again."""
        self._watch.end()
        if not self.is_only_learner:
            with suppress(ModelError):  # by which the run has ended
                self._catch_up_acting()
            self.learning, self.is_apart = self.acting_side, False

    # ---- state

    def keep(self) -> Callable[[], None]:
        """A function that puts the agent's own model back as it is now, all of it. What cannot be put back is named in a
        `StateError`.
        """
        self._catch_up_acting()
        whole, position = copied(self.acting_side.carried.state()), self.acting_side.position

        def put_back() -> None:
            self._watch.end()
            self.acting_side.carried.take(whole)
            self.acting_side.position = position

        return put_back

    def learning_state(self) -> State:
        blocks = in_blocks(self.learning.carried.state(in_part=not self.is_apart and not self.is_only_learner))
        facts = {"updates": self.updates, "position": self.learning.position}
        streams = self.generators.state()
        return State(
            {**facts, "generators": streams.facts}, join(generators=streams).arrays | blocks.arrays, blocks.opaque
        )

    def set_learning_state(self, state: State) -> None:
        self.learning.take(state)
        self._take_counters(state)

    def _take_counters(self, state: State) -> None:
        self.updates = int(state.facts["updates"])
        arrays = part_of(State({}, state.arrays), "generators").arrays
        self.generators.set_state(State(state.facts["generators"], arrays))

    def adopt(self, state: State) -> None:
        self.acting_side.take(state)
        self._has_to_adopt = False
        self._catch_up(self.acting_side)

    def acting_state(self) -> State:
        return State({"epsilon": self.epsilon})

    def acting_file_state(self) -> State:
        return self.acting_state()

    def set_acting_state(self, state: State) -> None:
        """All that playing changes is in its rows."""

    # ---- files

    @property
    def file_kind(self) -> str:
        return type(self.inner).__name__

    def file_state(self, learning: State | None = None, is_whole: bool = False) -> State:
        learning = learning or self.learning_state()
        model = from_blocks(learning)
        if is_whole and "lost" in model.facts:
            raise StateError(f"{model.facts['lost']}.")
        streams = {name: array for name, array in learning.arrays.items() if name.startswith(STREAMS)}
        facts = {"format": FORMAT, "algorithm": self.file_kind, "learning": learning.facts, "own": model.facts}
        arrays = streams | {f"{OWN}{name}": array for name, array in model.arrays.items()}
        return State({**facts, "acting": self.acting_state().facts, **self._about()}, arrays)

    def take_file_state(self, state: State, path: Path, is_whole: bool = False) -> None:
        """Without `is_whole`, rows that the file counted are not in this memory."""
        found = state.facts.get("algorithm"), state.facts.get("format")
        if found != (self.file_kind, FORMAT):
            raise ModelFileError(
                f"{path} holds a model {found[0]!r} in format {found[1]!r}, expected {self.file_kind!r} in format {FORMAT}."
            )
        model = {name.removeprefix(OWN): array for name, array in state.arrays.items() if name.startswith(OWN)}
        before = self.learning_state()
        try:
            self.learning.carried.take(State(state.facts["own"], model))
            self._take_counters(State(state.facts["learning"], state.arrays))
            position = int(state.facts["learning"]["position"])
        except Exception as error:
            self.set_learning_state(before)
            raise ModelFileError(f"the model file {path} is damaged or does not fit this model: {error}.") from None
        written = int(self.memory.written[0])
        self.learning.position = min(position, written) if is_whole else written

    def load_learned(self, state: State, path: Path) -> None:
        epsilon, streams = self.epsilon, self.generators.state()
        self.take_file_state(state, path)
        self.generators.set_state(streams)
        self.epsilon = epsilon

    # ---- other processes

    def recipe(self) -> "SorrelRecipe":
        if self.why_inseparable is not None:
            raise ModelError(f"it cannot learn apart from its agent, because {self.why_inseparable}")
        self._watch.end()
        self.learning.carried.state()  # what cannot be told is named before anything starts
        return SorrelRecipe(type(self.inner), self.acting_side.carried.packed(), self.config, self.decay)


@dataclass(frozen=True)
class SorrelRecipe:
    """How a learner's process has the model."""

    kind: type
    """Of the model of sorrel's: it may come from the user's script."""
    packed: Packed
    config: SorrelModelConfig
    decay: float | None

    def build(self, memory: Buffer) -> SorrelModel:
        carried, generators = self.packed.unpack(), Generators(np.random.SeedSequence(0))
        return SorrelModel(carried, generators, None, self.config, self.decay, memory=memory)


class SorrelAttributes(ModelAttributes):
    """Which side changes what is known by rows, not by looking: nothing is added to our own class."""

    has_copy = True

    def __init__(self, model: SorrelModel) -> None:
        super().__init__(model)
        self.is_foreign = True
        self._sorrel = model

    @property
    def added(self) -> list[str]:
        return []

    @property
    def watched(self) -> list[str]:
        return []

    def generators(self) -> list[Any]:
        """Those of the agent's own model, but not that of the process."""
        found = (each for each in reachable(self._sorrel.inner) if isinstance(each, GENERATORS))
        return [each for each in found if each is not torch.default_generator]

    def track(self) -> None:
        self._sorrel.separate()

    def track_in_step(self) -> None:
        """One and the same object plays and learns, as in a sequential run: a copy would only take time."""

    def untrack(self) -> None:
        self._sorrel.unite()
