"""The rules of commons harvest, by hand."""

import numpy as np
import pytest
from tests.games.situations import TOP, act, build, place, refused

from abreast.games.harvest.entities import Apple


def meadow(*apples, regrow_prob=0.0):
    env = build(
        "harvest",
        *("experiment.num_agents=1", "world.height=7", "world.width=7", "world.apples=0"),
        f"world.regrow_prob={regrow_prob}",
    )
    place(env, (5, 5))
    for row, column in apples:
        env.world.add((row, column, TOP), Apple(1.0))
    return env


def apples_of(env):
    return sorted(cell[:2] for cell in env.world.cells_of(Apple.kind))


def test_an_apple_is_eaten_by_who_walks_onto_it():
    env = meadow((5, 4), (1, 1))
    assert act(env, 0, "left") == 1.0
    assert env.metrics() == {"apples_left": 1.0}


def test_apples_near_are_those_within_two_steps():
    near = meadow((1, 1), (2, 2), (3, 3)).world.apples_near()
    assert near[2, 1] == 2  # not (3, 3), which is three steps away
    assert near[2, 2] == 2  # itself not counted
    assert near[5, 3] == 1
    assert near[5, 5] == 0
    assert near[0, 6] == 0  # and nothing is seen across the edge


def test_what_is_certain_to_grow_grows_beside_apples_and_nowhere_else():
    env = meadow((1, 1), regrow_prob=1.0)
    env.world.transition()
    assert apples_of(env) == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]


def test_the_last_apple_eaten_is_the_last_apple():
    env = meadow((5, 4), regrow_prob=1.0)
    act(env, 0, "left")
    for _ in range(20):
        env.world.transition()
    assert apples_of(env) == []


def test_the_chance_grows_with_the_number_of_apples_near():
    env = meadow((1, 1), (1, 2), (1, 3), regrow_prob=0.1)
    grown = np.zeros((7, 7))
    for _ in range(600):
        env.world.transition()
        for row, column in set(apples_of(env)) - {(1, 1), (1, 2), (1, 3)}:
            grown[row, column] += 1
            env.world.remove((row, column, TOP))
    assert grown[2, 2] / 600 == pytest.approx(0.3, abs=0.08)
    assert grown[3, 2] / 600 == pytest.approx(0.1, abs=0.05)


def test_scripted_agents_eat_all_or_show_restraint():
    env = meadow((1, 1))
    stay = env.agents[0].action_spec.actions.index("stay")
    assert env.scripted["defect"](env.agents[0], env.world) != stay
    assert env.scripted["cooperate"](env.agents[0], env.world) == stay
    rich = meadow((1, 1), (1, 2), (1, 3), (2, 1), (2, 2))
    assert rich.scripted["cooperate"](rich.agents[0], rich.world) != stay


def test_too_many_apples_are_refused():
    assert "free cells" in refused("harvest", "world.apples=100")
