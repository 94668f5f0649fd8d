"""The contract between an agent and the model that chooses and learns for it."""

import operator
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import compress, pairwise
from typing import Any, ClassVar, Literal, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abreast.attributes import check_made
from abreast.errors import ModelError, short
from abreast.models.config import ModelConfig
from abreast.models.figures import Figures
from abreast.models.lane_memory import FrameStack
from abreast.models.lane_streams import LaneStreams
from abreast.models.model_state import ModelState
from abreast.replay import Buffer, SharedReplayBuffer, Trajectory

NOT_CALLED_ON_A_DEVICE = (
    *("take_action", "take_actions", "choose", "evaluate", "evaluated", "decide", "decide_all", "drawn_action"),
    *("_random_choices", "_draw_actions", "legal_now", "note_masks", "with_history", "remember", "remember_all"),
    *("row_extras", "amend", "end_episode"),
)
"""Methods that are not called in a pass that is played on a device as a whole, or otherwise than usual."""
Kind = TypeVar("Kind", bound="type[BaseModel]")
Mode = Literal["greedy", "explore"]
"""How agents act in an evaluation: `greedy` as in `BaseModel.act_greedily`, `explore` as in training."""


def shipped(kind: Kind) -> Kind:
    """Marks a class of ours: what a user's class replaces is found by comparing its methods with the marked ones."""
    kind.SHIPPED = kind
    return kind


@shipped
class BaseModel(ModelState):
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
        action_box         continuous actions, where `ACTIONS` says that it can choose them: vectors of floats from -1 to 1

    Several copies of the environment may be played side by side, each in a lane of its own: `lane` says which one a state
    comes from. Choosing and learning may happen in separate processes, with the same result: an attribute that a subclass
    adds is learning's, and choosing has a copy, renewed when an epoch starts. What choosing changes is named in `acting`,
    and learning is given a copy of it. (`own.py` says how this is guarded.)
    """

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    SHIPPED: ClassVar[type["BaseModel"]]
    """The class of ours that it is, or is derived from."""
    DECIDED_EXTRAS: ClassVar[frozenset[str] | None] = None
    """What its `decide_all` returns beside actions; None: it has none, and chooses state by state."""
    EVALUATION: ClassVar[Mode] = "greedy"
    """How the policy is meant to be used, and is evaluated: `greedy`, or `explore` if it is stochastic on purpose, as that
    of a policy gradient is."""
    is_greedy: bool = False
    """Whether to choose what seems best and explore nothing, in whatever way the model explores (`act_greedily`)."""

    def check_whole(self) -> None:
        """Refuse a model that lacks what a run asks for, before there is a run."""
        check_made(self)
        kind = type(self)
        if kind.take_action is BaseModel.take_action and kind.take_actions is BaseModel.take_actions:
            raise ModelError(
                "it has no take_action: define take_action(self, state, lane=0), which returns the action it chooses"
            )
        if kind.train_step is BaseModel.train_step:
            raise ModelError(
                "it has no train_step: define train_step(self), which returns None if there is nothing to learn"
            )
        if kind.EVALUATION not in get_args(Mode):
            raise ModelError(f"its EVALUATION is {short(kind.EVALUATION)}: expected 'greedy' or 'explore'")

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
        self.own_attributes.reseed(seed)

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

    def take_action(self, state: NDArray[Any], lane: int = 0) -> Any:
        """The number of the action chosen in a state (one frame; `with_history` adds those before it); of continuous
        actions, a vector.
        """
        raise NotImplementedError(f"{type(self).__name__}.take_action says which action it chooses.")

    def take_actions(self, states: Sequence[NDArray[Any]], lanes: Sequence[int]) -> list[Any]:
        """The actions chosen in the states of several lanes; models that can, choose them all at once."""
        if len(lanes) == 1 and not lanes[0]:  # a model for one lane need not know of lanes
            return [self._check_action(self.take_action(states[0]))]
        return [self._check_action(self.take_action(state, lane)) for state, lane in zip(states, lanes, strict=True)]

    def _check_action(self, action: Any) -> Any:
        """An action as a number, if it is one of the agent's; of continuous ones, as a vector."""
        if self.action_box is not None:
            return self._check_vector(action)
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

    def _check_vector(self, action: Any) -> Any:
        try:
            vector = np.array(action, dtype=np.float32)
        except (TypeError, ValueError, RuntimeError):
            vector = np.empty(0, dtype=np.float32)
        if vector.shape != (self.n_actions,) or not np.isfinite(vector).all():
            raise ModelError(
                f"{type(self).__name__}.take_action returned {short(action)}: expected a vector of {self.n_actions} finite"
                " numbers from -1 (the lowest) to 1 (the highest)."
            )
        return vector

    def why_not_on_device(self) -> str | None:
        """Why it cannot choose in passes that are played on a device as a whole (`training/batched.py`); None: it can."""
        kind = type(self)
        if self.DECIDED_EXTRAS is None:
            return f"{kind.__name__} chooses state by state"
        if (replaced := kind.replaced_method(NOT_CALLED_ON_A_DEVICE)) is not None:
            return f"{kind.__name__}.{replaced} is your own, and is called state by state"
        if type(self.memory) not in (Buffer, SharedReplayBuffer):
            return f"its memory is a {type(self.memory).__name__}, which takes row after row"
        if more := self.lane_extras.keys() - self.DECIDED_EXTRAS:
            return f"{kind.__name__} remembers {', '.join(sorted(more))} of each lane"
        return None

    @classmethod
    def replaced_method(cls, names: Iterable[str]) -> str | None:
        """The first of these methods of ours that a user's class has replaced."""
        return next((name for name in names if getattr(cls, name, None) is not getattr(cls.SHIPPED, name, None)), None)

    @property
    def is_ours(self) -> bool:
        """Whether it is of one of our algorithms itself, not of a class derived from it."""
        return type(self).SHIPPED is type(self)

    @property
    def runs_users_code(self) -> bool:
        """Whether a part of it is a user's: its class, or a network."""
        return not self.is_ours

    @property
    def stack_key(self) -> Hashable | None:
        """Models with the same key can be computed in one stacked product; None: only alone."""
        return None

    @property
    def learning_key(self) -> Hashable | None:
        """Models with the same key learn in one stacked update (models/stacked/); None: each by its own `train_step`."""
        return None

    def remember(self, state: NDArray[Any], action: Any, reward: float, done: bool, lane: int = 0) -> None:
        """Put the step just lived into memory."""
        self.memory.add(state, action, reward, done, lane, **self.row_extras(lane))
        if done:
            self._forget_frames(lane)  # what comes next is another episode, for the replay's stacks too

    def remember_all(
        self,
        states: Sequence[NDArray[Any]],
        actions: Sequence[Any],
        rewards: Sequence[float],
        dones: Sequence[bool],
        lanes: Sequence[int],
    ) -> None:
        """`remember` for several lanes."""
        kind = type(self)
        is_ours = kind.remember is BaseModel.remember and kind.row_extras is BaseModel.row_extras
        if is_ours and type(self.memory).add is Buffer.add:
            if len(lanes) == 1:
                self.memory.add(states[0], actions[0], rewards[0], dones[0], lanes[0], **self.row_extras(lanes[0]))
            else:
                extras = {name: values[list(lanes)] for name, values in self.lane_extras.items()}
                self.memory.add_all(states, actions, rewards, dones, lanes, **extras)
            for lane in compress(lanes, dones):
                self._forget_frames(lane)
            return
        for state, action, reward, done, lane in zip(states, actions, rewards, dones, lanes, strict=True):
            known = (lane,) if lane else ()  # a model for one lane need not know of lanes
            self.remember(state, action, reward, done, *known)

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

    @property
    def is_warming_up(self) -> bool:
        """Whether to act at random, because there are too few rows to learn from (`learning_starts`)."""
        return False

    def epsilon_decay(self, rate: float) -> None:
        """Explore less: epsilon loses the share `rate`, down to `epsilon_min`."""
        self.epsilon = max(self.epsilon * (1 - rate), min(self.epsilon, self.config.epsilon_min))

    # ---- learning

    def set_progress(self, progress: float) -> None:
        """Called before each round of training with the share of the run (of its epochs or its steps) that was used when the
        newest episode began; for settings that change with it.
        """

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
        for lane, trajectory in enumerate(self.new_trajectories()):
            ends: list[int] = (np.flatnonzero(trajectory.last) + 1).tolist()
            found += [trajectory.part(begin, end) for begin, end in pairwise([0, *ends])]
            self.rows_learned_from[lane] -= len(trajectory.actions) - max(ends, default=0)  # those wait for their end
        return found

    @property
    def can_learn(self) -> bool:
        """Whether there is enough in memory for an update, as far as is known."""
        return False

    @property
    def has_no_gradient(self) -> bool:
        """Whether the last update had a gradient of zero: it has stopped learning."""
        return False
