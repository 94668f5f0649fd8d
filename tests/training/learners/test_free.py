"""Free: neither actors nor learners wait."""

import os
import signal
import time

import pytest

import villains
from abreast.training.learners.hosted import HostedLearners
from fakes import small_game


def test_free_learns_and_ends():
    env = small_game("model.algorithm=dqn", "experiment.epochs=400", "multiprocessing.schedule=free")
    env.run_experiment_mp(animate=False, logging=False)
    assert all(agent.model.updates > 0 for agent in env.agents)


def test_free_keeps_to_its_ratio_of_updates_to_steps():
    env = small_game(
        "model.algorithm=dqn", "experiment.epochs=200", "multiprocessing.schedule=free", "multiprocessing.workers=threads",
        "multiprocessing.max_updates_per_step=0.05",
    )  # fmt: skip
    env.run_experiment_mp(animate=False, logging=False)
    for agent in env.agents:
        assert 0 < agent.model.updates <= 0.05 * 2000 + 1


@pytest.mark.xdist_group("system")
def test_a_frozen_learner_does_not_hold_up_the_others_in_free():
    env = small_game(
        "model.algorithm=dqn", "experiment.epochs=100", "experiment.num_agents=5", "multiprocessing.num_workers=5",
        "multiprocessing.schedule=free", "multiprocessing.learner_timeout=60", "multiprocessing.publish_interval=1",
    )  # fmt: skip
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGSTOP), every_s=0.02, times=1, when_up=True):
        started = time.monotonic()
        env.run_experiment_mp(animate=False, logging=False)
        assert time.monotonic() - started < 50  # not the timeout
    updates = sorted(agent.model.updates for agent in env.agents)
    assert updates[1] > updates[0] and updates[1] > 0


@pytest.mark.xdist_group("system")
def test_weights_that_never_move_are_named(monkeypatch, caplog):
    monkeypatch.setattr("abreast.training.learners.free.STALE_S", 0.3)
    env = small_game(
        "model.algorithm=dqn", "experiment.epochs=400", "multiprocessing.num_workers=2", "multiprocessing.schedule=free",
        "multiprocessing.publish_interval=1", "multiprocessing.learner_timeout=60",
    )  # fmt: skip
    env.world.transition = lambda: time.sleep(0.0005)  # the run lasts a few seconds
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGSTOP), every_s=0.3, times=1, when_up=True):
        env.run_experiment_mp(animate=False, logging=False)
    named = [line for line in caplog.messages if "its weights have stayed at version" in line]
    assert len(named) == 1
