"""Rounds: whichever learners die, the result is unchanged."""

import logging
import os
import signal
import time

import pytest

from abreast.training.collect import collect_pass
from abreast.training.learners.process import Train
from abreast.training.system import MARLMultiprocessingSystem
from fakes import outcome, small_game
from promises.strikes import strike


@pytest.mark.parametrize("schedule", [pytest.param("lockstep", marks=pytest.mark.chaos), "pipelined"])
def test_learners_killed_at_random_change_nothing(schedule, caplog):
    caplog.set_level(logging.INFO, "abreast")
    settings = (
        "model.algorithm=dqn",
        "experiment.epochs=24",
        "experiment.num_agents=3",
        "multiprocessing.num_workers=3",
        "multiprocessing.num_envs=2",
        "experiment.train_interval=3",
        "model.adaptive_batch=[8, 64]",
        "model.gradient_steps=2",
    )
    calm_env = small_game(*settings, f"multiprocessing.schedule={schedule}", "multiprocessing.workers=inline")
    calm = outcome(calm_env, calm_env.run_experiment_mp)
    env = small_game(*settings, f"multiprocessing.schedule={schedule}", "multiprocessing.max_restarts=1000")
    with strike(Train, at=range(1, 30, 3)) as struck:
        assert outcome(env, env.run_experiment_mp) == calm
    assert len(struck) >= 5 and caplog.text.count("SIGKILL, often out of memory") >= 5
    assert "goes on from update" in caplog.text


def test_a_frozen_learner_is_killed_and_restarted_and_the_result_is_unchanged(caplog):
    settings = (
        "model.algorithm=dqn",
        "experiment.epochs=10",
        "multiprocessing.num_workers=2",
        "multiprocessing.schedule=lockstep",
    )
    calm_env = small_game(*settings)
    calm = outcome(calm_env, calm_env.run_experiment)
    env = small_game(*settings, "multiprocessing.learner_timeout=0.5", "multiprocessing.max_restarts=1000")
    with strike(Train, at={5}, number=signal.SIGSTOP):
        assert outcome(env, env.run_experiment_mp) == calm
    assert "did nothing for 0.5 s" in caplog.text


def test_two_rounds_that_were_done_but_not_heard_of_are_told_apart_after_a_kill():
    def results(workers):
        env = small_game("model.algorithm=dqn", f"multiprocessing.workers={workers}", "multiprocessing.num_workers=2")
        with MARLMultiprocessingSystem(env, env.agents, env.config) as system:
            learners = system.learners
            for number in range(2):
                collect_pass(env.game, number)
                collect_pass(env.game, number)
                learners.submit(number, 1, [agent.model.memory.written.tolist() for agent in env.agents], 0.0)
            if workers == "processes":
                while any(place.version < 2 for place in learners.published):
                    time.sleep(0.01)  # both rounds are done, and their results were not asked for
                for pid in learners.pids:
                    os.kill(pid, signal.SIGKILL)
            return [learners.finish(number) for number in range(2)]

    first, second = results("inline")
    assert first != second and results("processes") == [first, second]
