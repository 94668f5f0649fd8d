"""Learners that train several agents in one stacked update."""

import numpy as np
import pytest

from abreast.models import DQN
from abreast.training.learners.base import Trainer, tell_who_learns_alone
from abreast.training.learners.hosted import bound_together
from abreast.training.learners.process import Job
from fakes import outcome, small_game

STACKED = ("model.algorithm=dqn", "experiment.num_agents=4", "experiment.epochs=6", "multiprocessing.schedule=lockstep")
MIXED = "model.per_agent={1: {algorithm: ppo}, 3: {network: lstm}, 4: {hidden_size: 32}, 6: {algorithm: iqn}}"


def models_of(*settings, agents=7):
    env = small_game(*settings, f"experiment.num_agents={agents}")
    return [agent.model for agent in env.agents]


def test_agents_that_are_alike_are_trained_together_the_others_alone():
    models = models_of("model.algorithm=dqn", MIXED)
    assert Trainer(dict(enumerate(models)), 0).groups == [(0, 2, 5), (1,), (3,), (4,), (6,)]
    priority = {agent: models[agent] for agent in (6, 5, 2, 0, 3)}
    assert Trainer(priority, 0).groups == [(6,), (0, 2, 5), (3,)]


def test_how_many_learn_together_does_not_change_what_they_learn(monkeypatch):
    """Stacked or not: to the bit, on a CPU."""
    env = small_game(*STACKED)
    expected = outcome(env, env.run_experiment)
    monkeypatch.setattr("abreast.training.learners.base.stacks_of", lambda models: [])
    env = small_game(*STACKED)
    assert outcome(env, env.run_experiment) == expected


@pytest.mark.parametrize("dies_at", [1, 3])
def test_one_that_dies_between_the_agents_of_a_stack_ends_as_if_it_had_not(dies_at, monkeypatch):
    env = small_game(*STACKED)
    expected = outcome(env, env.run_experiment)
    publish, left = Job.publish, [2]

    def dies(job, model, version, number, result):
        if job.agent == dies_at and number in (2, 4) and left[0]:
            left[0] -= 1
            raise ZeroDivisionError("in the middle of a stack")
        publish(job, model, version, number, result)

    monkeypatch.setattr(Job, "publish", dies)
    env = small_game(*STACKED, "multiprocessing.workers=threads", "multiprocessing.num_workers=1")
    assert outcome(env, env.run_experiment_mp) == expected
    assert left == [0]


def test_on_a_gpu_those_who_learn_together_live_in_one_worker():
    models = models_of("model.algorithm=dqn", MIXED)
    assert bound_together(models, range(7)) == [[agent] for agent in range(7)]  # on a CPU nobody has to
    for model in models:
        model.device = "cuda:0"
    models[5].device = "cuda:1"
    assert bound_together(models, [6, 5, 4, 3, 2, 1, 0]) == [[6], [5], [4], [3], [0, 2], [1]]


def test_who_cannot_learn_with_others_on_a_gpu_is_told(caplog):
    class Own(DQN):
        def descend(self, loss):
            return super().descend(loss * 2)

    models = models_of("model.algorithm=dqn", MIXED)
    models[5] = Own(models[5].observation, 4, models[5].config, np.random.SeedSequence(0))
    tell_who_learns_alone(models)
    assert not caplog.messages  # on a CPU it hardly matters
    for model in models:
        model.device = "cuda:0"
    tell_who_learns_alone(models)
    assert caplog.messages == [
        "agent 3 learns one update at a time on the GPU, not in a stacked update: its network is lstm",
        "agent 5 learns one update at a time on the GPU, not in a stacked update: Own.descend is your own",
    ]
