"""The agents learn: a shorter version of benchmarks/treasurehunt.py, on smaller networks."""

from statistics import fmean

import pytest

from abreast.games import find_game
from promises.cover import IS_FULL

SLOW = pytest.mark.skipif(not IS_FULL, reason="15 s: make chaos")
SMALL = ["model.n_frames=1", "model.hidden_size=64", "model.epsilon_decay=0.1"]


def rewards(algorithm, *overrides):
    game = find_game("treasurehunt")
    env = game.build(game.configure(None, [f"model.algorithm={algorithm}", *SMALL, *overrides]))
    return [record["reward"] for record in env.run_experiment(animate=False, logging=False).epochs]


@pytest.mark.parametrize(
    ("algorithm", "agents", "epochs", "steps"),
    [
        ("dqn", 2, 30, 8),
        pytest.param("dqn", 5, 40, 8, marks=SLOW),
        pytest.param("iqn", 5, 45, 8, marks=SLOW),
        pytest.param("ppo", 5, 160, 6, marks=SLOW),
    ],
)
def test_agents_come_to_at_least_three_times_the_reward_of_random_ones(algorithm, agents, epochs, steps):
    number = f"experiment.num_agents={agents}"
    chance = fmean(rewards("random", number, "experiment.epochs=60"))
    assert chance > 0
    learned = rewards(algorithm, number, f"experiment.epochs={epochs}", f"model.gradient_steps={steps}")
    assert fmean(learned[-10:]) > 3 * chance
