"""The contract between an agent and the model that chooses and learns for it."""

import copy
import pickle
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pydantic
from numpy.typing import DTypeLike, NDArray
from pydantic import Field

from abreast.replay import Buffer
from abreast.settings import Section
from abreast.state import Opaque, State


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


@dataclass
class PlainObservation:
    """The shape of an observation and nothing more, to build a model in another process."""

    input_size: tuple[int, ...]
    dtype: DTypeLike
    scale: float


class BaseModel:
    """Chooses actions for one agent and learns from that agent's memory alone. Its caller's loop:

        model.start_epoch_action(epoch=epoch)
        while playing:
            action = model.take_action(state)
            model.remember(state, action, *world_says(action))     # reward, done
        model.end_epoch_action(epoch=epoch)
        loss = model.train_step()

    Choosing and learning draw from separate random streams, because in a parallel run they happen in separate processes
    and the result must be the same. Several copies of the environment may be played side by side, each in a lane of its
    own: `lane` says which one a state comes from. Subclasses make what they need in `setup`; those that override the epoch
    actions call the inherited ones.
    """

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    CHOOSES_WITH: ClassVar[tuple[str, ...]] = ()
    """Arrays of `learning_state` that choosing needs, the first ones; none named: all of it."""
    OWNED_BY_ACTOR: ClassVar[frozenset[str]] = frozenset({"memory", "choosing_rng", "epsilon"})
    """Attributes that learning does not change."""

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
        self.choosing_rng = np.random.default_rng(choosing)
        self.epsilon = config.epsilon
        self.updates = 0
        self.memory = Buffer(
            config.buffer_capacity,
            observation.input_size,
            dtype=observation.dtype,
            n_frames=config.n_frames,
            gamma=config.gamma,
            lanes=lanes,
            seed=remembering,
            **self.memory_options(),
        )
        self.setup(learning, seed)

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        """Make what else the model needs. `learning` seeds what learning draws; `more` may be spawned for other streams."""

    def memory_options(self) -> dict[str, Any]:
        """How this model's replay differs from the plain one: `n_step`, `extras`."""
        return {}

    # ---- choosing

    def choose_from(self, seed: np.random.SeedSequence) -> None:
        """Draw choices from another random stream."""
        self.choosing_rng = np.random.default_rng(seed)

    def take_action(self, state: NDArray[Any], lane: int = 0) -> int:
        """The number of the action chosen in a state (one frame; models that stack frames remember the last ones)."""
        raise NotImplementedError

    def take_actions(self, states: Sequence[NDArray[Any]], lanes: Sequence[int]) -> list[int]:
        """The actions chosen in the states of several lanes; models that can, choose them all at once."""
        if len(lanes) == 1 and not lanes[0]:  # a model for one lane need not know of lanes
            return [self.take_action(states[0])]
        return [self.take_action(state, lane) for state, lane in zip(states, lanes, strict=True)]

    @property
    def stack_key(self) -> Hashable | None:
        """Models with the same key can be computed in one stacked product; None: only alone."""
        return None

    def remember(self, state: NDArray[Any], action: int, reward: float, done: bool, lane: int = 0) -> None:
        """Put the step just lived into memory."""
        self.memory.add(state, action, reward, done, lane, **self.row_extras(lane))

    def row_extras(self, lane: int) -> dict[str, Any]:
        """What else this model keeps of the step just lived; the fields named by `memory_options`."""
        return {}

    def start_epoch_action(self, *, epoch: int) -> None:
        """Called before the first turn of an epoch; whatever an interrupted one left behind ends here."""
        self._end_episodes()

    def end_epoch_action(self, *, epoch: int) -> None:
        """Called after the last turn of an epoch: what comes next, in every lane, is another episode."""
        self._end_episodes()

    def end_episode(self, lane: int, done: bool = False) -> None:
        """The episode in a lane is over: for good (`done`), or cut."""
        self.memory.end_episode(lane, done)

    def _end_episodes(self) -> None:
        for lane in range(self.memory.lanes):
            self.memory.end_episode(lane)

    def epsilon_decay(self, rate: float) -> None:
        """Explore less: epsilon loses the share `rate`, down to `epsilon_min`."""
        self.epsilon = max(self.epsilon * (1 - rate), min(self.epsilon, self.config.epsilon_min))

    # ---- learning

    def train_step(self) -> float | None:
        """One update from memory; returns its loss, or None while there is not yet enough to learn from."""
        raise NotImplementedError

    @property
    def can_learn(self) -> bool:
        """Whether there is enough in memory for an update, as far as is known."""
        return False

    @property
    def has_no_gradient(self) -> bool:
        """Whether the last update had a gradient of zero: it has stopped learning."""
        return False

    # ---- state

    def learning_state(self) -> State:
        """Everything that learning changes; choosing changes none of it. Models of yours are pickled, memory left out."""
        kept = {name: value for name, value in self.__dict__.items() if name not in self.OWNED_BY_ACTOR}
        return State({"sampling": self._sampling()}, opaque={"model": Opaque("pickle", pickle.dumps(kept))})

    def set_learning_state(self, state: State) -> None:
        """Learn on from where `learning_state` was."""
        self.memory.rng.bit_generator.state = state.facts["sampling"]
        self.adopt(state)

    def adopt(self, state: State) -> None:
        """Choose, from the next epoch on, with what another model has learned. The state stays valid until the next call;
        it may lack what `CHOOSES_WITH` does not name.
        """
        self.__dict__.update(pickle.loads(state.opaque["model"].data))

    def acting_state(self) -> State:
        """Everything that choosing changes, between two epochs."""
        return State({"choosing": self.choosing_rng.bit_generator.state, "epsilon": self.epsilon})

    def set_acting_state(self, state: State) -> None:
        """Choose on from where `acting_state` was."""
        self.choosing_rng.bit_generator.state = state.facts["choosing"]
        self.epsilon = state.facts["epsilon"]

    def _sampling(self) -> dict[str, Any]:
        """Where the random stream of sampling is: the learner draws from it, so it is part of what it knows."""
        return dict(self.memory.rng.bit_generator.state)

    def recipe(self) -> "Recipe":
        """How to have this model in another process. One of yours is pickled; raises if that is impossible."""
        twin = copy.copy(self)
        del twin.memory
        return PickledModel(type(self), pickle.dumps(twin))

    def save(self, path: Path) -> None:
        """Write everything learned to a safetensors file."""
        raise NotImplementedError

    def load(self, path: Path) -> None:
        """Take everything learned from a file that `save` wrote; a file that does not fit changes nothing."""
        raise NotImplementedError


class Recipe(Protocol):
    """How to build a model in another process."""

    @property
    def kind(self) -> type[BaseModel]: ...

    def build(self, memory: Buffer) -> BaseModel:
        """The model, with this memory; what it has learned is not in it yet."""


@dataclass(frozen=True)
class ModelSpec:
    """A model by its configuration."""

    kind: type[BaseModel]
    observation: PlainObservation
    n_actions: int
    config: ModelConfig
    lanes: int
    device: str

    def build(self, memory: Buffer) -> BaseModel:
        seed = np.random.SeedSequence(0)  # all it would decide comes with the state
        model = self.kind(self.observation, self.n_actions, self.config, seed, self.lanes, self.device)
        model.memory = memory
        return model


@dataclass(frozen=True)
class PickledModel:
    """A model of the user's own."""

    kind: type[BaseModel]
    pickled: bytes

    def build(self, memory: Buffer) -> BaseModel:
        model: BaseModel = pickle.loads(self.pickled)
        model.memory = memory
        return model


def spec_of(model: BaseModel) -> ModelSpec:
    """The recipe of a model that its configuration describes completely."""
    seen = model.observation
    plain = PlainObservation(tuple(seen.input_size), np.dtype(seen.dtype), seen.scale)
    return ModelSpec(type(model), plain, model.n_actions, model.config, model.memory.lanes, model.device)


class RandomModel(BaseModel):
    """Chooses every action with the same chance and learns nothing: the baseline."""

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        self.epsilon = 1.0

    def take_action(self, state: NDArray[Any], lane: int = 0) -> int:
        return int(self.choosing_rng.integers(self.n_actions))

    def train_step(self) -> None:
        return None

    def epsilon_decay(self, rate: float) -> None:
        """Always random."""

    def learning_state(self) -> State:
        return State({"sampling": self._sampling()})

    def adopt(self, state: State) -> None:
        """There is nothing to adopt."""

    def recipe(self) -> Recipe:
        return spec_of(self)

    def save(self, path: Path) -> None:
        """There is nothing to write."""

    def load(self, path: Path) -> None:
        """There is nothing to read."""
