"""Gridworld environments, in lanes, as a game that can be trained on (`worlds/playable.py`)."""

from collections.abc import Sequence
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from PIL import Image

from abreast.agents import Agent
from abreast.state import State, join, part_of
from abreast.worlds import Gridworld
from abreast.worlds.playable import Decision, Late, Outcome, Played
from abreast.worlds.sprites import Painter

if TYPE_CHECKING:
    from abreast.training.environment import Environment

LARGEST_TILE, LARGEST_PICTURE = 24, 480
"""Pixels a side, of a cell and of a picture."""
PARTS_OF_A_TURN = ("transition", "get_action", "perform", "add_memory")
"""Methods of `Agent` that are carried out here, for all lanes at once, unless an agent has its own."""


class GridworldLanes:
    """An environment and its copies. One turn: the world changes by itself, then each agent sees, chooses and acts.

    With `turn_order: sequential` the agents decide one after the other, with `simultaneous` all of them see and choose
    before any of them acts. An agent that has its own of one of PARTS_OF_A_TURN takes its turn by itself, lane by lane.
    """

    def __init__(self, env: "Environment") -> None:
        self._env = env
        self.turns = 0

    @property
    def players(self) -> Sequence[Agent]:
        return self._env.agents  # type: ignore[no-any-return]

    def become_actor(self, number: int) -> None:
        self._env.become_actor(number)

    def reset(self, lanes: int) -> None:
        self._lanes = self._env.lanes[:lanes]
        for env in self._lanes:
            lane = env.agents[0].lane
            env.reset()
            for agent in env.agents:  # which may be new ones
                agent.lane = lane
        bodies = zip(*(env.agents for env in self._lanes), strict=True)  # per agent, in all lanes
        self._acts_itself = [any(map(_acts_itself, each)) for each in bodies]
        agents = list(range(len(self._acts_itself)))
        in_turn = self._env.config.experiment.turn_order == "sequential"
        self._groups = [[agent] for agent in agents] if in_turn else [agents]
        """Agents that see and choose before any of them acts, in the order of their turns."""
        self._group = 0
        self._own_choices: dict[int, list[tuple[NDArray[Any], int]]] = {}
        """What agents that act by themselves saw and chose, where others choose before they act."""
        self._lane_numbers: list[int] = []
        self.turns = 0

    def decisions(self) -> Sequence[Decision] | None:
        if not self._group and not self._begin_turn():
            return None
        decided, group = [], self._groups[self._group]
        for number in group:
            bodies = self._bodies[number]
            if not self._acts_itself[number]:
                states = [agent.pov(world) for agent, world in bodies]
                decided.append(Decision(number, self._lane_numbers, states))
            elif len(group) > 1:
                self._own_choices[number] = [_see_and_choose(agent, world) for agent, world in bodies]
        return decided

    def _begin_turn(self) -> bool:
        """Let the worlds that are still played change by themselves; False if there are none."""
        playing = [env for env in self._lanes if env.is_playing]
        for env in playing:
            env.turn += 1
            env.world.transition()
        self._bodies = [
            [(env.agents[number], env.world) for env in playing] for number in range(len(self._acts_itself))
        ]
        if len(playing) != len(self._lane_numbers):
            self._lane_numbers = [env.agents[0].lane for env in playing]
        self._is_first_playing = bool(playing) and playing[0] is self._lanes[0]
        return bool(playing)

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        outcomes, chosen = [], iter(actions)
        for number in self._groups[self._group]:
            if self._acts_itself[number]:
                self._let_act(number)
                continue
            rewards, terminated = [], []
            for (agent, world), action in zip(self._bodies[number], next(chosen), strict=True):
                rewards.append(agent.act_for_reward(world, action))
                terminated.append(agent.is_done(world))
            outcomes.append(Outcome(rewards, terminated))
        self._group += 1
        if self._group == len(self._groups):
            self._group = 0
            self.turns += self._is_first_playing
        return outcomes, ()

    def _let_act(self, number: int) -> None:
        """Let an agent with a turn of its own take it, in every lane."""
        for (agent, world), choice in zip_longest(self._bodies[number], self._own_choices.pop(number, ())):
            if choice is None:
                agent.transition(world)
            else:
                agent.perform(world, *choice)

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        played = [Played(env.turn, [agent.score for agent in env.agents]) for env in self._lanes]
        late = [
            Late(number, agent.lane, terminated=True)
            for env in self._lanes
            for number, agent in enumerate(env.agents)
            if agent.is_done(env.world)
        ]
        return played, late

    # ---- what it looks like, what is kept

    def picture(self) -> Image.Image:
        world = self._env.world
        return Image.fromarray(self._painter.draw(world, 0, 0, world.height, world.width))

    @cached_property
    def _painter(self) -> Painter:
        longest = max(self._env.world.height, self._env.world.width)
        return Painter(max(1, min(LARGEST_TILE, LARGEST_PICTURE // longest)))

    def state(self) -> State:
        return join(**{f"lane{number}": env.state() for number, env in enumerate(self._env.lanes)})

    def set_state(self, state: State) -> None:
        for number, env in enumerate(self._env.lanes):
            env.set_state(part_of(state, f"lane{number}"))


def _see_and_choose(agent: Agent, world: Gridworld) -> tuple[NDArray[Any], int]:
    state = agent.pov(world)
    return state, agent.get_action(state)


def _acts_itself(agent: Agent) -> bool:
    """Whether an agent has a turn of its own; what it does in it is then its business, in every lane."""
    return any(getattr(getattr(agent, name), "__func__", None) is not getattr(Agent, name) for name in PARTS_OF_A_TURN)
