"""One turn of an agent."""

import numpy as np
import pytest

from abreast import ActionSpec, Agent, Entity, Gridworld, MovingAgent, OneHotObservationSpec
from abreast.worlds import EmptyEntity, Wall
from fakes import make_model


class Coin(Entity):
    passable = True
    value = 5.0


class CostlyWall(Wall):
    kind = "Wall"
    value = -1.0


VIEW = OneHotObservationSpec(["EmptyEntity", "Coin", "Wall", "MovingAgent"], vision_radius=1)
ACTIONS = ActionSpec(["up", "down", "left", "right", "stay"])


def on_a_row(*entities, at):
    """A one-row world with an agent at column `at`."""
    world = Gridworld(1, 6, 1, EmptyEntity())
    for column, entity in entities:
        world.add((0, column, 0), entity)
    agent = MovingAgent(VIEW, ACTIONS, make_model("random", VIEW.input_size, n_actions=5))
    world.add((0, at, 0), agent)
    return world, agent


def test_a_turn_is_see_choose_act_remember():
    world, agent = on_a_row((2, Coin()), at=1)
    agent.model.take_action = lambda state: ACTIONS.actions.index("right")
    seen = agent.pov(world).copy()
    agent.transition(world)
    row = agent.model.memory.trajectory(0, 0)
    assert np.array_equal(row.states[0, -1], seen)
    assert (row.actions[0], row.rewards[0], row.dones[0]) == (3, 5.0, False)
    assert (agent.location, agent.score, world.total_reward) == ((0, 2, 0), 5.0, 5.0)
    assert world.observe((0, 1, 0)).kind == "EmptyEntity"


@pytest.mark.parametrize(
    ("action", "reward", "column", "facing"),
    [("right", -1.0, 1, "right"), ("left", 0.0, 0, "left"), ("up", 0.0, 1, "up"), ("stay", 0.0, 1, "down")],
)
def test_walls_and_edges_stop_a_step(action, reward, column, facing):
    world, agent = on_a_row((2, CostlyWall()), at=1)
    assert agent.act(world, ACTIONS.actions.index(action)) == reward
    assert (agent.location, agent.facing) == ((0, column, 0), facing)


def test_a_reward_from_anothers_turn_counts_once_with_the_own_next_step():
    world, agent = on_a_row(at=1)
    agent.give(3.0)
    for expected in (3.0, 0.0):
        agent.perform(world, agent.pov(world), ACTIONS.actions.index("stay"))
        assert agent.model.memory.trajectory(0, 0).rewards[-1] == expected
    assert world.total_reward == agent.score == 3.0
    agent.give(3.0)
    agent.reset()
    agent.perform(world, agent.pov(world), ACTIONS.actions.index("stay"))
    assert agent.score == 0.0


def test_an_agent_without_act_says_what_is_missing():
    class Idle(Agent):
        pass

    with pytest.raises(NotImplementedError, match=r"Idle\.act"):
        Idle(VIEW, ACTIONS, make_model("random")).act(None, 0)


def test_the_world_never_transitions_agents():
    world, agent = on_a_row(at=1)
    world.transition()
    assert len(agent.model.memory) == 0
