"""The actor-learner system: independent learners, and nothing is left behind. (That it is identical: promises/.)"""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from abreast import DQN
from abreast.errors import ConfigError, RunFolderError
from abreast.processes.fork_server import FORK_SERVER
from abreast.training import RunResult
from abreast.training.config import MPConfig
from abreast.training.learners.base import Trainer
from abreast.training.learners.hosted import assign_agents
from abreast.training.system import MARLMultiprocessingSystem
from chaos.leftovers import descendants
from fakes import outcome, small_game, timeless
from guard import running
from promises.cover import IS_FULL

FIRST = ("multiprocessing.priority={3: 4, 0: 0.5}", "model.adaptive_batch=[8, 64]", "model.gradient_steps=1")


def parallel(*overrides, **settings):
    env = small_game(*overrides, *(f"multiprocessing.{key}={value}" for key, value in settings.items()))
    return outcome(env, env.run_experiment_mp)


# ---- identical: promises/test_promises.py


def test_batches_that_follow_the_backlog_change_what_is_learned_and_who_is_trained_first_does_not():
    def learned(*given):
        backlog = ("multiprocessing.num_envs=2", "experiment.train_interval=3", "experiment.num_agents=4")
        return parallel("model.algorithm=dqn", "experiment.epochs=12", *backlog, *given, workers="inline")

    assert learned(*FIRST) == learned(*FIRST[1:]) != learned(*FIRST[2:])


def test_the_agent_with_the_highest_priority_is_trained_first_in_a_round(monkeypatch):
    order, train = [], Trainer.train
    monkeypatch.setattr(Trainer, "train", lambda self, group, *rest: order.extend(group) or train(self, group, *rest))
    five = ("model.algorithm=iqn", "experiment.num_agents=5")
    parallel(*five, *FIRST[:1], schedule="lockstep", workers="threads", num_workers=1)
    assert order == [3, 1, 2, 4, 0] * 3  # (in a stacked update nobody would be first)


def test_agents_are_dealt_to_workers_by_what_they_will_ask_for():
    assert assign_agents([[0], [1], [2], [3], [4]], 2, lambda agent: 1.0) == [[0, 2, 4], [1, 3]]
    assert assign_agents([[3], [0], [1], [2], [4]], 2, lambda agent: 4.0 if agent == 3 else 1.0) == [[3], [0, 1, 2, 4]]
    assert assign_agents([[0, 2], [1], [3]], 2, lambda agent: 1.0) == [[0, 2], [1, 3]]


def test_a_second_run_goes_on_where_the_first_ended():
    def halves(run_name):
        env = small_game("model.algorithm=dqn", "experiment.epochs=5", "multiprocessing.schedule=lockstep")
        return [outcome(env, getattr(env, run_name)) for _ in range(2)]

    assert halves("run_experiment_mp") == halves("run_experiment")


# ---- independent


class Random(DQN):
    """Chooses at random, so that only what it learns from differs."""

    def epsilon_decay(self, rate):
        pass


class Spoilt(Random):
    def remember(self, state, action, reward, *rest):
        super().remember(state, action, reward + 100.0, *rest)


def test_an_agents_weights_do_not_change_by_a_bit_when_anothers_data_does():
    def weights_of_agent_0(spoil):
        env = small_game("model.algorithm=dqn", "multiprocessing.schedule=lockstep", "experiment.num_agents=3")
        env.agents[1].model.__class__ = Spoilt if spoil else Random
        env.agents[1].model.epsilon = 1.0
        outcome(env, env.run_experiment_mp)
        return [agent.model.online_block.values.detach().clone() for agent in env.agents]

    plain, spoilt = weights_of_agent_0(False), weights_of_agent_0(True)
    assert torch.equal(plain[0], spoilt[0]) and torch.equal(plain[2], spoilt[2])
    assert not torch.equal(plain[1], spoilt[1])


# ---- health


def test_metrics_tell_of_restarts_and_lag():
    env = small_game("model.algorithm=dqn", "multiprocessing.schedule=pipelined", "multiprocessing.workers=threads")
    times = [record["time"] for record in env.run_experiment_mp(animate=False, logging=False).epochs]
    assert all(each["restarts"] == 0 and len(each["lag_per_agent"]) == 2 for each in times)
    assert all(0 <= lag <= 2 for each in times for lag in each["lag_per_agent"])
    assert all(len(each["learner_idle_s"]) == 2 for each in times)
    assert all(wait > 0 for wait in times[-1]["learner_idle_s"])


def test_metrics_tell_the_ratio_of_updates_to_steps():
    env = small_game("model.algorithm=dqn", "experiment.epochs=8", "model.batch_size=10")
    for _ in range(2):  # the second run counts anew
        ratios = [r["updates_per_agent_step"] for r in env.run_experiment(animate=False, logging=False).epochs]
        assert ratios == [pytest.approx(0.1)] * 8


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_many_lanes_in_a_small_replay_work(algorithm):
    lanes = (
        "multiprocessing.num_envs=12",
        "model.buffer_capacity=120",
        "experiment.epochs=24",
        "experiment.max_turns=8",
    )
    env = small_game(f"model.algorithm={algorithm}", *lanes, "multiprocessing.workers=threads")
    assert env.run_experiment_mp(animate=False, logging=False).epochs[-1]["updates"] > 0


# ---- clean


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from fakes import small_game

env = small_game("model.algorithm=dqn", "multiprocessing.schedule={schedule}", "experiment.epochs=100000", *{more!r})
env.run_experiment_mp(animate=False, output_dir="run")
"""
ENDS_BY_ITSELF = """
import sys
sys.path.insert(0, {tests!r})
import yaml
from abreast.models import DQN
from fakes import small_game

class MyOwn(DQN):
    pass

if __name__ == "__main__":
    env = small_game("model.algorithm=dqn")
    for number, agent in enumerate(env.agents):
        agent.model = MyOwn(agent.observation_spec, 4, env.config.model, env.agent_seed(number))
    env.run_experiment_mp(animate=False, logging=False)
    print("updates", [agent.model.updates for agent in env.agents])
    env.run_experiment(animate=False, output_dir="run")
    print("algorithm", yaml.safe_load(open("run/config.yaml"))["model"]["per_agent"][1]["algorithm"])
    print("is mine", type(small_game("model.per_agent.1.algorithm=script.py:MyOwn").agents[1].model) is MyOwn)
"""
ACTORS = ["multiprocessing.num_envs=2", "multiprocessing.num_actors=2"]
ENDS = {
    "killed with several actors": ("pipelined", ACTORS, signal.SIGKILL),
    "ctrl-c with several actors": ("pipelined", ACTORS, signal.SIGINT),
    "terminated": ("free", [], signal.SIGTERM),
}
if not IS_FULL:  # test_cli.py and checkpoints/test_resume.py have the others
    ENDS = dict(list(ENDS.items())[:1])
PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")


@contextlib.contextmanager
def started(script, folder):
    """A script in an interpreter of its own, in which nothing is left of it in the end."""
    (folder / "script.py").write_text(script)
    shared_before = set(Path("/dev/shm").iterdir())
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with running([sys.executable, "script.py"], cwd=folder, **piped) as process:
        yield process
    assert set(Path("/dev/shm").iterdir()) <= shared_before


def wait_for(happened, seconds):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


TESTS = str(Path(__file__).parent.parent)


@PROC
@pytest.mark.parametrize(("schedule", "more", "number"), ENDS.values(), ids=ENDS.keys())
def test_nothing_is_left_behind(schedule, more, number, tmp_path):
    """The script has no `if __name__ == '__main__'`: it must not start anew in its children either."""
    metrics = tmp_path / "run" / "metrics.jsonl"
    with started(SCRIPT.format(tests=TESTS, schedule=schedule, more=more), tmp_path) as process:
        wait_for(lambda: process.poll() is not None or (metrics.exists() and "\n" in metrics.read_text()), 120)
        children = descendants(process.pid)
        assert children, process.communicate()
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -number, errors
    wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children), 20)
    assert "resource_tracker" not in errors and "leaked" not in errors


@PROC
@pytest.mark.chaos
def test_a_model_class_of_a_script_is_trained_elsewhere_and_found_by_the_name_of_the_script(tmp_path):
    with started(ENDS_BY_ITSELF.format(tests=TESTS), tmp_path) as process:
        printed, errors = process.communicate(timeout=120)
    assert (process.returncode, printed.splitlines()[0]) == (0, "updates [2, 2]"), errors
    assert printed.splitlines()[-2:] == ["algorithm script.py:MyOwn", "is mine True"]
    assert "resource_tracker" not in errors and "leaked" not in errors


@PROC
@pytest.mark.parametrize("schedule", ["lockstep", "pipelined", "free"])
def test_nothing_is_left_behind_by_an_exception_in_the_environment(schedule):
    env = small_game("model.algorithm=dqn", "experiment.epochs=50", f"multiprocessing.schedule={schedule}")

    def explode():
        if env.epochs_played == 3:
            raise ZeroDivisionError("the world broke")

    env.world.transition = explode
    shared_before = set(Path("/dev/shm").iterdir())
    with pytest.raises(ZeroDivisionError):
        env.run_experiment_mp(animate=False, logging=False)
    assert descendants(FORK_SERVER.pid) == []
    assert set(Path("/dev/shm").iterdir()) <= shared_before


def test_more_workers_than_agents_are_refused():
    env = small_game("multiprocessing.num_workers=9")
    with pytest.raises(ConfigError, match="num_workers is 9, but there are 2 agents"):
        MARLMultiprocessingSystem(env, env.agents, env.config)


def test_a_system_can_be_run_by_hand():
    env = small_game("model.algorithm=dqn", "multiprocessing.schedule=lockstep", "multiprocessing.workers=threads")
    system = MARLMultiprocessingSystem(env, env.agents, env.config)
    system.start()
    epochs = system.run()
    system.stop()
    other = small_game("model.algorithm=dqn")
    assert timeless(epochs) == timeless(other.run_experiment(animate=False, logging=False).epochs)


@pytest.mark.parametrize(("workers", "written"), [("inline", []), ("threads", ["y"])])
def test_a_system_by_hand_equals_run_experiment_mp_and_writes_only_what_is_asked_for(
    workers, written, tmp_path, monkeypatch
):
    small = ("model.algorithm=dqn", "multiprocessing.schedule=lockstep", f"multiprocessing.workers={workers}")
    small_game("experiment.seed=7", *small).run_experiment(animate=False, output_dir=tmp_path / "x")
    monkeypatch.chdir(tmp_path)
    settings = [*small, f'experiment.load_agents={{"0": "{tmp_path / "x"}"}}', "experiment.freeze=[1]"]
    threads = set()

    def run_by_hand(**_):
        with MARLMultiprocessingSystem(env, env.agents, env.config) as system:
            return RunResult(system.run(output_dir=tmp_path / written[0] if written else None), None)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        env = small_game(*settings)
        env.world.transition = lambda: threads.add(torch.get_num_threads())
        by_hand = outcome(env, run_by_hand)
        assert (threads, torch.get_num_threads()) == ({1}, 2)
    finally:
        torch.set_num_threads(before)
    env = small_game(*settings)
    env.world.transition = lambda: None
    assert by_hand == outcome(env, env.run_experiment_mp)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", *written]
    env = small_game(*small, 'experiment.load_agents={"0": "nowhere"}')
    with pytest.raises(RunFolderError, match="nowhere is not a run folder"):
        MARLMultiprocessingSystem(env, env.agents, env.config).start()


def test_a_system_may_run_twice():
    def halves(run):
        return [record["loss"] for _ in range(2) for record in run()]

    env = small_game("model.algorithm=dqn", "multiprocessing.schedule=lockstep", "multiprocessing.workers=threads")
    with MARLMultiprocessingSystem(env, env.agents, env.config) as system:
        twice = halves(system.run)
    other = small_game("model.algorithm=dqn")
    assert twice == halves(lambda: other.run_experiment(animate=False, logging=False).epochs)


def test_a_configuration_with_other_lanes_than_the_environment_was_made_for_is_refused():
    env = small_game()
    with pytest.raises(ConfigError, match="given 2 lanes and 2 actors, but the environment was made for 1 and 1"):
        MARLMultiprocessingSystem(env, env.agents, MPConfig(num_envs=2, num_actors=2))
    with pytest.raises(ConfigError, match=r"multiprocessing\.priority names agent 2, but the last agent is 1"):
        MARLMultiprocessingSystem(env, env.agents, MPConfig(priority={2: 1.0}))
