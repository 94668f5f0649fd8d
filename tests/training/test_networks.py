"""Runs with other networks than an mlp keep every promise: schedules, lanes, actors, deaths, stops, evaluation."""

import os
import signal

import numpy as np
import pytest

import villains
from abreast.models import algorithm
from abreast.models.observation import PlainObservation
from abreast.training.evaluate import evaluate
from abreast.training.learners.hosted import HostedLearners
from fakes import outcome, small_game
from training.checkpoints.test_resume import Stop, left_behind
from training.checkpoints.test_resume import run as run_for_a_while
from training.test_evaluate import whole

LSTMS = "model.algorithm=dqn", "model.network=lstm", "model.n_frames=3", "model.per_agent.1={algorithm: ppo}"
CNNS = "model.algorithm=dqn", "model.network=cnn", "model.per_agent.1={algorithm: ppo}"
OWN = "model.algorithm=iqn", "model.network=own_networks:TwoLayers", "model.per_agent.1={network: cnn}"
ALL = pytest.mark.parametrize("networks", [LSTMS, CNNS, OWN], ids=["lstm", "cnn", "own"])


def sequential(*settings):
    env = small_game(*settings)
    return outcome(env, env.run_experiment)


def parallel(*settings):
    env = small_game(*settings)
    return outcome(env, env.run_experiment_mp)


@ALL
@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.xdist_group("system")
def test_lockstep_is_identical_to_sequential_and_pipelined_to_its_inline_run(networks, order):
    settings = (*networks, "experiment.epochs=9", f"experiment.turn_order={order}", "multiprocessing.num_envs=3")
    alone = sequential(*settings)
    assert parallel(*settings, "multiprocessing.schedule=lockstep") == alone
    if order == "sequential":
        inline = parallel(*settings, "multiprocessing.workers=inline")
        assert parallel(*settings) == inline != alone


@ALL
def test_how_many_actors_share_the_lanes_does_not_matter(networks):
    short = ("experiment.epochs=32", "experiment.max_turns=5", "model.gradient_steps=1", "model.epsilon=0.3")
    split = ((16, 1), (8, 2))
    one, two = (
        sequential(*networks, *short, f"multiprocessing.num_envs={lanes}", f"multiprocessing.num_actors={actors}")
        for lanes, actors in split
    )
    assert one == two


@pytest.mark.xdist_group("system")
def test_killed_learners_change_nothing(caplog):
    mixed = ("model.per_agent.1={algorithm: iqn, network: 'own_networks:TwoLayers'}",)
    settings = (
        *LSTMS[:3],
        *mixed,
        "experiment.epochs=40",
        "multiprocessing.num_envs=2",
        "multiprocessing.num_workers=2",
    )
    calm = parallel(*settings, "multiprocessing.workers=inline")
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGKILL), every_s=0.1, times=3):
        assert parallel(*settings, "multiprocessing.max_restarts=1000") == calm
    assert "SIGKILL, often out of memory" in caplog.text


@ALL
def test_a_run_that_was_stopped_ends_as_one_that_was_not(networks, tmp_path):
    settings = (*networks, "multiprocessing.num_envs=2", "multiprocessing.workers=inline")
    run_for_a_while(tmp_path / "whole", *settings, parallel=True)
    with pytest.raises(Stop):
        run_for_a_while(tmp_path / "stopped", *settings, parallel=True, stop_at=7)
    run_for_a_while(None, *settings, parallel=True, resume=tmp_path / "stopped")
    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")


@ALL
def test_evaluation_is_repeatable_and_leaves_no_trace(networks):
    def trained():
        env = small_game(*networks, "experiment.epochs=4", "multiprocessing.num_envs=2", "model.epsilon=0.5")
        env.run_experiment(animate=False, logging=False)
        return env

    env, left_alone = trained(), trained()
    before = whole(env)
    first = evaluate(env, 5, greedy=True)
    assert whole(env) == before and evaluate(env, 5, greedy=True) == first
    few = evaluate(env, 2, greedy=True)
    assert few.rewards == first.rewards[:2]
    for each in (env, left_alone):
        each.run_experiment(animate=False, logging=False)
    assert whole(env) == whole(left_alone)


@pytest.mark.parametrize(
    ("name", "network"),
    [
        *((name, network) for name in ("dqn", "ppo") for network in ("cnn", "lstm", "own_networks:TwoLayers")),
        ("iqn", "cnn"),
    ],
)
def test_masks_are_heeded_in_choosing_and_in_targets(name, network):
    model = masked_model(name, network)
    rng, lanes = np.random.default_rng(0), [0, 1]
    model.start_epoch_action(epoch=0)
    for _ in range(20):
        masks = np.zeros((2, 4), np.bool_)
        masks[lanes, rng.integers(0, 4, 2)] = masks[lanes, rng.integers(0, 4, 2)] = True
        model.note_masks(lanes, list(masks))
        seen = list(rng.integers(0, 2, (2, 5, 5, 2)).astype(np.uint8))
        actions = model.take_actions(seen, lanes)
        assert masks[lanes, actions].all()
        model.remember_all(seen, actions, [1.0, 0.0], [False, False], lanes)
    model.end_epoch_action(epoch=0)
    assert np.isfinite(model.train_step()["loss"])
    rows = model.memory.trajectory(0, 0)
    assert rows.extras["mask"][np.arange(20), rows.actions].all()


def masked_model(name, network):
    kind = algorithm(name)
    settings = {"algorithm": name, "network": network, "hidden_size": 8, "n_frames": 2, "batch_size": 8}
    seen = PlainObservation((5, 5, 2), np.uint8, 1.0, is_masked=True)
    return kind(seen, 4, kind.Config.parse(settings), np.random.SeedSequence(0), lanes=2)
