"""Gridworld environments, in lanes, as a game that can be trained on (`worlds/playable.py`)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from abreast.agents import Agent
from abreast.codec import attributes_of
from abreast.errors import RewardError, short
from abreast.models.own import reseed_generators
from abreast.state import State, join, part_of
from abreast.worlds import Gridworld
from abreast.worlds.painting import Scene, ScenePainter
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played, as_reward

EMPTY: NDArray[Any] = np.empty(0)
PARTS_OF_A_TURN = ("transition", "get_action", "perform", "add_memory")
"""Methods of `Agent` that are carried out here, for all lanes at once, unless an agent has its own."""
Environment = Any
"""An `abreast.Environment`. (Its module stands on this one.)"""


class AgentsInWorlds(Playable):
    """What lanes of gridworlds tell of their agents, on a device or not."""

    _env: Environment

    @property
    def players(self) -> Sequence[Agent]:  # type: ignore[override]
        return self._env.agents  # type: ignore[no-any-return]

    @property
    def agent_names(self) -> Sequence[str]:  # type: ignore[override]
        """Classes and numbers, where their classes differ."""
        kinds = [type(agent).__name__ for agent in self.players]
        return [f"{kind} {number}" for number, kind in enumerate(kinds)] if len(set(kinds)) > 1 else ()

    @property
    def agent_colours(self) -> Sequence[str | None]:  # type: ignore[override]
        return [agent.colour for agent in self.players]

    def picture(self) -> Image.Image:
        return ScenePainter(self._env.world.kind_names).paint(self._scene_of(self.snapshot()))

    def paint(self, snapshots: Sequence[Any]) -> tuple[Iterable[Image.Image], Sequence[tuple[Image.Image, str]]]:
        return ScenePainter(self._env.world.kind_names).paint_all([self._scene_of(each) for each in snapshots])

    def _scene_of(self, snapshot: Any) -> Scene:
        """Return what a snapshot shows: usually, a snapshot is a scene."""
        return snapshot  # type: ignore[no-any-return]


class GridworldLanes(AgentsInWorlds):
    """An environment and its copies. One turn: the world changes by itself, then each agent sees, chooses and acts.

    With `turn_order: sequential` the agents decide one after the other, with `simultaneous` all of them see and choose
    before any of them acts. An agent that has its own of one of PARTS_OF_A_TURN takes its turn by itself, lane by lane.
    """

    plays_by_lane = True
    has_cheap_snapshots = True

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.turns = 0
        self.why_not_resumable: str | None = None

    def become_actor(self, first_lane: int) -> None:
        self._env.become_actor(first_lane)

    def reset(self, lanes: int) -> None:
        self._lanes = self._env.first_lanes(lanes)
        for env in self._lanes:
            lane, world, before = env.agents[0].lane, env.world, env.world.times_laid_out
            env.reset()
            if env.world is world and world.times_laid_out == before:
                self.why_not_resumable = (
                    f"{env.name}.reset leaves the map as it was, which is part of no checkpoint: call"
                    " self.world.create_world and put everything on the map again."
                )
            for agent in env.agents:  # which may be new ones
                agent.lane = lane
        bodies = zip(*(env.agents for env in self._lanes), strict=True)  # per agent, in all lanes
        self._acts_itself = [any(map(acts_itself, each)) for each in bodies]
        self._group, self.turns = 0, 0
        self._playing: list[Environment] = []
        self._own_choices: dict[int, list[tuple[NDArray[Any], int]]] = {}
        """What agents that act by themselves saw and chose, where others choose before they act."""

    def _make_groups(self, playing: list[Environment]) -> None:
        """Agents that see and choose before any of them acts, in the order of their turns, for the lanes still played.

        Decisions and outcomes are made once and filled again and again: to make new ones takes as long as an agent's choice.
        """
        self._playing, lanes = playing, [env.agents[0].lane for env in playing]
        agents = list(range(len(self._acts_itself)))
        in_turn = self._env.config.experiment.turn_order == "sequential"
        self._groups = [[agent] for agent in agents] if in_turn else [agents]
        asked = [[agent for agent in group if not self._acts_itself[agent]] for group in self._groups]
        self._decisions = [
            [Decision(agent, lanes, [EMPTY] * len(lanes), self._room_for_masks(agent)) for agent in group]
            for group in asked
        ]
        self._outcomes = [[Outcome([0.0] * len(lanes), [False] * len(lanes)) for _ in group] for group in asked]

    def _room_for_masks(self, number: int) -> list[NDArray[Any]] | None:
        """For those of an agent in the lanes still played, if not all its actions are always legal."""
        is_masked = getattr(self._env.agents[number].observation_spec, "is_masked", False)
        return [EMPTY] * len(self._playing) if is_masked else None

    def decisions(self) -> Sequence[Decision] | None:
        """Valid, as the outcomes of `step`, until the same agent decides again."""
        if not self._group and not self._begin_turn():
            return None
        for number, _, states, masks in self._decisions[self._group]:
            for index, env in enumerate(self._playing):
                states[index] = env.agents[number].pov(env.world)  # type: ignore[index]
                if masks is not None:
                    masks[index] = env.agents[number].mask(env.world)  # type: ignore[index]
        group = self._groups[self._group]
        if len(group) > 1:
            for number in group:
                if self._acts_itself[number]:
                    self._own_choices[number] = [
                        _see_and_choose(env.agents[number], env.world) for env in self._playing
                    ]
        return self._decisions[self._group]

    def _begin_turn(self) -> bool:
        """Let the worlds that are still played change by themselves; False if there are none."""
        playing = [env for env in self._lanes if env.is_playing]
        if len(playing) != len(self._playing):
            self._make_groups(playing)
        for env in playing:
            env.turn += 1
            env.world.transition()
        return bool(playing)

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        outcomes, asked = self._outcomes[self._group], 0
        for number in self._groups[self._group]:
            if self._acts_itself[number]:
                self._let_act(number)
                continue
            chosen, (rewards, terminated) = actions[asked], outcomes[asked]
            asked += 1
            for index, env in enumerate(self._playing):
                agent, world = env.agents[number], env.world
                try:
                    rewards[index] = agent.act_for_reward(world, chosen[index])  # type: ignore[index]
                    terminated[index] = agent.is_done(world)  # type: ignore[index]
                except Exception as error:
                    raise _placed(error, number, env, chosen[index]) from error.__cause__
        self._group += 1
        if self._group < len(self._groups):
            return outcomes, ()
        self._group = 0
        self.turns += self._playing[0] is self._lanes[0]
        payoffs = [(env, env.after_turn()) for env in self._playing]
        return outcomes, [late for env, payoff in payoffs if payoff is not None for late in _paid(env, payoff)]

    def _let_act(self, number: int) -> None:
        """Let an agent with a turn of its own take it, in every lane."""
        for env, choice in zip_longest(self._playing, self._own_choices.pop(number, ())):
            try:
                if choice is None:
                    env.agents[number].transition(env.world)
                else:
                    env.agents[number].perform(env.world, *choice)
            except Exception as error:
                raise _placed(error, number, env, choice and choice[1]) from error.__cause__

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        late = [
            Late(number, agent.lane, agent.earn(env.world, agent.take_given()), bool(agent.is_done(env.world)))
            for env in self._lanes
            for number, agent in enumerate(env.agents)
        ]
        played = [Played(env.turn, [agent.score for agent in env.agents], _metrics_of(env)) for env in self._lanes]
        return played, [each for each in late if each.reward or each.terminated]

    # ---- evaluation

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Let worlds, and the generators that users' classes have added to them or to agents, begin new streams."""
        for lane, seed in zip(self._env.lanes, seeds, strict=True):
            lane.world.reseed(seed)
            owners: Sequence[Any] = [lane, lane.world, *lane.agents]
            values = [value for owner in owners for _, value in sorted(attributes_of(owner).items())]
            reseed_generators(values, lane._places(), seed)

    # ---- what it looks like, what is kept

    def snapshot(self) -> Scene:
        return Scene.of(self._env.world, self._env.agents, self._env.world.changing)

    def rewards_so_far(self) -> Sequence[float]:
        return [agent.score for agent in self._env.agents]

    def state(self) -> State:
        return join(**{f"lane{number}": env.state() for number, env in enumerate(self._env.lanes)})

    def set_state(self, state: State) -> None:
        for number, env in enumerate(self._env.lanes):
            env.set_state(part_of(state, f"lane{number}"))

    def lane_states(self, lanes: Iterable[int]) -> dict[int, State]:
        return {lane: self._env.lane(lane).state() for lane in lanes}

    def set_lane_states(self, states: Mapping[int, State]) -> None:
        for lane, state in states.items():
            self._env.lane(lane).set_state(state)


def _see_and_choose(agent: Agent, world: Gridworld) -> tuple[NDArray[Any], int]:
    state = agent.pov(world)
    agent.note_mask(world)
    return state, agent.get_action(state)


def _metrics_of(env: Environment) -> Mapping[str, float]:
    """The figures as they are now: a game may go on counting in the same mapping. What is none, the record refuses."""
    metrics = env.metrics()
    return dict(metrics) if isinstance(metrics, Mapping) else metrics


def _paid(env: Environment, rewards: Sequence[float]) -> Iterator[Late]:
    """What the agents of a lane get for the turn as a whole."""
    if isinstance(rewards, Mapping | Set) or not hasattr(rewards, "__len__"):
        raise RewardError(
            f"{env.name}.after_turn returned {short(rewards)} in turn {env.turn}: expected a list with one reward for each"
            f" of the {len(env.agents)} agents, or None."
        )
    if len(rewards) != len(env.agents):
        raise RewardError(
            f"{env.name}.after_turn returned {len(rewards)} rewards in turn {env.turn}, but there are {len(env.agents)}"
            " agents: return one for each."
        )
    for number, (agent, reward) in enumerate(zip(env.agents, rewards, strict=True)):
        try:
            earned = agent.earn(env.world, as_reward(reward))
        except RewardError as error:
            raise RewardError(f"agent {number}, turn {env.turn}, {env.name}.after_turn: {error}.") from None
        if earned:
            yield Late(number, agent.lane, earned)


def _placed(error: Exception, number: int, env: Environment, action: int | None) -> Exception:
    """The error, told which agent was doing what."""
    agent: Agent = env.agents[number]
    doing = "its own turn" if action is None else f"action {action}"
    if action is not None and 0 <= action < agent.action_spec.n_actions:
        doing += f" ({agent.action_spec.get_readable_action(action)})"
    place = f"agent {number} ({type(agent).__name__}), turn {env.turn}, {doing}"
    if isinstance(error, RewardError):
        return RewardError(f"{place}: {error}.")
    error.add_note(f"(abreast: {place}, lane {agent.lane})")
    return error


def acts_itself(agent: Agent) -> bool:
    """Whether an agent has a turn of its own; what it does in it is then its business, in every lane."""
    return any(getattr(getattr(agent, name), "__func__", None) is not getattr(Agent, name) for name in PARTS_OF_A_TURN)
