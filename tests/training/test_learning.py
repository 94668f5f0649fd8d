"""The agents learn: a shorter version of benchmarks/learning.py, on smaller networks."""

import os
from statistics import fmean

import pytest

from abreast.games import find_game

SLOW = pytest.mark.skipif(not os.environ.get("ABREAST_CHAOS"), reason="15 s: make chaos")
SMALL = ["model.n_frames=1", "model.hidden_size=64", "model.epsilon_decay=0.1"]


def rewards(algorithm, *overrides):
    game = find_game("treasurehunt")
    env = game.build(game.configure(None, [f"model.algorithm={algorithm}", *SMALL, *overrides]))
    return [record["reward"] for record in env.run_experiment(animate=False, logging=False).epochs]


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("dqn", ["experiment.epochs=40", "model.gradient_steps=8"]),
        pytest.param("iqn", ["experiment.epochs=45", "model.gradient_steps=8"], marks=SLOW),
        pytest.param("ppo", ["experiment.epochs=160", "model.gradient_steps=6"], marks=SLOW),
    ],
)
def test_agents_come_to_at_least_three_times_the_reward_of_random_ones(algorithm, settings):
    chance = fmean(rewards("random", "experiment.epochs=150"))
    assert chance > 0
    assert fmean(rewards(algorithm, *settings)[-10:]) > 3 * chance
