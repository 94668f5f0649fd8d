"""The rules of coins, by hand."""

from tests.games.situations import TOP, act, build, place, play

from abreast.games.coins.entities import COINS, FirstCoin, SecondCoin


def room(*coins):
    env = build("coins", "world.height=5", "world.width=6")
    place(env, (1, 1), (3, 1))
    for kind, row, column in coins:
        env.world.add((row, column, TOP), kind(env.config.world.coin_value))
    return env


def test_a_coin_of_ones_own_colour_costs_the_other_nothing():
    env = room((FirstCoin, 1, 2))
    assert act(env, 0, "right") == 1.0
    assert act(env, 1, "stay") == 0.0
    assert env.metrics() == {"coins": 1.0, "own_colour": 1.0}


def test_a_coin_of_the_others_colour_costs_the_other():
    env = room((SecondCoin, 1, 2))
    assert act(env, 0, "right") == 1.0
    assert act(env, 1, "stay") == -2.0
    assert env.agents[0].take_given() == 0.0
    assert env.metrics() == {"coins": 1.0, "own_colour": 0.0}


def test_walls_and_agents_stand_in_the_way_and_cost_nothing():
    env = room()
    assert act(env, 0, "up", "left") == 0.0
    assert act(env, 0, "down", "down") == 0.0
    assert env.agents[0].location == (2, 1, TOP)


def test_there_is_one_coin_from_the_first_turn_on_and_both_colours_come():
    env, seen = room(), set()
    for _ in range(30):
        env.world.transition()
        cells = [(kind, cell) for kind in COINS for cell in env.world.cells_of(kind.kind)]
        assert len(cells) == 1
        seen.add(cells[0][0])
        env.world.remove(cells[0][1])
    assert seen == set(COINS)


def test_scripted_agents_pick_what_they_say():
    env = room((SecondCoin, 1, 4))
    cooperate, defect = env.scripted["cooperate"], env.scripted["defect"]
    assert env.agents[0].action_spec.actions[defect(env.agents[0], env.world)] == "right"
    assert env.agents[0].action_spec.actions[cooperate(env.agents[0], env.world)] == "stay"
    assert env.agents[1].action_spec.actions[cooperate(env.agents[1], env.world)] != "stay"


def test_to_a_third_agent_every_coin_is_somebody_elses():
    env = build("coins", "experiment.num_agents=3")
    place(env, (1, 1), (2, 1), (3, 1))
    for column, kind in enumerate(COINS, 2):
        env.world.add((3, column, TOP), kind(1.0))
    assert act(env, 2, "right", "right") == 1.0
    assert [agent.take_given() for agent in env.agents] == [-2.0, -2.0, 0.0]


def test_counts_begin_anew():
    env = play(build("coins"), 60)
    picked = sum(agent.picked for agent in env.agents)
    assert picked > 0
    env.reset()
    assert env.metrics()["coins"] == 0.0
