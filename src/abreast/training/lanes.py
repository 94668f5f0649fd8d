"""Gridworld environments, in lanes, as a game that can be trained on (`worlds/playable.py`)."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from PIL import Image

from abreast.agents import Agent
from abreast.state import State, join, part_of
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
        self._lanes: list[Environment] = []
        self._playing: list[Environment] = []
        self._next_agent = 0
        """Whose turn it is, where agents act one after the other."""
        self._lane_numbers: list[int] = []
        self._decided: list[Decision] = []
        self._own_choices: dict[int, list[tuple[NDArray[Any], int]]] = {}
        """What agents that choose by themselves saw and chose, where all choose before any acts."""
        self.turns = 0

    @property
    def players(self) -> Sequence[Agent]:
        return self._env.agents  # type: ignore[no-any-return]

    def become_actor(self, number: int) -> None:
        self._env.become_actor(number)

    def reset(self, lanes: int) -> None:
        self._lanes = self._env.lanes[:lanes]
        for env in self._lanes:
            env.reset()
        self._is_sequential = self._env.config.experiment.turn_order == "sequential"
        bodies = zip(*(env.agents for env in self._lanes), strict=True)  # per agent, in all lanes
        self._acts_itself = [any(map(_acts_itself, each)) for each in bodies]
        self._playing, self._next_agent, self.turns = [], 0, 0

    # ---- turns

    def decisions(self) -> Sequence[Decision]:
        if self._is_sequential:
            return self._next_decision()
        while self._begin_turn():
            self._decided = []
            for number in range(len(self._acts_itself)):
                states = [env.agents[number].pov(env.world) for env in self._playing]
                if self._acts_itself[number]:
                    bodies = [env.agents[number] for env in self._playing]
                    chosen = [body.get_action(state) for body, state in zip(bodies, states, strict=True)]
                    self._own_choices[number] = list(zip(states, chosen, strict=True))
                else:
                    self._decided.append(Decision(number, self._lane_numbers, states))
            if self._decided:
                return self._decided
            self.step([])  # all of them choose by themselves
        return ()

    def _next_decision(self) -> Sequence[Decision]:
        """The next agent that is to choose, here or in the turns to come."""
        while self._next_agent or self._begin_turn():
            number = self._next_agent
            if not self._acts_itself[number]:
                states = [env.agents[number].pov(env.world) for env in self._playing]
                self._decided = [Decision(number, self._lane_numbers, states)]
                return self._decided
            for env in self._playing:
                env.agents[number].transition(env.world)
            self._agent_has_acted()
        return ()

    def _begin_turn(self) -> bool:
        """Let the worlds that are still played change by themselves; False if there are none."""
        playing = [env for env in self._lanes if env.is_playing]
        if len(playing) != len(self._playing):
            self._playing, self._lane_numbers = playing, [env.agents[0].lane for env in playing]
        for env in playing:
            env.turn += 1
            env.world.transition()
        return bool(playing)

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        if self._is_sequential:
            outcomes = [self._act(self._next_agent, actions[0])]
            self._agent_has_acted()
            return outcomes, ()
        chosen = {decision.agent: each for decision, each in zip(self._decided, actions, strict=True)}
        outcomes = []
        for number, acts_itself in enumerate(self._acts_itself):
            if not acts_itself:
                outcomes.append(self._act(number, chosen[number]))
                continue
            for env, (state, action) in zip(self._playing, self._own_choices[number], strict=True):
                env.agents[number].perform(env.world, state, action)
        self._turn_is_over()
        return outcomes, ()

    def _act(self, number: int, actions: Sequence[int]) -> Outcome:
        rewards, terminated = [], []
        for env, action in zip(self._playing, actions, strict=True):
            agent, world = env.agents[number], env.world
            rewards.append(agent.act_for_reward(world, action))
            terminated.append(agent.is_done(world))
        return Outcome(rewards, terminated)

    def _agent_has_acted(self) -> None:
        self._next_agent = (self._next_agent + 1) % len(self._acts_itself)
        if not self._next_agent:
            self._turn_is_over()

    def _turn_is_over(self) -> None:
        if self._playing and self._playing[0] is self._lanes[0]:
            self.turns += 1

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


def _acts_itself(agent: Agent) -> bool:
    """Whether an agent has a turn of its own; what it does in it is then its business, in every lane."""
    return any(getattr(getattr(agent, name), "__func__", None) is not getattr(Agent, name) for name in PARTS_OF_A_TURN)
