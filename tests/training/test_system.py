"""The actor-learner system: identical to the sequential run, independent, clean, hard to kill."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import villains
from abreast.errors import ConfigError, WorkerError
from abreast.models import BaseModel
from abreast.training import parse_config
from abreast.training.collect import collect_pass
from abreast.training.config import MPConfig
from abreast.training.learners.hosted import HostedLearners
from abreast.training.run.display import ProgressDisplay
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


@pytest.mark.parametrize("mode", ["snapshot", "double_buffer"])
@pytest.mark.parametrize(
    ("workers", "count"),
    [("inline", 1), ("threads", 1), ("threads", 5), ("processes", 1), ("processes", 2), ("processes", 5)],
)
@pytest.mark.parametrize("algorithm", ["iqn", "dqn", "ppo"])
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


def test_pipelined_differs_from_lockstep_or_the_comparison_would_be_empty(reference):
    name = "model.algorithm=dqn"
    assert reference("parallel", name, schedule="pipelined", workers="inline") != reference("sequential", name)


def test_a_second_run_goes_on_where_the_first_ended():
    def halves(run_name):
        env = small_game("model.algorithm=dqn", "experiment.epochs=5", "multiprocessing.schedule=lockstep")
        return [outcome(env, getattr(env, run_name)) for _ in range(2)]

    assert halves("run_experiment_mp") == halves("run_experiment")


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


# ---- independent


def test_an_agents_weights_do_not_change_by_a_bit_when_anothers_data_does():
    def weights_of_agent_0(spoil):
        env = small_game("model.algorithm=dqn", "multiprocessing.schedule=lockstep", "experiment.num_agents=3")
        remember = env.agents[1].model.remember
        if spoil:
            env.agents[1].model.remember = lambda s, a, reward, *rest: remember(s, a, reward + 100.0, *rest)
        # Agent 1 chooses at random, so that only what it learns from differs.
        env.agents[1].model.epsilon_decay = lambda rate: None
        env.agents[1].model.epsilon = 1.0
        outcome(env, env.run_experiment_mp)
        return [agent.model.online_block.values.detach().clone() for agent in env.agents]

    plain, spoilt = weights_of_agent_0(False), weights_of_agent_0(True)
    assert torch.equal(plain[0], spoilt[0]) and torch.equal(plain[2], spoilt[2])
    assert not torch.equal(plain[1], spoilt[1])


# ---- survives


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined"])
@pytest.mark.xdist_group("system")
def test_learners_killed_at_random_change_nothing(schedule, caplog):
    caplog.set_level(logging.INFO, "abreast")
    settings = (
        "model.algorithm=dqn",
        "experiment.epochs=150",
        "experiment.num_agents=3",
        "multiprocessing.num_workers=3",
    )
    calm_env = small_game(*settings, f"multiprocessing.schedule={schedule}", "multiprocessing.workers=inline")
    calm = outcome(calm_env, calm_env.run_experiment_mp)
    env = small_game(*settings, f"multiprocessing.schedule={schedule}", "multiprocessing.max_restarts=1000")
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGKILL), every_s=0.04, times=30):
        assert outcome(env, env.run_experiment_mp) == calm
    assert caplog.text.count("SIGKILL, often out of memory") >= 10
    assert "goes on from update" in caplog.text


@pytest.mark.xdist_group("system")
def test_a_frozen_learner_is_killed_and_restarted_and_the_result_is_unchanged(caplog):
    settings = (
        "model.algorithm=dqn",
        "experiment.epochs=60",
        "multiprocessing.num_workers=2",
        "multiprocessing.schedule=lockstep",
    )
    calm_env = small_game(*settings)
    calm = outcome(calm_env, calm_env.run_experiment)
    env = small_game(*settings, "multiprocessing.learner_timeout=1.0")
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGSTOP), every_s=0.05, times=1):
        assert outcome(env, env.run_experiment_mp) == calm
    assert "did nothing for 1 s" in caplog.text


@pytest.mark.xdist_group("system")
def test_a_frozen_learner_does_not_hold_up_the_others_in_free():
    env = small_game(
        "model.algorithm=dqn", "experiment.epochs=400", "experiment.num_agents=5", "multiprocessing.num_workers=5",
        "multiprocessing.schedule=free", "multiprocessing.learner_timeout=60", "multiprocessing.publish_interval=1",
    )  # fmt: skip
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGSTOP), every_s=0.02, times=1):
        started = time.monotonic()
        env.run_experiment_mp(animate=False, logging=False)
        assert time.monotonic() - started < 50  # not the timeout
    updates = sorted(agent.model.updates for agent in env.agents)
    assert updates[1] > updates[0] and updates[1] > 0


def with_villain(kind, *overrides):
    env = small_game("model.algorithm=dqn", "experiment.epochs=8", "experiment.num_agents=3", *overrides)
    agent = env.agents[1]
    agent.model = kind(agent.observation_spec, 4, env.config.model, env.agent_seed(1))
    return env


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined", "free"])
@pytest.mark.parametrize("kind", [villains.RaisesInTraining, villains.KillsItself], ids=lambda kind: kind.__name__)
@pytest.mark.xdist_group("system")
def test_a_villain_is_given_up_and_the_others_finish(kind, schedule, caplog):
    env = with_villain(
        kind, "multiprocessing.max_restarts=2", "multiprocessing.num_workers=3", f"multiprocessing.schedule={schedule}",
        "experiment.epochs=400" if schedule == "free" else "experiment.epochs=8", "multiprocessing.publish_interval=1",
    )  # fmt: skip
    result = env.run_experiment_mp(animate=False, logging=False)
    assert list(result.given_up) == [1]
    assert "was restarted 2 times already: given up" in str(result.given_up[1])
    assert env.agents[0].model.updates > 2 and env.agents[2].model.updates > 2
    assert env.agents[1].model.updates <= 2
    if kind is villains.RaisesInTraining:
        assert "a villain divides by zero" in str(result.given_up[1].__cause__)


@pytest.mark.xdist_group("system")
def test_a_villain_among_others_in_one_process_is_given_up_alone():
    env = with_villain(
        villains.RaisesInTraining,
        "multiprocessing.num_workers=1",
        "multiprocessing.schedule=lockstep",
        "multiprocessing.max_restarts=1",
    )
    result = env.run_experiment_mp(animate=False, logging=False)
    assert list(result.given_up) == [1]
    assert [agent.model.updates for agent in env.agents] == [7, 2, 7]


@pytest.mark.xdist_group("system")
def test_a_hanging_villain_shows_where_it_hangs(caplog):
    env = with_villain(
        villains.HangsInTraining, "multiprocessing.learner_timeout=0.7", "multiprocessing.max_restarts=0",
        "multiprocessing.num_workers=3", "multiprocessing.schedule=lockstep",
    )  # fmt: skip
    result = env.run_experiment_mp(animate=False, logging=False)
    assert "villains.py" in str(result.given_up[1]) and "train_step" in str(result.given_up[1])


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


@pytest.mark.xdist_group("system")
def test_weights_that_never_move_are_named(monkeypatch, caplog):
    monkeypatch.setattr("abreast.training.learners.free.STALE_S", 0.3)
    env = small_game(
        "model.algorithm=dqn", "experiment.epochs=400", "multiprocessing.num_workers=2", "multiprocessing.schedule=free",
        "multiprocessing.publish_interval=1", "multiprocessing.learner_timeout=60",
    )  # fmt: skip
    env.world.transition = lambda: time.sleep(0.0005)  # the run lasts a few seconds
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGSTOP), every_s=0.3, times=1):
        env.run_experiment_mp(animate=False, logging=False)
    named = [line for line in caplog.messages if "its weights have stayed at version" in line]
    assert len(named) == 1


def test_the_display_shows_the_health_of_the_learners():
    env = small_game("model.algorithm=dqn", "multiprocessing.workers=threads")
    record = env.run_experiment_mp(animate=False, logging=False).epochs[-1]
    console = Console(width=160)
    with console.capture() as shown:
        display = ProgressDisplay(3)
        display.show(record)
        console.print(display._table(record))
    text = shown.get()
    assert "0 restarts" in text and "versions behind:" in text
    assert "updates a step" in text and "waits: actor" in text


def blind(env):
    """Nothing reaches the memory of agent 1 but zeros: a buffer that was copied instead of shared."""
    remember = env.agents[1].model.remember
    env.agents[1].model.remember = lambda state, *rest: remember(np.zeros_like(state), *rest)


def deaf(env):
    """Agent 1 gets no reward for anything, from a network that says zero to everything."""
    model = env.agents[1].model
    for block in model.blocks().values():
        block.zero_()
    remember = model.remember
    model.remember = lambda state, action, reward, *rest: remember(state, action, 0.0, *rest)


@pytest.mark.parametrize("workers", ["inline", "threads"])
@pytest.mark.parametrize(
    ("harm", "says"), [(blind, "states in its memory are all zero"), (deaf, "its gradient is zero")]
)
def test_silent_faults_are_named_once_and_only_where_they_are(harm, says, workers, caplog):
    env = small_game("model.algorithm=dqn", "experiment.epochs=15", f"multiprocessing.workers={workers}")
    harm(env)
    env.run_experiment_mp(animate=False, logging=False)
    assert caplog.text.count(says) == 1 and "agent 1, epoch" in caplog.text
    assert "agent 0, epoch" not in caplog.text


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_many_lanes_in_a_small_replay_work(algorithm):
    lanes = ("multiprocessing.num_envs=12", "model.buffer_capacity=120", "experiment.epochs=24")
    env = small_game(f"model.algorithm={algorithm}", *lanes, "multiprocessing.workers=threads")
    assert env.run_experiment_mp(animate=False, logging=False).epochs[-1]["updates"] > 0


# ---- what cannot be pickled


@pytest.mark.xdist_group("system")
def test_worlds_and_agents_with_lambdas_and_open_files_work():
    env = with_villain(villains.Unpicklable, "multiprocessing.schedule=lockstep")
    env.world.secret = lambda: None
    env.agents[0].file = open(os.devnull)  # noqa: SIM115, PTH123
    env.run_experiment_mp(animate=False, logging=False)
    assert env.agents[1].model.updates > 2


class Tabular(BaseModel):
    """A foreign model: no network of ours; learns how often it was rewarded."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.values = np.zeros(self.n_actions)

    def take_action(self, state, lane=0):
        return int(self.values.argmax()) if self.choosing_rng.random() > 0.3 else int(self.choosing_rng.integers(4))

    def train_step(self):
        batch = self.memory.sample(8)
        np.add.at(self.values, batch.actions, batch.rewards)
        self.updates += 1
        return float(batch.rewards.mean())

    def save(self, path):
        """Nothing to keep."""


def with_foreign(kind, *overrides):
    env = small_game("model.algorithm=dqn", *overrides)
    for index, agent in enumerate(env.agents):
        agent.model = kind(agent.observation_spec, 4, env.config.model, env.agent_seed(index))
    return env


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
@pytest.mark.xdist_group("system")
def test_a_foreign_model_learns_elsewhere_with_the_same_result(workers):
    def result(run_name):
        env = with_foreign(Tabular, "multiprocessing.schedule=lockstep", f"multiprocessing.workers={workers}")
        epochs = timeless(getattr(env, run_name)(animate=False, logging=False).epochs)
        return epochs, [agent.model.values.tolist() for agent in env.agents]

    assert result("run_experiment_mp") == result("run_experiment")


def test_a_foreign_model_that_cannot_be_sent_is_refused_before_anything_starts(tmp_path):
    class Secretive(Tabular):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.secret = lambda: None

    env = with_foreign(Secretive)
    with pytest.raises(ConfigError, match=r"the model of agent 0 \(Secretive\) cannot be sent to a learner process"):
        env.run_experiment_mp(output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


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
    "ctrl-c": ("pipelined", 100_000, "", signal.SIGINT, -signal.SIGINT),
    "terminated": ("free", 100_000, "", signal.SIGTERM, -signal.SIGTERM),
    "killed": ("pipelined", 100_000, "", signal.SIGKILL, -signal.SIGKILL),
    "killed in free": ("free", 100_000, "", signal.SIGKILL, -signal.SIGKILL),
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


# ---- settings


def test_settings_are_found_in_either_spelling():
    modern = MPConfig.from_experiment_config(
        {"multiprocessing": {"enabled": True, "schedule": "free", "num_workers": 2}}
    )
    older = MPConfig.from_experiment_config({"parallel": {"enabled": True, "async_learning": True, "num_workers": 2}})
    assert modern == older
    threads = MPConfig.from_experiment_config({"parallel": {"use_threads": True, "async_learning": False}})
    assert (threads.workers, threads.schedule) == ("threads", "lockstep")
    assert MPConfig.from_experiment_config({"parallel": {"parallel_training": False}}).workers == "inline"


def test_parallel_overrides_reach_what_they_override():
    config = parse_config(
        {"multiprocessing": {"buffer_capacity": 2000, "batch_size": 32, "learning_rate": 0.5, "train_interval": 4}}
    )
    assert (config.model.buffer_capacity, config.model.batch_size, config.model.learning_rate) == (2000, 32, 0.5)
    assert config.experiment.train_interval == 4


def test_more_workers_than_agents_are_refused():
    env = small_game("multiprocessing.num_workers=9")
    with pytest.raises(ConfigError, match="num_workers is 9, but there are 2 agents"):
        MARLMultiprocessingSystem(env, env.agents, env.config)


@pytest.mark.xdist_group("system")
def test_when_every_learner_is_given_up_the_run_says_so():
    env = with_villain(villains.RaisesInTraining, "experiment.num_agents=2", "multiprocessing.max_restarts=0")
    env.agents[0].model = villains.RaisesInTraining(
        env.agents[0].observation_spec, 4, env.config.model, env.agent_seed(0)
    )
    with pytest.raises(WorkerError, match="every learner has been given up"):
        env.run_experiment_mp(animate=False, logging=False)


@pytest.mark.xdist_group("system")
def test_two_rounds_that_were_done_but_not_heard_of_are_told_apart_after_a_kill():
    def results(workers):
        env = small_game("model.algorithm=dqn", f"multiprocessing.workers={workers}", "multiprocessing.num_workers=2")
        with MARLMultiprocessingSystem(env, env.agents, env.config) as system:
            learners = system.learners
            for number in range(2):
                collect_pass(env.game, number)
                collect_pass(env.game, number)
                learners.submit(number, 1)
            if workers == "processes":
                while any(place.version < 2 for place in learners.published):
                    time.sleep(0.01)  # both rounds are done, and nobody has asked for their results
                for pid in learners.pids:
                    os.kill(pid, signal.SIGKILL)
            return [learners.finish(number) for number in range(2)]

    first, second = results("inline")
    assert first != second and results("processes") == [first, second]


def test_a_system_can_be_run_by_hand():
    env = small_game("model.algorithm=dqn", "multiprocessing.schedule=lockstep", "multiprocessing.workers=threads")
    system = MARLMultiprocessingSystem(env, env.agents, env.config)
    system.start()
    epochs = system.run()
    system.stop()
    other = small_game("model.algorithm=dqn")
    assert timeless(epochs) == timeless(other.run_experiment(animate=False, logging=False).epochs)


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
