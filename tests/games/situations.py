"""Small hand-made situations of games whose agents walk."""

import pytest

from abreast.errors import AbreastError
from abreast.games import find_game

TOP = 1


def build(name, *overrides):
    game = find_game(name)
    return game.build(game.configure(None, ["model.algorithm=random", *overrides]))


def place(env, *cells):
    """Put the agents into these cells (row, column), and nothing else where they stood."""
    for agent in env.agents:
        env.world.remove(agent.location)
    for agent, cell in zip(env.agents, cells, strict=True):
        env.world.add((*cell, TOP), agent)


def act(env, number, *actions):
    """Let an agent act; returns the reward of the last action, with what it was given before."""
    agent = env.agents[number]
    for action in actions:
        reward = agent.act_for_reward(env.world, agent.action_spec.actions.index(action))
    return reward


def play(env, turns):
    """Some turns, as the agents' models choose."""
    env.reset()
    for _ in range(turns):
        env.take_turn()
    return env


def refused(name, *overrides):
    """The sentence with which settings are refused."""
    with pytest.raises(AbreastError) as error:
        build(name, *overrides)
    return str(error.value)
