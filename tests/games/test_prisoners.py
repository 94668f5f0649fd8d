"""The rules of the prisoners' dilemma, by hand."""

import math

import pytest
from tests.games.situations import build, place, refused

LEFT, FLOOR, RIGHT = 1, 3, 5


@pytest.mark.parametrize(
    ("columns", "paid"),
    [
        ((LEFT, LEFT), [3, 3]),
        ((LEFT, RIGHT), [0, 5]),
        ((RIGHT, LEFT), [5, 0]),
        ((RIGHT, RIGHT), [1, 1]),
        ((FLOOR, RIGHT), [0, 0]),
        ((LEFT, FLOOR), [0, 0]),
        ((LEFT, LEFT, RIGHT), [1.5, 1.5, 5]),
        ((RIGHT, FLOOR, RIGHT), [1, 0, 1]),
    ],
)
def test_a_turn_pays_by_where_the_others_stand(columns, paid):
    env = build("prisoners", f"experiment.num_agents={len(columns)}")
    place(env, *((row, column) for row, column in enumerate(columns, 1)))
    assert env.after_turn() == paid


def test_cooperation_is_the_share_of_turns_on_tiles():
    env = build("prisoners")
    place(env, (1, FLOOR), (2, FLOOR))
    env.after_turn()
    assert math.isnan(env.metrics()["cooperation"])
    place(env, (1, LEFT), (2, RIGHT))
    env.after_turn()
    place(env, (1, LEFT), (2, FLOOR))
    env.after_turn()
    assert env.metrics()["cooperation"] == pytest.approx(2 / 3)
    env.reset()
    assert math.isnan(env.metrics()["cooperation"])


def test_a_tile_under_an_agent_is_seen():
    env = build("prisoners")
    place(env, (1, LEFT), (2, RIGHT))
    seen, kinds = env.agents[0].pov(env.world), list(env.seen_kinds)
    centre = seen[seen.shape[0] // 2, seen.shape[1] // 2]
    assert centre[kinds.index("CooperateTile")] == 1
    assert centre[kinds.index("PrisonersAgent")] == 1


def test_payoffs_are_settings_and_a_court_without_floor_or_with_a_lone_agent_is_refused():
    env = build("prisoners", "world.sucker=-1")
    place(env, (1, LEFT), (2, RIGHT))
    assert env.after_turn() == [-1, 5]
    told = refused("prisoners", "world.tile_width=3")
    assert "no floor is left" in told
    assert told.startswith("world.tile_width is 3")
    assert "experiment.num_agents is 1" in refused("prisoners", "experiment.num_agents=1")
    assert "free cells" in refused("prisoners", "experiment.num_agents=12")
