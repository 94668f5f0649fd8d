"""Treasure hunt, rule by rule."""

import numpy as np
import pytest

from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld
from abreast.games.treasurehunt.entities import Bone, Food, Gem


def build(**world):
    config = {
        "experiment": {"num_agents": 1, "max_turns": 20},
        "model": {"algorithm": "random", "n_frames": 1},
        "world": {"spawn_prob": 0.0, **world},
    }
    return TreasurehuntEnv(TreasurehuntWorld(config), config)


def step(env, direction, *, onto=None):
    """Put the agent in the middle, something to its right, and take one step."""
    agent = env.agents[0]
    env.world.move(agent, (4, 4, 1))
    if onto is not None:
        env.world.add((4, 5, 1), onto)
    return agent.act(env.world, ["up", "down", "left", "right"].index(direction))


@pytest.mark.parametrize("item", [Gem(10.0), Food(5.0), Bone(-10.0)])
def test_walking_onto_an_item_takes_its_value(item):
    env = build()
    assert step(env, "right", onto=item) == item.value
    assert env.agents[0].location == (4, 5, 1)
    assert env.world.get_entities_of_kind(item.kind) == []


def test_walking_into_a_wall_costs_1_and_does_not_move():
    env = build(height=3, width=3)
    assert [env.agents[0].act(env.world, action) for action in range(4)] == [-1.0] * 4
    assert env.agents[0].location == (1, 1, 1)


def test_walls_stand_around_and_sand_lies_below():
    world = build().world
    walls = world.kinds[:, :, 1] == world.kind_number("Wall")
    assert walls.sum() == 36 and not walls[1:-1, 1:-1].any()
    assert (world.kinds[:, :, 0] == world.kind_number("Sand")).all()


def test_items_appear_on_empty_cells_with_the_configured_chance():
    env = build(spawn_prob=0.1, height=42, width=42)
    env.world.transition()
    count = len(env.world.get_entities_of_kind("Gem"))
    assert count == pytest.approx(160, abs=60)  # of 1,599 empty cells; five deviations


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ({}, {"Gem"}),
        ({"food_value": 5.0}, {"Gem", "Food"}),
        ({"food_value": 5.0, "bone_value": -1.0}, {"Gem", "Food", "Bone"}),
    ],
)
def test_only_items_with_a_value_appear(values, kinds):
    env = build(spawn_prob=0.9, **values)
    env.world.transition()
    found = {entity.kind for entity in env.world.map[:, :, 1].flat}
    assert found - {"Wall", "EmptyEntity", "TreasurehuntAgent"} == kinds


def test_agents_see_a_square_around_them_with_layers_summed():
    env = build()
    env.world.move(env.agents[0], (1, 1, 1))
    seen = env.agents[0].pov(env.world)
    assert seen.shape == (5, 5, 5)
    assert seen[2, 2].tolist() == [0, 0, 0, 0, 1]  # the agent itself; the sand below shows nothing
    assert seen[3, 3].tolist() == [0, 0, 0, 0, 0]  # sand and nothing on it
    assert seen[0, 0].tolist() == [1, 0, 0, 0, 0]  # beyond the edge: wall


def test_every_epoch_begins_with_an_empty_beach():
    env = build(spawn_prob=0.5)
    for _ in range(5):
        env.take_turn()
    env.reset()
    assert env.world.get_entities_of_kind("Gem") == []
    assert np.count_nonzero(env.world.kinds == env.world.kind_number("TreasurehuntAgent")) == 1
