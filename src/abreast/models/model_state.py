"""What a model consists of, and how that is kept, sent and read again: in two halves, learning's and choosing's."""

import inspect
import math
import numbers
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from abreast.attributes import IMMUTABLE, Made
from abreast.errors import ConfigError, ModelError, ModelFileError, StateError, short
from abreast.files import write_whole
from abreast.models.action_box import ActionBox
from abreast.models.config import ModelConfig
from abreast.models.lane_streams import LaneStreams
from abreast.models.model_file import FORMAT, fill_places, read_model_file
from abreast.models.observation import ObservationShape, PlainObservation, is_masked
from abreast.models.own import CHOSEN, LEARNED, ModelAttributes
from abreast.replay import Buffer
from abreast.state import State, copied
from abreast.state_file import dumps
from abreast.streams import seeded_globals

if TYPE_CHECKING:
    from abreast.models.base import BaseModel

OF_THE_RUN = frozenset({"sampling", "generator", "learning_rate"})
"""Parts of `learning_state` that the run decides, not what was learned: random streams and settings."""


class ModelState:
    """The parts of a model and their states. `BaseModel` says what it does with them."""

    acting: ClassVar[tuple[str, ...]] = ()
    """Attributes of a subclass that choosing changes: `take_action`, `remember`, epoch actions, all that an actor calls."""
    ALGORITHM: ClassVar[str | None] = None
    """Its name, if it is one of ours."""
    ACTIONS: ClassVar[frozenset[str]] = frozenset({"discrete"})
    """What it can choose: one of `n_actions` numbers (discrete), vectors of floats (continuous: `ActionBox`), or both."""
    CHOOSES_WITH: ClassVar[tuple[str, ...]] = ()
    """Arrays of `learning_state` that choosing needs, the first ones; none named: all of it."""
    KNOWN: ClassVar[frozenset[str]] = frozenset(
        {"observation", "n_actions", "action_box", "config", "device", "memory", "choosing_rng", "epsilon", "updates"}
        | {"rows_learned_from", "frame_stack", "own_attributes", "is_greedy", "streams", "_masks_LA", "lane_extras"}
    )
    """Attributes of our own classes, whose state they describe themselves; any other is a user's."""
    MADE_BY: ClassVar[Made] = (("lane_extras", "__init__"),)

    def __init__(
        self,
        observation: ObservationShape,
        n_actions: int | ActionBox,
        config: ModelConfig,
        seed: np.random.SeedSequence,
        lanes: int = 1,
        device: str = "cpu",
    ) -> None:
        self.observation, self.config, self.device = observation, config, device
        self.action_box = n_actions if isinstance(n_actions, ActionBox) else None
        """What it chooses from, where actions are continuous."""
        self.n_actions: int = len(n_actions) if isinstance(n_actions, ActionBox) else n_actions
        """How many actions there are; of continuous ones, how many numbers an action has."""
        self._check_actions()
        choosing, remembering, learning = seed.spawn(3)
        self.choosing_rng, self.streams = np.random.default_rng(choosing), LaneStreams(choosing)
        self.epsilon = config.epsilon
        self.updates = 0
        self.rows_learned_from = np.zeros(lanes, dtype=np.int64)
        """Per lane, rows that `new_trajectories` has returned (or, with `adaptive_batch`, that updates were counted for)."""
        options = self.memory_options()
        self._masks_LA: NDArray[np.bool_] | None = None
        """Per lane, the actions that are legal now, if the game masks any."""
        self.lane_extras: dict[str, NDArray[Any]] = {}
        """Per lane, what is remembered with the next row beside what happened: a field of `memory_options` by name."""
        if is_masked(observation):
            self.lane_extras["mask"] = self._masks_LA = np.ones((lanes, self.n_actions), dtype=np.bool_)
            kind = np.dtype((np.bool_, (self.n_actions,)))
            options = {**options, "extras": {**options.get("extras", {}), "mask": kind}}
        if self.action_box is not None:
            options = {**options, "actions": self.action_box.dtype}
        self.memory = Buffer(
            config.buffer_capacity,
            observation.input_size,
            dtype=observation.dtype,
            n_frames=config.n_frames,
            gamma=config.gamma,
            lanes=lanes,
            seed=remembering,
            **options,
        )
        with seeded_globals(seed):  # a torch.nn.Linear draws its first weights from there
            self.setup(learning, seed)

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        """Make what else the model needs. `learning` seeds what learning draws; `more` may be spawned for other streams."""

    def _check_actions(self) -> None:
        """Refuse actions that it cannot choose."""
        name, box = self.config.algorithm, self.action_box
        if box is not None and "continuous" not in self.ACTIONS:
            own = (
                "" if "ALGORITHM" in vars(type(self)) else ", or let the class say ACTIONS = frozenset({'continuous'})"
            )
            raise ConfigError(
                f"model.algorithm is {name}, which chooses among numbered actions, but an action here is a vector of floats"
                f" (a Box of {len(box)}): use ppo or sac{own}."
            )
        if box is None and "discrete" not in self.ACTIONS:
            raise ConfigError(
                f"model.algorithm is {name}, which chooses vectors of floats, but here are {self.n_actions} numbered"
                " actions: use ppo, dqn or iqn."
            )

    @property
    def chooses_from(self) -> int | ActionBox:
        """What it was made with: the number of actions, or continuous ones."""
        return self.n_actions if self.action_box is None else self.action_box

    def memory_options(self) -> dict[str, Any]:
        """How this model's replay differs from the plain one: `n_step`, `extras`."""
        return {}

    @cached_property
    def own_attributes(self) -> ModelAttributes:
        """The attributes that a subclass of a user's has added."""
        return ModelAttributes(self)

    def places(self) -> dict[str, object]:
        """What every model has of its own, for attributes that refer to it."""
        found: dict[str, object] = {"model": self}
        for name in self.KNOWN - {"own_attributes"}:
            value = vars(self).get(name)
            if not isinstance(value, IMMUTABLE):
                found[name] = value
            if isinstance(value, nn.Module):
                parts = (*value.named_modules(), *value.named_parameters(), *value.named_buffers())
                found |= {f"{name}.{type(part).__name__}.{path}": part for path, part in parts if path}
        return found

    def counters(self) -> dict[str, Any]:
        """Everything learning counts, by name."""
        return {"updates": self.updates, "rows_learned_from": self.rows_learned_from.tolist()}

    def set_counters(self, counters: dict[str, Any]) -> None:
        """Go on counting from there."""
        self.updates = int(counters["updates"])
        self.rows_learned_from = np.array(counters["rows_learned_from"], dtype=np.int64)

    def learned_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything learned that is an array, by name."""
        return {}

    def learning_state(self) -> State:
        """Everything that learning changes; choosing changes none of it."""
        facts = {**self.counters(), "sampling": self.memory.rng.bit_generator.state}
        return self.own_attributes.with_learned(State(facts, self.learned_arrays()))

    def set_learning_state(self, state: State) -> None:
        """Learn on from where `learning_state` was, and act with these weights at once."""
        self.memory.rng.bit_generator.state = state.facts["sampling"]
        self.set_counters(state.facts)
        self.own_attributes.take_learned(state)

    def adopt(self, state: State) -> None:
        """Choose, from the next epoch on, with what another model has learned. The state stays valid until the next call;
        it may lack what `CHOOSES_WITH` does not name.
        """
        self.own_attributes.refuse_fault(state.facts)
        self.own_attributes.take_learned(state)

    def acting_state(self) -> State:
        """Everything that choosing changes, between two epochs."""
        choosing = self.choosing_rng.bit_generator.state
        return self.own_attributes.with_chosen(
            State({"choosing": choosing, "streams": self.streams.key, "epsilon": self.epsilon})
        )

    def set_acting_state(self, state: State) -> None:
        """Choose on from where `acting_state` was."""
        epsilon = state.facts["epsilon"]
        if not isinstance(epsilon, numbers.Real) or not math.isfinite(epsilon):
            raise StateError(f"epsilon is {short(epsilon)}, expected a number.")
        self.choosing_rng.bit_generator.state = state.facts["choosing"]
        self.streams.set_key(state.facts["streams"])
        self.epsilon = epsilon  # type: ignore[assignment]
        self.own_attributes.take_chosen(state)

    def recipe(self) -> "Recipe":
        """How to have this model in another process; raises what says why that is impossible."""
        more = () if self.device == "cpu" else (self.device,)
        check_constructor(type(self), self.device)
        values = self.own_attributes.values
        own = self.own_attributes.encoded(values) if values else None
        for unsent in self.own_attributes.unkept.values():
            raise unsent
        return Recipe(
            type(self),  # type: ignore[arg-type]
            PlainObservation.of(self.observation),
            self.chooses_from,
            self.config,
            self.memory.lanes,
            more,
            own,
        )

    @property
    def file_kind(self) -> str:
        """What model files of this class are called: the algorithm of ours, or the name of a user's class."""
        return vars(type(self)).get("ALGORITHM") or type(self).__name__

    def save(self, path: Path) -> None:
        """Write everything learned to a safetensors file."""
        write_whole(path, dumps(self.file_state()))

    def load(self, path: Path) -> None:
        """Take everything learned from a file that `save` wrote, and act with it at once; a file that does not fit changes
        nothing.
        """
        self.take_file_state(read_model_file(path), path)

    def file_state(self, learning: State | None = None) -> State:
        """All of the model as one state for a file. `learning`: what its learner knows, if that is elsewhere.

        What cannot be kept of a user's class is left out, and named in `own_attributes.unkept`.
        """
        learning, acting = learning or self.learning_state(), self.acting_state()
        facts = {"format": FORMAT, "algorithm": self.file_kind, "learning": learning.facts, "acting": acting.facts}
        return State({**facts, **self._about()}, self.file_layout(learning.arrays) | acting.arrays)

    def _about(self) -> dict[str, Any]:
        """What any model with the same state has to have in common with this one."""
        about = {"sees": [int(size) for size in self.observation.input_size], "n_actions": int(self.n_actions)}
        box = self.action_box
        return about if box is None else {**about, "bounds": [list(box.low), list(box.high)]}

    def take_file_state(self, state: State, path: Path) -> None:
        """Go on from a `file_state`, which comes from `path`; one that does not fit changes nothing."""
        here = self._about()
        there = {name: state.facts.get(name, value) for name, value in here.items()}
        if there != here:  # weights may fit by accident, and a user's table always does
            raise ModelFileError(
                f"{path} is of an agent that sees {_describe(there)}, but this one sees {_describe(here)}: give it the same"
                " view and actions."
            )
        before = copied(self.learning_state()), copied(self.acting_state())
        learning, acting = copied(before[0]), copied(before[1])
        fill_places(self.file_layout(learning.arrays), state, path, self.file_kind)
        for half, name, own in ((learning, "learning", LEARNED), (acting, "acting", CHOSEN)):
            half.facts.update(state.facts[name])
            half.arrays.pop(own, None)
            half.arrays.update({own: state.arrays[own]} if own in state.arrays else {})
        try:
            self.set_acting_state(acting)  # first: what is drawn for acting with the weights follows from it
            self.set_learning_state(learning)
        except Exception as error:
            self.set_acting_state(before[1])
            self.set_learning_state(before[0])
            raise ModelFileError(f"the model file {path} is damaged or not one of abreast's: {error!r}.") from None
        written = self.memory.written  # rows that the file counted, in perhaps other lanes, are not in this memory
        fits = self.rows_learned_from.shape == written.shape
        self.rows_learned_from = np.clip(self.rows_learned_from, 0, written) if fits else written.copy()

    def load_learned(self, state: State, path: Path) -> None:
        """Take what an agent of another run has learned from its `file_state`, which comes from `path`: network, target,
        moments, counters, a user's attributes. One that does not fit changes nothing.

        Random streams, epsilon, the learning rate and rows are this agent's own: its run decides those.
        """
        learning, acting = copied(self.learning_state()), copied(self.acting_state())
        self.take_file_state(state, path)
        loaded = copied(self.learning_state())
        loaded.facts.update({name: learning.facts[name] for name in OF_THE_RUN & learning.facts.keys()})
        loaded.arrays.update({name: learning.arrays[name] for name in OF_THE_RUN & learning.arrays.keys()})
        self.set_acting_state(State(acting.facts))  # a user's attributes move, those of choosing too
        self.set_learning_state(loaded)
        self.own_attributes.reseed(np.random.SeedSequence(self.streams.key))

    def file_layout(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The arrays of `learning_state` as they are kept in a file."""
        return arrays


def _describe(about: dict[str, Any]) -> str:
    """What a model sees and can do, in words."""
    seen = about["sees"]
    shape = tuple(seen) if isinstance(seen, list) else seen
    if "bounds" in about:
        return f"{short(shape)} and chooses floats between {short(about['bounds'])}"
    return f"{short(shape)} and has {short(about['n_actions'])} actions"


def check_constructor(kind: type[ModelState], device: str) -> None:
    """Refuse a class that cannot be made as environments and workers make it."""
    try:
        inspect.signature(kind).bind(None, 1, None, None, 1, *(() if device == "cpu" else (device,)))
    except TypeError as error:
        raise ModelError(
            "its constructor does not take (observation, n_actions, config, seed, lanes, device), by which environments and"
            f" workers make one: {error}. Make what it needs in `setup`, and settings fields of its Config"
        ) from None


@dataclass(frozen=True)
class Recipe:
    """How to build a model in another process: by its configuration, and with what a user's class has added."""

    kind: "type[BaseModel]"
    observation: PlainObservation
    n_actions: int | ActionBox
    config: ModelConfig
    lanes: int
    device: tuple[str, ...]
    """Given where it is not the CPU."""
    own: NDArray[np.uint8] | None

    def build(self, memory: Buffer) -> "BaseModel":
        """The model, with this memory; what it has learned since is not in it yet."""
        seed = np.random.SeedSequence(0)  # all it would decide comes with the state
        model = self.kind(self.observation, self.n_actions, self.config, seed, self.lanes, *self.device)
        model.memory = memory
        if self.own is not None:
            model.own_attributes.take(self.own)
        return model
