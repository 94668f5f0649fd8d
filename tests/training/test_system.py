"""The actor-learner system: identical to the sequential run, independent, clean, hard to kill."""

import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from abreast import DQN
from abreast.errors import ConfigError
from abreast.training.config import MPConfig
from abreast.training.learners.base import Trainer
from abreast.training.learners.hosted import assign_agents
from abreast.training.system import MARLMultiprocessingSystem
from fakes import outcome, small_game, timeless

EPOCHS = 20
BASE = (f"experiment.epochs={EPOCHS}", "experiment.num_agents=5")


def sequential(*overrides):
    env = small_game(*BASE, *overrides)
    return outcome(env, env.run_experiment)


def parallel(*overrides, **settings):
    env = small_game(*BASE, *overrides, *(f"multiprocessing.{key}={value}" for key, value in settings.items()))
    return outcome(env, env.run_experiment_mp)


@pytest.fixture(scope="module")
def reference():
    """Outcomes to compare with, computed once."""
    kept = {}

    def of(kind, *overrides, **settings):
        key = (kind, overrides, tuple(settings.items()))
        if key not in kept:
            kept[key] = sequential(*overrides) if kind == "sequential" else parallel(*overrides, **settings)
        return kept[key]

    return of


# ---- identical


@pytest.mark.parametrize(
    ("algorithm", "workers", "count", "mode"),
    [
        ("iqn", "inline", 1, "snapshot"),
        ("iqn", "processes", 2, "double_buffer"),
        ("iqn", "processes", 5, "snapshot"),
        ("dqn", "threads", 5, "double_buffer"),
        ("dqn", "processes", 5, "snapshot"),
        ("ppo", "inline", 1, "snapshot"),
        ("ppo", "processes", 2, "double_buffer"),
    ],
)
@pytest.mark.xdist_group("system")
def test_lockstep_is_identical_to_sequential_and_pipelined_to_its_inline_run(
    algorithm, workers, count, mode, reference
):
    name = f"model.algorithm={algorithm}"
    where = {"workers": workers, "num_workers": count, "mode": mode}
    assert parallel(name, schedule="lockstep", **where) == reference("sequential", name)
    assert parallel(name, schedule="pipelined", **where) == reference(
        "parallel", name, schedule="pipelined", workers="inline"
    )


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
@pytest.mark.xdist_group("system")
def test_lanes_do_not_change_that(workers, reference):
    lanes = ("model.algorithm=dqn", "multiprocessing.num_envs=3", "experiment.train_interval=2")
    assert parallel(*lanes, schedule="lockstep", workers=workers) == reference("sequential", *lanes)
    inline = reference("parallel", *lanes, schedule="pipelined", workers="inline")
    assert parallel(*lanes, schedule="pipelined", workers=workers) == inline


MIXED = ("model.per_agent.0.algorithm=ppo", "model.per_agent.1={algorithm: dqn, hidden_size: 8, epsilon: 0.9}")


@pytest.mark.parametrize("workers", ["inline", "processes"])
@pytest.mark.xdist_group("system")
def test_different_models_in_one_world_do_not_change_that(workers, reference):
    mixed = ("model.algorithm=iqn", *MIXED, "multiprocessing.num_envs=2")
    assert parallel(*mixed, schedule="lockstep", workers=workers) == reference("sequential", *mixed)
    inline = reference("parallel", *mixed, schedule="pipelined", workers="inline")
    assert parallel(*mixed, schedule="pipelined", workers=workers) == inline


FIRST = ("multiprocessing.priority={3: 4, 0: 0.5}", "model.adaptive_batch=[8, 64]", "model.gradient_steps=1")


@pytest.mark.parametrize(("workers", "count"), [("threads", 2), ("processes", 1), ("processes", 3)])
@pytest.mark.xdist_group("system")
def test_who_is_trained_first_and_batches_that_follow_the_backlog_do_not_change_that(workers, count, reference):
    given = ("model.algorithm=dqn", "multiprocessing.num_envs=2", "experiment.train_interval=3")
    assert parallel(*given, *FIRST, schedule="lockstep", workers=workers, num_workers=count) == reference(
        "sequential", *given, *FIRST
    )
    pipelined = reference("parallel", *given, *FIRST, schedule="pipelined", workers="inline")
    assert parallel(*given, *FIRST, schedule="pipelined", workers=workers, num_workers=count) == pipelined
    fixed = reference("parallel", *given, *FIRST[2:], schedule="pipelined", workers="inline")
    assert pipelined != fixed, "or the comparison would be empty"
    assert pipelined == reference("parallel", *given, *FIRST[1:], schedule="pipelined", workers="inline")


def test_the_agent_with_the_highest_priority_is_trained_first_in_a_round(monkeypatch):
    order, train = [], Trainer.train
    monkeypatch.setattr(Trainer, "train", lambda self, group, *rest: order.extend(group) or train(self, group, *rest))
    parallel("model.algorithm=iqn", *FIRST[:1], schedule="lockstep", workers="threads", num_workers=1)
    assert order == [3, 1, 2, 4, 0] * EPOCHS  # (in a stacked update nobody would be first)


def test_agents_are_dealt_to_workers_by_what_they_will_ask_for():
    assert assign_agents([[0], [1], [2], [3], [4]], 2, lambda agent: 1.0) == [[0, 2, 4], [1, 3]]
    assert assign_agents([[3], [0], [1], [2], [4]], 2, lambda agent: 4.0 if agent == 3 else 1.0) == [[3], [0, 1, 2, 4]]
    assert assign_agents([[0, 2], [1], [3]], 2, lambda agent: 1.0) == [[0, 2], [1, 3]]


def test_pipelined_differs_from_lockstep_or_the_comparison_would_be_empty(reference):
    name = "model.algorithm=dqn"
    assert reference("parallel", name, schedule="pipelined", workers="inline") != reference("sequential", name)


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
    lanes = ("multiprocessing.num_envs=12", "model.buffer_capacity=120", "experiment.epochs=24")
    env = small_game(f"model.algorithm={algorithm}", *lanes, "multiprocessing.workers=threads")
    assert env.run_experiment_mp(animate=False, logging=False).epochs[-1]["updates"] > 0


# ---- clean


def children_of(pid):
    """All living descendants of a process."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found += [int(stat.parent.name), *children_of(int(stat.parent.name))]
    return found


SCRIPT = """
import sys, os
sys.path.insert(0, {tests!r})
from fakes import small_game
env = small_game("model.algorithm=dqn", "experiment.epochs={epochs}", "multiprocessing.schedule={schedule}")
{harm}
env.run_experiment_mp(animate=False, output_dir="run")
"""
EXPLODE = """
def explode():
    if env.epochs_played == 3: raise ZeroDivisionError("the world broke")
env.world.transition = explode
"""

ACTORS = """
env = small_game("model.algorithm=dqn", "experiment.epochs=100000", "multiprocessing.num_actors=2")
"""

ENDS = {
    "normal end": ("lockstep", 5, "", None, 0),
    "exception in the environment": ("pipelined", 50, EXPLODE, None, 1),
    "terminated": ("free", 100_000, "", signal.SIGTERM, -signal.SIGTERM),
    "killed with several actors": ("pipelined", 100_000, ACTORS, signal.SIGKILL, -signal.SIGKILL),
    "ctrl-c with several actors": ("pipelined", 100_000, ACTORS, signal.SIGINT, -signal.SIGINT),
}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize(("schedule", "epochs", "harm", "number", "code"), ENDS.values(), ids=ENDS.keys())
@pytest.mark.xdist_group("system")
def test_nothing_is_left_behind(schedule, epochs, harm, number, code, tmp_path):
    """The script has no `if __name__ == '__main__'`: it must not start anew in its children either."""
    script = SCRIPT.format(tests=str(Path(__file__).parent.parent), schedule=schedule, epochs=epochs, harm=harm)
    (tmp_path / "script.py").write_text(script)
    shared_before = set(Path("/dev/shm").iterdir())
    process = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    children = []
    if number is not None:
        metrics = tmp_path / "run" / "metrics.jsonl"
        deadline = time.monotonic() + 60
        while not (metrics.exists() and metrics.read_text().count("\n") > 3):
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.05)
        children = children_of(process.pid)
        assert children
        process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{child}").exists() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert set(Path("/dev/shm").iterdir()) <= shared_before
    assert "resource_tracker" not in errors and "leaked" not in errors


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
    with pytest.raises(
        ConfigError, match="given 2 actors with 1 lanes each, but the environment was made for 1 with 1"
    ):
        MARLMultiprocessingSystem(env, env.agents, MPConfig(num_actors=2))
    with pytest.raises(ConfigError, match=r"multiprocessing\.priority names agent 2, but the last agent is 1"):
        MARLMultiprocessingSystem(env, env.agents, MPConfig(priority={2: 1.0}))


MAIN_SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from fakes import small_game
from abreast.models import DQN

class MyOwn(DQN):
    pass

if __name__ == "__main__":
    env = small_game("model.algorithm=dqn")
    for number, agent in enumerate(env.agents):
        agent.model = MyOwn(agent.observation_spec, 4, env.config.model, env.agent_seed(number))
    env.run_experiment_mp(animate=False, logging=False)
    print("updates", [agent.model.updates for agent in env.agents])
"""


@pytest.mark.xdist_group("system")
def test_a_model_class_of_the_main_script_can_be_trained_elsewhere(tmp_path):
    (tmp_path / "script.py").write_text(MAIN_SCRIPT.format(tests=str(Path(__file__).parent.parent)))
    command = [sys.executable, "script.py"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "updates [2, 2]\n", done.stderr
