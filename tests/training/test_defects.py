"""Faults that the first version of the actor–learner system had; each of these tests failed on it.

(a), rows paired with successors of another lap: tests/replay/test_shared.py. These use public names only.
"""

import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

from abreast.games import find_game
from abreast.models import DQN
from abreast.processes.child import parent_pid

SMALL = ["experiment.max_turns=10", "experiment.num_agents=2", "model.hidden_size=16", "model.batch_size=16",
         "model.n_frames=2", "model.algorithm=dqn", "multiprocessing.workers=processes"]  # fmt: skip


def build(*overrides):
    game = find_game("treasurehunt")
    return game.build(game.configure(None, [*SMALL, *overrides]))


class Uneven:
    """Builds environments for other actors whose first lane ends at once, and whose second takes its time."""

    def __call__(self):
        env = build(*UNEVEN)

        def transition():
            env.world.is_done = env.agents[0].lane == 2
            time.sleep(0.2 * (env.agents[0].lane == 3))

        env.world.transition = transition
        return env


UNEVEN = (
    "experiment.epochs=4",
    "multiprocessing.num_envs=4",
    "multiprocessing.num_actors=2",
    "multiprocessing.actor_timeout=1.6",
)


def test_b_an_actor_that_plays_on_in_its_second_lane_is_not_silent(caplog):
    env = build(*UNEVEN, "multiprocessing.max_restarts=0")
    env.factory = Uneven()
    result = env.run_experiment_mp(animate=False, logging=False)
    assert len(result.epochs) == 4 and result.epochs[-1]["time"]["actor_restarts"] == 0


def deaths_of(pid):
    """Where the learners of a process leave a mark when they die. (Children do not see variables set after the first.)"""
    return Path(tempfile.gettempdir(), f"abreast-deaths-{pid}")


class DiesNowAndThen(DQN):
    """Its process is killed before every third update, once each."""

    def train_step(self):
        flag = deaths_of(parent_pid()) / str(self.updates)
        if self.updates % 3 == 2 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train_step()


def test_c_a_learner_that_makes_progress_between_its_deaths_is_not_given_up():
    deaths = deaths_of(os.getpid())
    shutil.rmtree(deaths, ignore_errors=True)
    deaths.mkdir()
    env = build(
        "experiment.epochs=16",
        "experiment.num_agents=1",
        "multiprocessing.max_restarts=2",
        "multiprocessing.schedule=lockstep",
    )
    agent = env.agents[0]
    agent.model = DiesNowAndThen(agent.observation_spec, 4, env.config.model, env.agent_seed(0))
    result = env.run_experiment_mp(animate=False, logging=False)
    restarts = [epoch["time"]["restarts"] for epoch in result.epochs]
    assert not result.given_up and agent.model.updates == 15
    assert restarts == sorted(restarts) and restarts[-1] == len(list(deaths.iterdir())) >= 5
    shutil.rmtree(deaths)


class HangsOnce(DQN):
    """In its third update one instance waits for a signal, in the middle of its work."""

    released = threading.Event()
    waiting = threading.Event()
    went_on = threading.Event()

    def train_step(self):
        if self.updates == 2 and not self.waiting.is_set():
            self.waiting.set()
            self.released.wait(60)
            loss = super().train_step()
            self.went_on.set()
            return loss
        return super().train_step()


class Releases:
    """A logger that lets the hanging thread go on when the last round is finished."""

    def record_epoch(self, epoch, *rest, **more):
        if epoch == 29:
            HangsOnce.released.set()
            HangsOnce.went_on.wait(30)
            time.sleep(0.2)  # it would publish now


def test_d_a_learner_thread_that_was_replaced_publishes_nothing_any_more(tmp_path):
    settings = ("experiment.epochs=30", "experiment.num_agents=1", "multiprocessing.schedule=lockstep")
    env = build(*settings, "multiprocessing.workers=threads", "multiprocessing.learner_timeout=0.5")
    agent = env.agents[0]
    agent.model = HangsOnce(agent.observation_spec, 4, env.config.model, env.agent_seed(0))
    env.run_experiment_mp(animate=False, logger=Releases(), output_dir=tmp_path / "run")
    assert HangsOnce.went_on.is_set()
    assert agent.model.updates == 29, "the state of a thread that was replaced at its third update was taken over"


class HangsInItsWorld:
    """Builds environments for other actors; the first of them hangs once in its world, until it is released."""

    released, waiting, went_on = threading.Event(), threading.Event(), threading.Event()

    def __call__(self):
        env = build(*HANGS)
        transition = env.world.transition

        def hang_once():
            transition()
            if env.turn == 5 and not self.waiting.is_set():
                self.waiting.set()
                self.released.wait(60)
                self.went_on.set()

        env.world.transition = hang_once
        return env


HANGS = (
    "experiment.epochs=12",
    "multiprocessing.num_envs=2",
    "multiprocessing.num_actors=2",
    "multiprocessing.schedule=lockstep",
)


class ReleasesActor:
    """A logger that lets the hanging actor go on in the middle of the run."""

    def record_epoch(self, epoch, *rest, **more):
        if epoch == 5:
            HangsInItsWorld.released.set()
            HangsInItsWorld.went_on.wait(30)
            time.sleep(0.2)  # it would write rows now


def test_an_actor_thread_that_was_replaced_changes_no_row_of_its_successor(tmp_path):
    calm = build(*HANGS)
    expected = [epoch["loss"] for epoch in calm.run_experiment(animate=False, logging=False).epochs]
    env = build(*HANGS, "multiprocessing.workers=threads", "multiprocessing.actor_timeout=0.5")
    env.factory = HangsInItsWorld()
    epochs = env.run_experiment_mp(animate=False, logger=ReleasesActor(), output_dir=tmp_path / "run").epochs
    assert HangsInItsWorld.went_on.is_set()
    assert [epoch["loss"] for epoch in epochs] == expected
    for mine, theirs in zip(env.agents, calm.agents, strict=True):
        for name in ("age", "last", "rewards"):
            rows = [each.model.memory.ring.fields[name][1, :60] for each in (mine, theirs)]
            assert rows[0].tobytes() == rows[1].tobytes(), name
