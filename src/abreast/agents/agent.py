"""Entities that see, choose, act and remember."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from abreast.attributes import Made
from abreast.errors import WorldError, short
from abreast.models.base import BaseModel
from abreast.worlds import ActionSpec, Entity, Gridworld, Location, ObservationSpec, Sprite
from abreast.worlds.playable import as_reward


class Agent(Entity):
    """An entity with a body in the world and a model of its own.

    A turn of an agent is `transition`: see, choose, act, remember. Subclasses say what an action does, in `act`; the
    other steps can be replaced one by one.
    """

    KNOWN: ClassVar[frozenset[str]] = frozenset(
        {"observation_spec", "action_spec", "model", "score", "lane", "_pending_reward", "location", "facing", "sprite"}
        | {"direction_sprites"}
    )
    """Attributes of our own classes; any other is a subclass's own."""
    MADE_BY: ClassVar[Made] = (("_pending_reward", "__init__"),)

    def __init__(
        self,
        observation_spec: ObservationSpec,
        action_spec: ActionSpec,
        model: BaseModel,
        location: Location | None = None,
    ) -> None:
        self.observation_spec = observation_spec
        self.action_spec = action_spec
        self.model = model
        self.score = 0.0
        self.lane = 0
        self._pending_reward = 0.0
        if location is not None:
            self.location = location

    def reset(self) -> None:
        """A new epoch begins, with nothing earned and nothing owed."""
        self.score = 0.0
        self._pending_reward = 0.0

    def pov(self, world: Gridworld) -> NDArray[Any]:
        """What the agent sees."""
        return self.observation_spec.observe(world, self.location)

    def legal_actions(self, world: Gridworld) -> Sequence[bool] | NDArray[np.bool_]:
        """Which actions are legal now, one after the other; asked for where `observation_spec.is_masked`."""
        raise NotImplementedError(
            f"{type(self).__name__}.legal_actions says which actions are legal, because its observation_spec.is_masked."
        )

    def mask(self, world: Gridworld) -> NDArray[np.bool_]:
        """`legal_actions`, looked at: one for each action, and not none at all."""
        legal = np.asarray(self.legal_actions(world))
        if legal.shape != (self.action_spec.n_actions,) or legal.dtype.kind not in "bui" or not legal.any():
            raise WorldError(
                f"{type(self).__name__}.legal_actions returned {short(legal.tolist())}: expected"
                f" true or false for each of {', '.join(self.action_spec.actions)}, and true for one at least."
            )
        return legal.astype(np.bool_)

    def get_action(self, state: NDArray[Any]) -> int:
        """The action the model chooses in a state."""
        chosen: int = self.model.take_action(state, self.lane) if self.lane else self.model.take_action(state)
        return chosen

    def act(self, world: Gridworld, action: int) -> float:
        """Do it; returns the reward."""
        raise NotImplementedError(f"{type(self).__name__}.act says what its actions do.")

    def give(self, reward: float) -> None:
        """Take a reward that arose in another agent's turn: it counts with this agent's own next step; if there is none in
        this epoch, with its last.
        """
        self._pending_reward += as_reward(reward)

    def is_done(self, world: Gridworld) -> bool:
        """Whether the episode has ended for good for this agent (not merely run out of turns).

        The epoch goes on until the world is done; an agent that is done before others acts on, in a new episode.
        """
        return world.is_done

    def add_memory(self, state: NDArray[Any], action: int, reward: float, done: bool) -> None:
        """Remember the step just lived."""
        lane = (self.lane,) if self.lane else ()  # a model for one lane need not know of lanes
        self.model.remember(state, action, reward, done, *lane)

    def transition(self, world: Gridworld) -> None:
        """One turn of this agent."""
        state = self.pov(world)
        self.note_mask(world)
        self.perform(world, state, self.get_action(state))

    def note_mask(self, world: Gridworld) -> None:
        """Tell the model which actions are legal, if not all of them are."""
        if getattr(self.observation_spec, "is_masked", False):
            self.model.note_masks([self.lane], [self.mask(world)])

    def perform(self, world: Gridworld, state: NDArray[Any], action: int) -> None:
        """The second half of a turn: act on a choice made in `state`, and remember it."""
        self.add_memory(state, action, self.act_for_reward(world, action), self.is_done(world))

    def act_for_reward(self, world: Gridworld, action: int) -> float:
        """Act, and take what it earns and what was given since the last step into score and total."""
        reward = as_reward(self.act(world, action))
        if self._pending_reward:
            reward += self.take_given()
        world.total_reward += reward  # as `earn` does; a call for every step costs 1 % of the loop
        self.score += reward
        return reward

    def earn(self, world: Gridworld, reward: float) -> float:
        """Take a reward into score and total."""
        world.total_reward += reward
        self.score += reward
        return reward

    def take_given(self) -> float:
        """What was given since the last step; it is then taken."""
        given, self._pending_reward = self._pending_reward, 0.0
        return given


class MovingAgent(Agent):
    """An agent whose actions up, down, left and right move it, and who takes the value of what it walks into."""

    DIRECTIONS: ClassVar[dict[str, tuple[int, int]]] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}

    direction_sprites: Mapping[str, Sprite] = MappingProxyType({})
    """Pictures by direction, for agents that look where they go."""
    facing: str = "down"

    def reset(self) -> None:
        super().reset()
        self.face("down")

    def movement(self, action: int) -> Location:
        """Where an action leads: the next cell in its direction, or the same cell for actions that do not move."""
        name = self.action_spec.get_readable_action(action)
        if name not in self.DIRECTIONS:
            return self.location
        self.face(name)
        rows, columns = self.DIRECTIONS[name]
        row, column, layer = self.location
        return (row + rows, column + columns, layer)

    def face(self, direction: str) -> None:
        """Turn into a direction."""
        self.facing = direction
        self.sprite = self.direction_sprites.get(direction, type(self).sprite)

    def act(self, world: Gridworld, action: int) -> float:
        """Walk: the reward is the value of what stands in the cell, whether or not it lets the agent pass."""
        destination = self.movement(action)
        if destination == self.location or not world.valid_location(destination):
            return 0.0
        reward = world.observe(destination).value
        world.move(self, destination)
        return reward
