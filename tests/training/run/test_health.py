"""Silent faults are named."""

from contextlib import nullcontext

import numpy as np
import pytest

from abreast.models import DQN
from abreast.replay import Buffer
from abreast.training.run.health import symptoms
from fakes import make_model, small_game


def remembers(model, remember):
    """Let a model be of a class of its own, which remembers otherwise."""
    model.__class__ = type("Odd", (type(model),), {"remember": remember})


def blind(env):
    """Nothing reaches the memory of agent 1 but zeros: a buffer that was copied instead of shared."""
    remembers(env.agents[1].model, lambda self, state, *rest: DQN.remember(self, np.zeros_like(state), *rest))


def deaf(env):
    """Agent 1 gets no reward for anything, from a network that says zero to everything."""
    model = env.agents[1].model
    for block in model.blocks().values():
        block.zero_()
    remembers(model, lambda self, state, action, reward, *rest: DQN.remember(self, state, action, 0.0, *rest))


def forgetful(env):
    """Agent 1 puts nothing into its memory."""
    remembers(env.agents[1].model, lambda self, *step: None)


def hasty(env):
    """Every episode of agent 1 is cut after one turn, so that no state has a successor."""
    remembers(env.agents[1].model, lambda self, *step: (DQN.remember(self, *step), self.memory.end_episode(0)))


@pytest.mark.parametrize("workers", ["inline", "threads"])
@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (blind, "states in its memory are all zero"),
        (deaf, "its gradient is zero: it has stopped learning\n"),
        (forgetful, "its memory is empty: does its `remember` call"),
        (hasty, "no row has an outcome: episodes of one turn are cut"),
    ],
)
def test_silent_faults_are_named_once_and_only_where_they_are(harm, says, workers, caplog):
    env = small_game("model.algorithm=dqn", "experiment.epochs=15", f"multiprocessing.workers={workers}")
    harm(env)
    env.run_experiment_mp(animate=False, logging=False)
    assert caplog.text.count(says) == 1 and "agent 1, epoch" in caplog.text
    assert "agent 0, epoch" not in caplog.text


@pytest.mark.parametrize("window", [None, [200]])
@pytest.mark.parametrize("is_cut", [True, False])
def test_the_cause_of_a_zero_gradient_is_looked_for_in_a_ring_that_is_full(is_cut, window):
    """Episodes are longer than what is looked at, so that stacks of frames reach back to rows that are overwritten."""
    model = make_model("dqn", n_frames=5, buffer_capacity=64)
    for number in range(200):
        model.memory.add(np.full(4, number, np.uint8), 0, 0.0, False)
        if is_cut:
            model.memory.end_episode(0)
    with nullcontext() if window is None else model.memory.window(window):
        (found,) = symptoms(model, {"loss": 0.0})
    assert ("no row has an outcome" in found) == is_cut


def test_of_many_lanes_all_are_looked_at_before_anything_is_said():
    model = make_model("dqn")
    model.memory = Buffer(200, (4,), n_frames=2, lanes=10)
    for lane in range(10):
        for _ in range(8):
            model.memory.add(np.full(4, lane == 9, np.uint8), 0, 0.0, False, lane)
    assert not any("all zero" in each for each in symptoms(model, {"loss": 1.0}))
    model.memory.clear()
    for lane in range(10):
        for _ in range(8):
            model.memory.add(np.zeros(4, np.uint8), 0, 0.0, False, lane)
    assert any("the newest 80 states in its memory are all zero" in each for each in symptoms(model, {"loss": 1.0}))


@pytest.mark.parametrize(
    ("name", "says"), [("dqn", "nan: lower"), ("unfit_models:LosesNaN", "nan: look in its own train_")]
)
def test_a_loss_that_is_no_number_is_looked_for_in_the_users_own_code(name, says):
    model = make_model(name)
    model.memory.add(np.ones(4, np.uint8), 0, 0.0, True)
    assert any(f"its loss is {says}" in each for each in symptoms(model, {"loss": float("nan")}))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([], "agents 0, 1 never learned: train_step returned None each time\n"),
        (["experiment.freeze=[1]"], "agent 0 never learned: train_step"),
        (["experiment.epochs=9"], None),
        (["model.batch_size=200"], None),
        (["model.algorithm=random"], None),
        (["model.algorithm=ppo"], None),
    ],
)
def test_agents_that_never_learned_are_named_at_the_end_of_a_run_that_was_long_enough(overrides, said, caplog):
    env = small_game("model.algorithm=unfit_models:LearnsNothing", "experiment.epochs=15", *overrides)
    env.run_experiment(animate=False, logging=False)
    assert ("never learned" in caplog.text) == (said is not None)
    assert said is None or caplog.text.count(said) == 1
