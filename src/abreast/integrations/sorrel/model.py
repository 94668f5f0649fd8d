"""What chooses for an agent of sorrel's: its own model, or one of ours in that model's place."""

from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.attributes import IMMUTABLE
from abreast.errors import GameError, ModelFileError, StateError
from abreast.integrations.adapted.lanes import AdaptedPlayer
from abreast.integrations.sorrel.game import Lane, encode_attributes, set_attributes
from abreast.models import BaseModel, ModelConfig
from abreast.models.observation import PlainObservation
from abreast.state import State
from abreast.worlds.playable import as_reward

KEPT = "model"
"""The array of a model file that holds the attributes of one of sorrel's."""
OWN = "abreast.integrations.sorrel.model:SorrelModel"
"""`model.algorithm` where models are sorrel's: their settings are those of their environment (`world.sorrel`)."""
OWN_MODELS = {"algorithm": OWN, "epsilon_decay": 0.0}


class SorrelModel(BaseModel):
    """A model of sorrel's, as the loop of a sequential run calls it: the agent's own object plays and learns. What it is and
    what it remembers is kept with its environment (`game.py`).
    """

    KNOWN = BaseModel.KNOWN | {"lane", "agent", "inner", "decay", "decays", "reward"}
    inner: Any = None
    """The agent's own model."""
    reward = 0.0
    decays = 0
    """How often epsilon is to fall when the round of this epoch has been trained."""

    def __init__(self, lane: Lane, number: int, decay: float | None, config: ModelConfig) -> None:
        self.lane, self.agent, self.decay = lane, lane.env.agents[number], decay
        inner = self.agent.model
        shape = getattr(getattr(inner.memory, "states", None), "shape", (0, 1))[1:]
        seen = PlainObservation(shape, np.float32, 1.0)
        super().__init__(seen, actions_of(self.agent), config, np.random.SeedSequence(0))
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
        self._call("start_epoch_action", epoch=epoch)
        memory, add = self.inner.memory, self.inner.memory.add

        def add_counted(obs: Any, action: Any, reward: Any, *more: Any, **named: Any) -> Any:
            """(No other place has the rewards of a single agent.)"""
            self.reward += float(reward)
            return add(obs, action, reward, *more, **named)

        vars(memory)["add"] = add_counted

    def end_epoch_action(self, *, epoch: int) -> None:
        self.end_episode(0)
        self._call("end_epoch_action", epoch=epoch)

    def end_episode(self, lane: int, done: bool = False) -> None:
        """Called where an epoch ends or is interrupted: its rewards are counted no more."""
        vars(self.inner.memory).pop("add", None)

    def train_step(self) -> float:
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
        way = getattr(self.lane.env, f"_model_{name}", None)
        with self.lane.generators:
            return getattr(self.inner, name)(**named) if way is None else way(self.agent, *named.values())

    # ---- files

    @property
    def file_kind(self) -> str:
        return type(self.inner).__name__

    def file_state(self, learning: State | None = None) -> State:
        self.settle()
        whole = super().file_state(learning)
        data, _ = encode_attributes({KEPT: self.inner}, *self.lane.kept()[1:])
        return whole._replace(arrays={**whole.arrays, KEPT: data})

    def take_file_state(self, state: State, path: Path) -> None:
        others = {name: array for name, array in state.arrays.items() if name != KEPT}
        before, counted, epsilon = self._parts(), self.learning_state(), self.epsilon
        super().take_file_state(state._replace(arrays=others), path)
        try:
            set_attributes({KEPT: self.inner}, state.arrays[KEPT], *self.lane.kept()[1:])
        except (KeyError, StateError) as error:
            self.set_learning_state(counted)
            self.epsilon = epsilon
            raise ModelFileError(f"the model file {path} is damaged or does not fit this model: {error}") from None
        names, now = {id(part): name for name, part in before.items()}, self._parts()
        vars(self.agent).update(
            {name: now[names[id(value)]] for name, value in vars(self.agent).items() if id(value) in names}
        )

    def _parts(self) -> dict[str, Any]:
        """What it is made of, and its agent may refer to."""
        found = {**vars(self.inner), **vars(self.inner).get("_modules", {})}
        return {name: value for name, value in found.items() if not isinstance(value, IMMUTABLE)}


def actions_of(agent: Any) -> int:
    """How many actions an agent has."""
    found: Any = getattr(getattr(agent, "action_spec", None), "n_actions", None) or agent.model.action_space
    return found if isinstance(found, int) else len(found)


class NoSuchPart(GameError, AttributeError):
    """An agent of sorrel's asks its model for what models of ours have not."""


class OurSeat:
    """What an agent of sorrel's finds where its model was, and where that model's memory was: a model of ours chooses and
    remembers, in one lane. A step that the agent has chosen without its model is not remembered.
    """

    reward = 0.0
    epsilon, n_frames, size, extra_data = 0.0, 1, 0, MappingProxyType[str, Any]({})
    """Ours explores as its own settings say, stacks frames itself, and does not show its rows."""

    def __init__(self, player: AdaptedPlayer, lane: int) -> None:
        self._player, self._lane = player, lane
        self._step: tuple[NDArray[Any], int] | None = None
        """What was seen and chosen, and is not remembered yet."""
        self.memory = self

    def take_action(self, state: Any) -> int:
        model, seen = self._player.model, np.asarray(state, dtype=np.float32).ravel()
        if seen.shape != tuple(model.observation.input_size):
            raise GameError(
                f"{self._player.name} gives its model {seen.size} numbers to choose by, but its first observation had"
                f" {model.observation.input_size[0]}: let `pov` always return as many."
            )
        self._step = seen, model.take_actions([seen], [self._lane])[0]
        return self._step[1]

    def add(self, obs: Any, action: Any, reward: Any, done: Any, **extra: Any) -> None:
        earned = as_reward(reward)
        self.reward += earned
        if self._step is not None:
            seen, chosen = self._step
            self._player.model.remember_all([seen], [chosen], [earned], [bool(done)], [self._lane])
            self._step = None

    def current_state(self) -> NDArray[Any]:
        return np.empty((0, *self._player.model.observation.input_size))

    def _nothing(self, *arguments: Any, **named: Any) -> None:
        """The run does it, for the model."""

    settle = reset = add_empty = set_epsilon = start_epoch_action = end_epoch_action = _nothing

    def __getattr__(self, name: str) -> Any:
        raise NoSuchPart(
            f"{self._player.name} asks its model for {name}, which models of abreast's have not: train it with its own model"
            " (leave model.algorithm out), or port the game (docs/coming-from-sorrel.md)."
        )
