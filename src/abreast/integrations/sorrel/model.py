"""A model of sorrel's, as the loop of a sequential run calls it: the agent's own object plays and learns."""

from pathlib import Path
from typing import Any

import numpy as np
import pydantic
from pydantic import Field

from abreast.attributes import IMMUTABLE
from abreast.codec import Names
from abreast.errors import ModelFileError, StateError
from abreast.integrations.sorrel.generators import Generators
from abreast.integrations.sorrel.kept import encode_attributes, set_attributes, shared_places
from abreast.models import BaseModel, ModelConfig
from abreast.models.observation import PlainObservation
from abreast.state import State

KEPT = "model"
"""The array of a file that holds its attributes."""


class SorrelModelConfig(ModelConfig):
    """There is nothing to set: settings of models are those of their environment (`world.sorrel`)."""

    algorithm: str = "abreast.integrations.sorrel.model:SorrelModel"
    """Models of sorrel's: the environment makes them."""
    n_frames: int = Field(1, ge=1, le=1)
    """Its memory stacks frames itself."""
    epsilon_decay: float | None = 0.0
    """That of its environment's settings counts."""
    buffer_capacity: int = 3
    """The least there is: it has a memory of its own."""
    batch_size: int = 1
    """Likewise."""

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Settings of ours that mean nothing here are not told."""
        return {"algorithm": dump(self)["algorithm"]}


class SorrelModel(BaseModel):
    """Stands for the model of an agent. What it is and what it remembers is kept with its environment (`game.py`)."""

    Config = SorrelModelConfig
    KNOWN = BaseModel.KNOWN | {"env", "number", "inner", "generators", "decay", "decays", "epoch", "reward", "_counted"}
    inner: Any = None
    """The agent's own model."""
    reward: float | None = None
    """The sum of what its agent has put into its memory in this epoch; None: nothing was."""
    epoch = decays = 0
    """The number of the epoch; and how often epsilon is to fall when its round has been trained."""
    _counted: Any = None
    """The memory whose rewards are being counted."""

    def __init__(
        self, env: Any, number: int, generators: Generators, decay: float | None, config: SorrelModelConfig
    ) -> None:
        inner = env.agents[number].model
        self.env, self.number, self.generators, self.decay = env, number, generators, decay
        shape = getattr(getattr(inner.memory, "states", None), "shape", (0, 1))[1:]
        actions = getattr(inner, "action_space", 1)
        seen = PlainObservation(shape, np.float32, 1.0)
        super().__init__(seen, actions if isinstance(actions, int) else len(actions), config, np.random.SeedSequence(0))
        self.inner = inner  # only now: its epsilon is not that of our settings

    @property
    def epsilon(self) -> float:
        return float(getattr(self.inner, "epsilon", 0.0))

    @epsilon.setter
    def epsilon(self, value: float) -> None:
        if hasattr(self.inner, "epsilon") and self.epsilon != value:  # which may be an array: it stays one
            self.inner.epsilon = value

    # ---- what the loop calls

    def start_epoch_action(self, *, epoch: int) -> None:
        """(Its game has begun to draw from the run's generators.)"""
        self.epoch = epoch
        self._call("start_epoch_action", epoch=epoch)
        self._count_rewards()

    def end_epoch_action(self, *, epoch: int) -> None:
        self._stop_counting()
        with self.generators:
            self._call("end_epoch_action", epoch=epoch)

    def end_episode(self, lane: int, done: bool = False) -> None:
        """Called where an epoch is interrupted."""
        self._stop_counting()

    def train_step(self) -> float:
        with self.generators:
            loss = float(self._call("train_step"))
        self.settle()
        return loss

    def epsilon_decay(self, rate: float) -> None:
        """As its environment's settings say, and as in sorrel's own loop, after the round of this epoch."""
        self.decays += self.decay is not None

    def settle(self) -> None:
        """No round is under way: let epsilon fall, if that is left to do."""
        for _ in range(self.decays):
            self.inner.epsilon_decay(self.decay)
        self.decays = 0

    def _call(self, name: str, **named: Any) -> Any:
        """Call the model as its environment does, which may have its own way (`_model_train_step` and others)."""
        way = getattr(self.env, f"_model_{name}", None)
        return getattr(self.inner, name)(**named) if way is None else way(self._agent, *named.values())

    @property
    def _agent(self) -> Any:
        return self.env.agents[self.number]

    def _count_rewards(self) -> None:
        """From now on, add up what is put into the memory: no other place has the rewards of a single agent."""
        self.reward, memory, add = None, self.inner.memory, self.inner.memory.add

        def add_counted(*arguments: Any, **named: Any) -> Any:
            reward = named.get("reward", arguments[2] if len(arguments) > 2 else 0.0)
            self.reward = (self.reward or 0.0) + float(reward)
            return add(*arguments, **named)

        if "add" not in vars(memory):
            vars(memory)["add"], self._counted = add_counted, memory

    def _stop_counting(self) -> None:
        if self._counted is not None:
            del vars(self._counted)["add"]
            self._counted = None

    # ---- files

    @property
    def file_kind(self) -> str:
        return type(self.inner).__name__

    def file_state(self, learning: State | None = None) -> State:
        self.settle()
        whole = super().file_state(learning)
        data, _ = encode_attributes({KEPT: self.inner}, self.places(), self._names)
        return whole._replace(arrays={**whole.arrays, KEPT: data})

    def take_file_state(self, state: State, path: Path) -> None:
        others = {name: array for name, array in state.arrays.items() if name != KEPT}
        before, counted, epsilon = self._parts(), self.learning_state(), self.epsilon
        super().take_file_state(state._replace(arrays=others), path)
        try:
            set_attributes({KEPT: self.inner}, state.arrays[KEPT], self.places(), self._names)
        except (KeyError, StateError) as error:
            self.set_learning_state(counted)
            self.epsilon = epsilon
            raise ModelFileError(f"the model file {path} is damaged or does not fit this model: {error}") from None
        now, agent = self._parts(), vars(self._agent)
        for name in [name for name, value in agent.items() if id(value) in map(id, before.values())]:
            agent[name] = next(now[part] for part, value in before.items() if value is agent[name])

    def _parts(self) -> dict[str, Any]:
        """What it is made of, and its agent may refer to."""
        found = {**vars(self.inner), **vars(self.inner).get("_modules", {})}
        return {name: value for name, value in found.items() if not isinstance(value, IMMUTABLE)}

    def places(self) -> dict[str, object]:
        around = {"env": self.env, "world": self.env.world, "agent": self._agent, KEPT: self.inner}
        return {**around, **shared_places(self.env.config)}

    @property
    def _names(self) -> Names:
        return Names([self.env, self.inner, self.inner.memory])
