"""The contract between an agent and the model that chooses and learns for it."""

import inspect
import math
import numbers
import operator
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
import pydantic
import torch
from numpy.typing import DTypeLike, NDArray
from pydantic import Field
from torch import Tensor, nn

from abreast.attributes import IMMUTABLE
from abreast.errors import ModelError, ModelFileError, StateError, short
from abreast.files import write_whole
from abreast.models.figures import Figures
from abreast.models.frames import FrameStack
from abreast.models.lane_streams import LaneStreams
from abreast.models.model_file import read_model_file, split_state, whole_state
from abreast.models.on_device import why_not_on_device
from abreast.models.own import CHOSEN, LEARNED, ModelAttributes, reseed, set_stream, stream_of
from abreast.replay import Buffer, Trajectory
from abreast.settings import Section
from abreast.state import State, copied, part_of
from abreast.state_file import dumps
from abreast.streams import seeded_globals

OF_THE_RUN = frozenset({"sampling", "generator", "learning_rate"})
"""Parts of `learning_state` that the run decides, not what was learned: random streams and settings."""


class ModelConfig(Section):
    """Settings every model has."""

    algorithm: str = "iqn"
    """iqn, dqn, ppo or random, or a model of your own, as module:Class or file.py:Class."""
    agent_vision_radius: int = Field(2, ge=0, le=1000)
    """How far an agent sees: a square of 2r+1 cells a side around it."""
    n_frames: int = Field(5, ge=1, le=1000)
    """How many of the last frames the model sees at once."""
    epsilon: float = Field(0.6, ge=0, le=1)
    """Chance of a random action in the first epoch. (PPO explores by its own policy and takes no notice.)"""
    epsilon_decay: float | None = Field(None, ge=0, le=1)
    """Share of epsilon that goes away each epoch; not given: such that epsilon_min is reached after half of the epochs."""
    epsilon_min: float = Field(0.01, ge=0, le=1)
    """Epsilon does not fall below this. (With 0, half of the epochs bring epsilon down to a hundredth.)"""
    gamma: float = Field(0.99, ge=0, le=1)
    """Discount per step."""
    learning_rate: float = Field(0.00025, gt=0)
    """Step size of Adam."""
    buffer_capacity: int = Field(1024, ge=1, le=10**9)
    """Rows of experience kept per agent."""
    batch_size: int = Field(64, ge=1)
    """Rows per gradient step."""
    gradient_steps: int = Field(8, ge=1)
    """Gradient steps in one update. (PPO: passes over the new rows.)"""
    gradient_norm: float = Field(1.0, gt=0)
    """Longer gradients are shortened to this norm."""
    hidden_size: int = Field(250, ge=1, le=2**16)
    """Width of the hidden layers."""
    per_agent: dict[int, Any] = Field(default_factory=dict)
    """Settings of single agents, by number, say {0: {algorithm: ppo}}; what one leaves out is as in model, where its
    algorithm has that setting. Parsed, each holds all settings of its agent."""

    on_policy: ClassVar[bool] = False
    """Whether an update learns from every row since the one before, so that the replay must hold them all."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.batch_size > self.buffer_capacity:
            raise ValueError(
                f"batch_size is {self.batch_size}, more than buffer_capacity {self.buffer_capacity}:"
                " a batch would never be full. Raise buffer_capacity or lower batch_size."
            )
        return self

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`per_agent` comes last, and only where there is one: the settings of a single agent have none."""
        values: dict[str, Any] = dump(self)
        per_agent = values.pop("per_agent", None)
        return {**values, "per_agent": per_agent} if per_agent else values

    def __hash__(self) -> int:
        """Of all but `per_agent`, because dictionaries have none."""
        return hash((type(self), *(value for name, value in self if name != "per_agent")))


class ObservationShape(Protocol):
    """What a model needs to know of an observation; every ObservationSpec has it."""

    dtype: DTypeLike
    scale: float

    @property
    def input_size(self) -> tuple[int, ...]: ...


def is_masked(observation: ObservationShape) -> bool:
    """Whether every observation comes with a mask of the actions that are legal then (`Decision.masks`)."""
    return bool(getattr(observation, "is_masked", False))


@dataclass
class PlainObservation:
    """The shape of an observation and nothing more, to build a model in another process."""

    input_size: tuple[int, ...]
    dtype: DTypeLike
    scale: float
    is_masked: bool = False


Kind = TypeVar("Kind", bound="type[BaseModel]")


def shipped(kind: Kind) -> Kind:
    """Marks a class of ours: what a user's class replaces is found by comparing its methods with the marked ones."""
    kind.SHIPPED = kind
    return kind


@shipped
class BaseModel:
    """Chooses actions for one agent and learns from that agent's memory alone. Its caller's loop:

        model.start_epoch_action(epoch=epoch)
        while playing:
            action = model.take_action(state)
            model.remember(state, action, *world_says(action))     # reward, done
        model.end_epoch_action(epoch=epoch)
        figures = model.train_step()                               # its loss, or several numbers by name

    A subclass writes `setup`, `take_action` and `train_step`. What it can use:

        memory             the replay: `memory.sample(batch_size)`, or `new_episodes()` for rows to learn from once
        choosing_rng       draws choices, and nothing else
        streams            draws them too, by lane, so that it does not matter which actor plays a lane
        with_history       a state and those before it in its lane, as a row for a network; `as_input` does it for batches
        legal_actions      which actions are legal now, in a lane; all of them, unless the game masks some
        epsilon, is_greedy how much to explore; in an evaluation, 0 and True
        observation, n_actions, config, device

    Several copies of the environment may be played side by side, each in a lane of its own: `lane` says which one a state
    comes from. Choosing and learning may happen in separate processes, with the same result: an attribute that a subclass
    adds is learning's, and choosing has a copy, renewed when an epoch starts. What choosing changes is named in `acting`,
    and learning is given a copy of it. (`own.py` says how this is guarded.)
    """

    acting: ClassVar[tuple[str, ...]] = ()
    """Attributes of a subclass that choosing changes: `take_action`, `remember`, epoch actions, all that an actor calls."""

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    ALGORITHM: ClassVar[str | None] = None
    """Its name, if it is one of ours."""
    SHIPPED: ClassVar[type["BaseModel"]]
    """The class of ours that it is, or is derived from."""
    CHOOSES_WITH: ClassVar[tuple[str, ...]] = ()
    """Arrays of `learning_state` that choosing needs, the first ones; none named: all of it."""
    KNOWN: ClassVar[frozenset[str]] = frozenset(
        {"observation", "n_actions", "config", "device", "memory", "choosing_rng", "epsilon", "updates"}
        | {"rows_learned_from", "frame_stack", "own_attributes", "is_greedy", "streams", "_masks_LA", "lane_extras"}
    )
    """Attributes of our own classes, whose state they describe themselves; any other is a user's."""
    is_greedy: bool = False
    """Whether to choose what seems best and explore nothing, in whatever way the model explores (`act_greedily`)."""

    def __init__(
        self,
        observation: ObservationShape,
        n_actions: int,
        config: ModelConfig,
        seed: np.random.SeedSequence,
        lanes: int = 1,
        device: str = "cpu",
    ) -> None:
        self.observation, self.n_actions, self.config, self.device = observation, n_actions, config, device
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
            self.lane_extras["mask"] = self._masks_LA = np.ones((lanes, n_actions), dtype=np.bool_)
            options = {**options, "extras": {**options.get("extras", {}), "mask": np.dtype((np.bool_, (n_actions,)))}}
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

    def memory_options(self) -> dict[str, Any]:
        """How this model's replay differs from the plain one: `n_step`, `extras`."""
        return {}

    # ---- seeing

    @property
    def input_size(self) -> int:
        """Numbers in a state and the frames before it."""
        return self.config.n_frames * int(np.prod(self.observation.input_size))

    @cached_property
    def frame_stack(self) -> FrameStack:
        """The last frames of each lane."""
        return FrameStack(self.memory.lanes, self.config.n_frames, self.observation.input_size, self.observation.scale)

    def with_history(self, state: NDArray[Any], lane: int = 0) -> Tensor:
        """A new state with the frames before it in its lane, as a row for a network; call it once for each state."""
        return self.frame_stack.push([state], [lane])[0].clone()

    def as_input(self, states: NDArray[Any]) -> Tensor:
        """States of a batch or a trajectory, with the frames before them, as rows for a network."""
        inputs = torch.from_numpy(states).view(len(states), self.input_size).to(self.device).to(torch.float32)
        return inputs if self.observation.scale == 1.0 else inputs * self.observation.scale

    # ---- choosing

    def note_masks(self, lanes: Sequence[int], masks: Sequence[NDArray[np.bool_]]) -> None:
        """Which actions are legal now, in some lanes; told before each choice, and remembered with it."""
        if self._masks_LA is None:
            raise ModelError("the game masks actions, but the model was made for an observation without `is_masked`.")
        self._masks_LA[list(lanes)] = masks

    def legal_actions(self, lane: int = 0) -> NDArray[np.bool_]:
        """Which actions are legal now, one after the other."""
        return np.ones(self.n_actions, dtype=np.bool_) if self._masks_LA is None else self._masks_LA[lane]

    def drawn_action(self, die: float, lane: int = 0) -> int:
        """One of the legal actions, all with the same chance, by a number from 0 to 1."""
        if self._masks_LA is None:
            return int(die * self.n_actions)
        legal = np.flatnonzero(self._masks_LA[lane])
        return int(legal[int(die * len(legal))])

    def choose_from(self, seed: np.random.SeedSequence) -> None:
        """Draw choices from other random streams; generators that a subclass has added are seeded too."""
        lanes_per_actor = self.streams.lanes_per_actor
        self.choosing_rng, self.streams = np.random.default_rng(seed), LaneStreams(seed)
        self.streams.lanes_per_actor = lanes_per_actor
        for generator, own in zip(
            self.own_attributes.generators(), seed.spawn(len(self.own_attributes.generators())), strict=True
        ):
            reseed(generator, own)

    @contextmanager
    def act_greedily(self) -> Iterator[None]:
        """Inside, for whole epochs: epsilon is 0, and `is_greedy` tells it to models that explore in other ways."""
        epsilon = self.epsilon
        self.epsilon, self.is_greedy = 0.0, True
        try:
            yield
        finally:
            self.epsilon = epsilon
            del self.is_greedy

    def take_action(self, state: NDArray[Any], lane: int = 0) -> int:
        """The number of the action chosen in a state (one frame; `with_history` adds those before it)."""
        raise NotImplementedError(f"{type(self).__name__}.take_action says which action it chooses.")

    def take_actions(self, states: Sequence[NDArray[Any]], lanes: Sequence[int]) -> list[int]:
        """The actions chosen in the states of several lanes; models that can, choose them all at once."""
        if len(lanes) == 1 and not lanes[0]:  # a model for one lane need not know of lanes
            return [self._checked(self.take_action(states[0]))]
        return [self._checked(self.take_action(state, lane)) for state, lane in zip(states, lanes, strict=True)]

    def _checked(self, action: Any) -> int:
        """An action as a number, if it is one of the agent's."""
        if type(action) is int and 0 <= action < self.n_actions:
            return action
        try:
            number = operator.index(action.item() if hasattr(action, "item") else action)
        except (TypeError, ValueError, RuntimeError):
            number = -1
        if not 0 <= number < self.n_actions:
            raise ModelError(
                f"{type(self).__name__}.take_action returned {short(action)}: expected a whole number from 0 to"
                f" {self.n_actions - 1}."
            )
        return number

    def why_not_on_device(self) -> str | None:
        """Why it cannot choose in passes that are played on a device as a whole; None: it can (`models/on_device.py`)."""
        return f"{type(self).__name__} chooses state by state"

    @classmethod
    def replaced_method(cls, names: Iterable[str]) -> str | None:
        """The first of these methods of ours that a user's class has replaced."""
        return next((name for name in names if getattr(cls, name, None) is not getattr(cls.SHIPPED, name, None)), None)

    @property
    def runs_users_code(self) -> bool:
        """Whether a part of it is a user's: its class, or a network."""
        return not self.is_ours

    @property
    def is_ours(self) -> bool:
        """Whether it is of one of our algorithms itself, not of a class derived from it."""
        return type(self).SHIPPED is type(self)

    @property
    def stack_key(self) -> Hashable | None:
        """Models with the same key can be computed in one stacked product; None: only alone."""
        return None

    @property
    def learning_key(self) -> Hashable | None:
        """Models with the same key learn in one stacked update (models/stacked/); None: each by its own `train_step`."""
        return None

    def remember(self, state: NDArray[Any], action: int, reward: float, done: bool, lane: int = 0) -> None:
        """Put the step just lived into memory."""
        self.memory.add(state, action, reward, done, lane, **self.row_extras(lane))
        if done:
            self._forget_frames(lane)  # what comes next is another episode, for the replay's stacks too

    def remember_all(
        self,
        states: Sequence[NDArray[Any]],
        actions: Sequence[int],
        rewards: Sequence[float],
        dones: Sequence[bool],
        lanes: Sequence[int],
    ) -> None:
        """`remember` for several lanes."""
        kind = type(self)
        is_ours = kind.remember is BaseModel.remember and kind.row_extras is BaseModel.row_extras
        if len(lanes) > 1 and is_ours and "remember" not in vars(self) and type(self.memory).add is Buffer.add:
            extras = {name: values[list(lanes)] for name, values in self.lane_extras.items()}
            self.memory.add_all(states, actions, rewards, dones, lanes, **extras)
            if any(dones):
                for lane, done in zip(lanes, dones, strict=True):
                    if done:
                        self._forget_frames(lane)
            return
        for state, action, reward, done, lane in zip(states, actions, rewards, dones, lanes, strict=True):
            if lane:
                self.remember(state, action, reward, done, lane)
            else:  # a model for one lane need not know of lanes
                self.remember(state, action, reward, done)

    def amend(self, reward: float, lane: int = 0) -> None:
        """A reward that came after the step it belongs to, the newest of its lane, was remembered."""
        self.memory.amend(lane, reward)

    def row_extras(self, lane: int) -> dict[str, Any]:
        """What else this model keeps of the step just lived: the fields named by `memory_options`, and the mask, if any."""
        return {name: values[lane] for name, values in self.lane_extras.items()}

    def start_epoch_action(self, *, epoch: int) -> None:
        """Called before the first turn of an epoch (in several lanes: of a pass, with the number of its first epoch, for all
        actors the same); whatever an interrupted one left behind ends here.
        """
        self.streams.begin(epoch)
        self._end_episodes()

    def end_epoch_action(self, *, epoch: int) -> None:
        """Called after the last turn of an epoch: what comes next, in every lane, is another episode."""
        self._end_episodes()

    def end_episode(self, lane: int, done: bool = False) -> None:
        """The episode in a lane is over: for good (`done`), or cut."""
        self.memory.end_episode(lane, done)
        self._forget_frames(lane)

    def _end_episodes(self) -> None:
        is_ours = type(self.memory) is Buffer  # which has nothing to do where no episode is under way
        for lane in self.memory.open_lanes() if is_ours else range(self.memory.lanes):
            self.memory.end_episode(lane)
        self._forget_frames(None)

    def _forget_frames(self, lane: int | None) -> None:
        if "frame_stack" in vars(self):
            self.frame_stack.clear(lane)

    def epsilon_decay(self, rate: float) -> None:
        """Explore less: epsilon loses the share `rate`, down to `epsilon_min`."""
        self.epsilon = max(self.epsilon * (1 - rate), min(self.epsilon, self.config.epsilon_min))

    # ---- learning

    def train_step(self) -> float | Figures | None:
        """One update from memory; returns its loss, or figures by name (`{"loss": …, "entropy": …}`), or None while there is
        not yet enough to learn from.
        """
        raise NotImplementedError(f"{type(self).__name__}.train_step says how it learns.")

    def new_trajectories(self) -> list[Trajectory]:
        """Per lane, the rows that were not returned before, in order: for models that learn from a row once."""
        found = []
        for lane in range(self.memory.lanes):
            start = max(int(self.rows_learned_from[lane]), self.memory.oldest_row(lane))
            found.append(self.memory.trajectory(lane, start))
            self.rows_learned_from[lane] = start + len(found[-1].actions)
        return found

    def new_episodes(self) -> list[Trajectory]:
        """The episodes that have ended and were not returned before, each as one trajectory."""
        found = []
        for lane in range(self.memory.lanes):
            start = max(int(self.rows_learned_from[lane]), self.memory.oldest_row(lane))
            trajectory = self.memory.trajectory(lane, start)
            ends: list[int] = (np.flatnonzero(trajectory.last) + 1).tolist()
            found += [trajectory.part(begin, end) for begin, end in pairwise([0, *ends])]
            self.rows_learned_from[lane] = start + max(ends, default=0)
        return found

    @property
    def can_learn(self) -> bool:
        """Whether there is enough in memory for an update, as far as is known."""
        return False

    @property
    def has_no_gradient(self) -> bool:
        """Whether the last update had a gradient of zero: it has stopped learning."""
        return False

    # ---- state

    @cached_property
    def own_attributes(self) -> "ModelAttributes":
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

    def learning_state(self) -> State:
        """Everything that learning changes; choosing changes none of it."""
        facts = {"updates": self.updates, "rows_learned_from": self.rows_learned_from.tolist()}
        return self.own_attributes.with_learned(State({**facts, "sampling": self._sampling()}))

    def set_learning_state(self, state: State) -> None:
        """Learn on from where `learning_state` was."""
        self.memory.rng.bit_generator.state = state.facts["sampling"]
        self.updates = int(state.facts["updates"])
        self.rows_learned_from = np.array(state.facts["rows_learned_from"], dtype=np.int64)
        self.own_attributes.take_learned(state)

    def adopt(self, state: State) -> None:
        """Choose, from the next epoch on, with what another model has learned. The state stays valid until the next call;
        it may lack what `CHOOSES_WITH` does not name.
        """
        self.own_attributes.refuse_fault(state.facts)
        self.own_attributes.take_learned(state)

    def acting_state(self) -> State:
        """Everything that choosing changes, between two epochs."""
        return self.own_attributes.with_chosen(
            State(
                {
                    "choosing": self.choosing_rng.bit_generator.state,
                    "streams": self.streams.key,
                    "epsilon": self.epsilon,
                }
            )
        )

    def set_acting_state(self, state: State) -> None:
        """Choose on from where `acting_state` was."""
        epsilon = state.facts["epsilon"]
        if not isinstance(epsilon, numbers.Real) or not math.isfinite(epsilon):
            raise StateError(f"epsilon is {short(epsilon)}, expected a number.")
        self.choosing_rng.bit_generator.state = state.facts["choosing"]
        self.streams.key = state.facts["streams"]
        self.epsilon = epsilon  # type: ignore[assignment]
        self.own_attributes.take_chosen(state)

    def _sampling(self) -> dict[str, Any]:
        """Where the random stream of sampling is: the learner draws from it, so it is part of what it knows."""
        return dict(self.memory.rng.bit_generator.state)

    def recipe(self) -> "Recipe":
        """How to have this model in another process; raises what says why that is impossible."""
        arguments = (plain(self.observation), self.n_actions, self.config)
        more = () if self.device == "cpu" else (self.device,)
        try:
            inspect.signature(type(self)).bind(*arguments, None, self.memory.lanes, *more)
        except TypeError as error:
            raise ModelError(
                f"its constructor does not take (observation, n_actions, config, seed, lanes, device), by which a worker"
                f" makes another: {error}. Make what it needs in `setup`"
            ) from None
        own = self.own_attributes.encoded_all()
        for unsent in self.own_attributes.unkept.values():
            raise unsent
        return Recipe(type(self), *arguments, self.memory.lanes, more, own)

    @property
    def file_kind(self) -> str:
        """What model files of this class are called: the algorithm of ours, or the name of a user's class."""
        return vars(type(self)).get("ALGORITHM") or type(self).__name__

    def save(self, path: Path) -> None:
        """Write everything learned to a safetensors file."""
        write_whole(path, dumps(self.file_state()))

    def load(self, path: Path) -> None:
        """Take everything learned from a file that `save` wrote; a file that does not fit changes nothing."""
        self.take_file_state(read_model_file(path), path)

    def file_state(self, learning: State | None = None) -> State:
        """All of the model as one state for a file. `learning`: what its learner knows, if that is elsewhere.

        What cannot be kept of a user's class is left out, and named in `own_attributes.unkept`.
        """
        learning = learning or self.learning_state()
        by_name = learning._replace(arrays=self.file_layout(learning.arrays))
        whole = whole_state(self.file_kind, by_name, self.acting_state())
        return whole._replace(facts={**whole.facts, **self._about()})

    def _about(self) -> dict[str, Any]:
        """What any model with the same state has to have in common with this one."""
        return {"sees": [int(size) for size in self.observation.input_size], "n_actions": int(self.n_actions)}

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
        places = self.file_layout(learning.arrays)
        facts, own = split_state(state, path, self.file_kind, places)
        learning.facts.update(part_of(facts, "learning").facts)
        acting.facts.update(part_of(facts, "acting").facts)
        try:
            self.set_learning_state(learning._replace(arrays=_with_own(learning.arrays, own, LEARNED)))
            self.set_acting_state(acting._replace(arrays=_with_own(acting.arrays, own, CHOSEN)))
        except Exception as error:
            self.set_learning_state(before[0])
            self.set_acting_state(before[1])
            raise ModelFileError(f"the model file {path} is damaged or not one of abreast's: {error!r}.") from None
        written = self.memory.written  # rows that the file counted, in perhaps other lanes, are not in this memory
        fits = self.rows_learned_from.shape == written.shape
        self.rows_learned_from = np.clip(self.rows_learned_from, 0, written) if fits else written.copy()

    def load_learned(self, state: State, path: Path) -> None:
        """Take what an agent of another run has learned from its `file_state`, which comes from `path`: network, target,
        moments, counters, a user's attributes. One that does not fit changes nothing.

        Random streams, epsilon, the learning rate and rows stay as they are: this agent's run decides those.
        """
        learning, acting = copied(self.learning_state()), copied(self.acting_state())
        streams = [(type(each), stream_of(each)) for each in self.own_attributes.generators()]
        self.take_file_state(state, path)
        loaded = copied(self.learning_state())
        loaded.facts.update({name: learning.facts[name] for name in OF_THE_RUN & learning.facts.keys()})
        loaded.arrays.update({name: learning.arrays[name] for name in OF_THE_RUN & learning.arrays.keys()})
        self.set_learning_state(loaded)
        self.set_acting_state(acting)
        for generator, (kind, stream) in zip(self.own_attributes.generators(), streams, strict=False):
            if type(generator) is kind:
                set_stream(generator, stream)

    def file_layout(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The arrays of `learning_state` as they are kept in a file."""
        return arrays


def _with_own(arrays: dict[str, NDArray[Any]], own: dict[str, NDArray[Any]], key: str) -> dict[str, NDArray[Any]]:
    """The arrays of a state with the attributes of a user's class from a file; where that has none, they stay."""
    return {name: array for name, array in arrays.items() if name != key} | {
        name: own[name] for name in own if name == key
    }


def _describe(about: dict[str, Any]) -> str:
    """What a model sees and can do, in words."""
    seen = about["sees"]
    shape = tuple(seen) if isinstance(seen, list) else seen
    return f"{short(shape)} and has {short(about['n_actions'])} actions"


@dataclass(frozen=True)
class Recipe:
    """How to build a model in another process: by its configuration, and with what a user's class has added."""

    kind: type[BaseModel]
    observation: "PlainObservation"
    n_actions: int
    config: ModelConfig
    lanes: int
    device: tuple[str, ...]
    """Given where it is not the CPU."""
    own: NDArray[np.uint8] | None

    def build(self, memory: Buffer) -> BaseModel:
        """The model, with this memory; what it has learned since is not in it yet."""
        seed = np.random.SeedSequence(0)  # all it would decide comes with the state
        model = self.kind(self.observation, self.n_actions, self.config, seed, self.lanes, *self.device)
        model.memory = memory
        if self.own is not None:
            model.own_attributes.take_all(self.own)
        return model


def plain(seen: ObservationShape) -> PlainObservation:
    """The shape of an observation and nothing more."""
    return PlainObservation(tuple(seen.input_size), np.dtype(seen.dtype), seen.scale, is_masked(seen))


@shipped
class RandomModel(BaseModel):
    """Chooses every action with the same chance and learns nothing: the baseline."""

    ALGORITHM = "random"

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        self.epsilon = 1.0

    def take_action(self, state: NDArray[Any], lane: int = 0) -> int:
        ((_, die),) = self.streams.draw([lane])
        return self.drawn_action(die, lane)

    def why_not_on_device(self) -> str | None:
        return why_not_on_device(self)

    def choose_on(self, device: str) -> None:
        """It has nothing to move there."""

    def choosing_tensors(self) -> list[Tensor]:
        return []

    def evaluate(self, frames: Tensor) -> Tensor:
        return frames  # at which it does not look

    def decide_all(self, evaluated_LA: Tensor, chances_L2: Tensor, epsilon: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return (chances_L2[:, 1] * self.n_actions).long(), {}

    def train_step(self) -> None:
        return None

    def epsilon_decay(self, rate: float) -> None:
        """Always random."""
