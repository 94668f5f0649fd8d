"""The rules of the kitchen, by hand: agent 0 below the pot, agent 1 at the onions on the right."""

import pytest
from tests.games.situations import act, build, place, play, refused

from abreast.games.kitchen.agents import Carries
from abreast.games.kitchen.entities import PotState

POT = (0, 2, 1)


@pytest.fixture
def env():
    env = build("kitchen", "world.cook_turns=2")
    place(env, (1, 2), (1, 3))
    return env


def fill(env):
    """Two onions by agent 1, who ends below the pot's right neighbour; agent 0 makes room."""
    act(env, 0, "down")
    for _ in range(2):
        act(env, 1, "right", "left")
        assert act(env, 1, "up") == pytest.approx(0.3)
        act(env, 1, "right")


def test_soup_from_onions_to_the_hatch(env):
    pot = env.world.observe(POT)
    fill(env)
    assert pot.state is PotState.COOKING
    env.world.transition()
    assert pot.state is PotState.COOKING
    env.world.transition()
    assert pot.state is PotState.READY
    act(env, 0, "left", "down")  # the dishes are below (2, 1)
    assert env.agents[0].carries is Carries.DISH
    act(env, 0, "right", "up")
    assert act(env, 0, "up") == pytest.approx(0.6)
    assert (env.agents[0].carries, pot.state) == (Carries.SOUP, PotState.EMPTY)
    act(env, 0, "down", "right")
    assert act(env, 0, "down") == 5.0
    assert env.agents[0].carries is Carries.NOTHING
    assert act(env, 1, "stay") == 5.0  # everybody is paid
    assert env.metrics() == {"soups": 1.0}


def test_what_is_of_no_use_does_nothing(env):
    pot = env.world.observe(POT)
    assert act(env, 0, "up") == 0.0  # empty hands
    assert pot.state is PotState.EMPTY
    fill(env)
    act(env, 1, "right", "left")
    assert act(env, 1, "up") == 0.0  # a full pot takes no onion
    assert env.agents[1].carries is Carries.ONION
    act(env, 0, "left", "down", "right")
    assert env.agents[0].carries is Carries.DISH
    act(env, 0, "right")
    assert act(env, 0, "down") == 0.0  # no soup, nothing to serve


def test_taking_something_else_puts_back_what_one_had_but_no_soup(env):
    cook = env.agents[1]
    act(env, 1, "right")
    assert cook.carries is Carries.ONION
    act(env, 1, "down", "left", "left", "down")
    assert cook.carries is Carries.DISH
    cook._hold(Carries.SOUP)
    act(env, 1, "down")
    assert cook.carries is Carries.SOUP


def test_kinds_on_the_map_are_what_is_there(env):
    fill(env)
    play(env, 200)
    world = env.world
    assert [world.kind_names[number - 1] for number in world.kinds.flat] == [each.kind for each in world.map.flat]


@pytest.mark.parametrize(
    ("layout", "told"),
    [
        ("['###', '#.#']", "close it with #"),
        ("['###', '##']", "rows of the same length"),
        ("['###', '#x#', '###']", "world.layout has 'x'"),
        ("[]", "rows of the same length"),
        ("['#O#', '#.#', 'D#S']", "world.layout has no Pot (P): no soup could be served"),
        ("['###', '#.#', '###']", "no Onions (O), no Dishes (D), no Hatch (S), no Pot (P)"),
    ],
)
def test_a_map_that_is_none_is_refused(layout, told):
    assert told in refused("kitchen", f"world.layout={layout}")
