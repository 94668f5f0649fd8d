"""Free: neither actors nor learners wait."""

import os
import signal
import time

from abreast.training.system import MARLMultiprocessingSystem
from fakes import small_game


def run_with(at, *settings):
    """A free run; `at` has what is called with the learners at the end of an epoch, by the number of epochs before it."""
    env = small_game("model.algorithm=dqn", "multiprocessing.schedule=free", *settings, "experiment.epochs=12")
    due = dict(at)

    def transition():
        if env.turn == 10 and (call := due.pop(env.epochs_played, None)):
            call(system.learners)

    env.world.transition = transition
    with MARLMultiprocessingSystem(env, env.agents, env.config) as system:
        system.run()
    return env


def published(learners, versions, but=None):
    """Wait until these versions of all agents' weights (but one's) are there."""
    while any(place.version < versions for agent, place in enumerate(learners.published) if agent != but):
        time.sleep(0.001)


EACH = "multiprocessing.publish_interval=1"


def test_free_learns_and_ends():
    env = run_with({8: lambda learners: published(learners, 3)}, EACH)
    assert all(agent.model.updates >= 3 for agent in env.agents)


def test_free_keeps_to_its_ratio_of_updates_to_steps():
    ratio = ("multiprocessing.workers=threads", "multiprocessing.max_updates_per_step=0.05")
    env = run_with({9: lambda learners: published(learners, 4)}, EACH, *ratio)
    for agent in env.agents:
        assert 4 <= agent.model.updates <= 0.05 * 120 + 1


def test_a_frozen_learner_does_not_hold_up_the_others_and_its_weights_that_never_move_are_named(monkeypatch, caplog):
    def freeze(learners):
        os.kill(learners.pids[0], signal.SIGSTOP)

    def others_go_on(learners):
        monkeypatch.setattr("abreast.training.learners.free.STALE_S", 0.3)
        newest = max(place.version for place in learners.published)
        time.sleep(0.31)
        published(learners, newest + 1, but=0)

    def be_patient(_):
        monkeypatch.undo()  # other learners may be slow, too

    started = time.monotonic()
    workers = ("experiment.num_agents=3", "multiprocessing.num_workers=3", "multiprocessing.learner_timeout=200")
    env = run_with({2: freeze, 8: others_go_on, 9: be_patient}, EACH, *workers)
    assert time.monotonic() - started < 150  # not the timeout
    updates = [agent.model.updates for agent in env.agents]
    assert min(updates[1:]) > updates[0]
    named = [line for line in caplog.messages if "its weights have stayed at version" in line]
    assert len(named) == 1 and "agent 0" in named[0]


def test_learners_that_are_paused_learn_nothing_until_they_go_on():
    def versions(learners):
        return [place.version for place in learners.published]

    def pause(learners):
        published(learners, 3)
        started = time.monotonic()
        published(learners, max(versions(learners)) + 3)
        enough_s = 3 * (time.monotonic() - started)
        learners.pause(True)
        looks = [versions(learners)]
        while looks[-2:-1] != looks[-1:]:
            assert len(looks) < 10, looks
            time.sleep(enough_s)
            looks.append(versions(learners))
        learners.pause(False)
        published(learners, max(looks[-1]) + 1)

    run_with({8: pause}, EACH)
