"""Worker processes: their messages, their lives, their ends."""

import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import villain_envs
from abreast.processes.backend import NOWHERE
from abreast.rollouts import EnvStateManager, register
from abreast.rollouts.episodes.episode import BUILD_S, TurnResult
from abreast.rollouts.workers.worker import AT_ANSWERS, read_answers, rollout_process
from guard import running
from rollout_helpers import (
    CALM,
    go,
    kill,
    settings,
    villain,
    workers,
)
from villain_envs import CountingConfig

METHODS = ["fork", "spawn", "forkserver"]
CHAOS = os.environ.get("ABREAST_CHAOS") == "1"
pytestmark = pytest.mark.xdist_group("rollouts: workers")


def test_long_actions_and_long_states_do_not_block_each_other():
    custom = villain("Counting", padding=10_000_000)
    with EnvStateManager(workers(["Counting"], [3], custom, max_workers=1)) as manager:
        manager.reset(seed=0)
        for env_id in range(3):
            manager.send(go([env_id], "x" * 1_000_000))
        outputs = manager.recv(min_ready=3)
        assert [len(cache["history"][-1]["state"]) > 10_000_000 for cache in outputs] == [True] * 3


def test_a_stopped_worker_that_does_not_read_is_replaced():
    with EnvStateManager(workers(["Calm"], [2], CALM, max_workers=1, step_timeout=0.7)) as manager:
        manager.reset(seed=0)
        os.kill(manager.worker_pids[0], signal.SIGSTOP)
        assert len(manager.step(go(range(2), "x" * 1_000_000))) == 2


def test_a_worker_stopped_in_the_middle_of_an_answer_does_not_hold_up_the_manager():
    custom = villain("Counting", padding=10_000_000)
    with EnvStateManager(workers(["Counting"], [1], custom, max_workers=1, step_timeout=1.0)) as manager:
        manager.reset(seed=0)
        manager.send(go([0], "a"))
        time.sleep(0.3)  # it is writing, and nobody reads
        os.kill(manager.worker_pids[0], signal.SIGSTOP)
        started = time.monotonic()
        manager.recv(timeout=0.2)
        assert time.monotonic() - started < 10  # it used to be for ever
        assert len(manager.recv() if manager.pending else [1]) == 1


def test_an_import_that_takes_longer_than_a_turn_may(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text(
        f"import os, time\nfrom villain_envs import Counting\nif os.getpid() != {os.getpid()}: time.sleep(1.4)\n"
        "class Slow(Counting): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("slow_to_import")
    register("slow_to_import", config=CountingConfig)(module.Slow)
    custom = {"Slow": {"env_type": "slow_to_import"}}
    with EnvStateManager(workers(["Slow"], [2], custom, step_timeout=0.7)) as manager:
        manager.reset(seed=0)
        assert {env.worker for env in manager.envs} == {0, 1}


@pytest.mark.parametrize("method", METHODS if CHAOS else ["forkserver"])
def test_workers_outlive_the_thread_that_started_them(method):
    with EnvStateManager(workers(["Calm"], [2], CALM, start_method=method)) as manager:
        thread = threading.Thread(target=manager.reset, kwargs={"seed": 0})
        thread.start()
        thread.join()
        pids = manager.worker_pids
        time.sleep(0.2)
        assert len(manager.step(go(range(2), "a"))) == 2
        assert manager.worker_pids == pids


ORPHANS = """
import sys, time
sys.path.insert(0, {tests!r})
from abreast.rollouts import EnvStateManager
from rollout_helpers import go, settings, villain
import villain_envs
if __name__ == "__main__":
    custom = villain("Counting", seconds=30.0)
    config = settings(["Counting"], [2], 1, custom, use_multiprocessing=True, max_workers=2, start_method={method!r})
    manager = EnvStateManager(config)
    manager.reset(seed=0)
    manager.send(go(range(2), "a"))
    print(*manager.worker_pids, flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("method", METHODS if CHAOS else ["spawn"])
def test_workers_die_with_a_killed_parent_in_the_middle_of_a_turn(method, tmp_path):
    tests = str(Path(__file__).parent.parent.parent)
    (tmp_path / "script.py").write_text(ORPHANS.format(tests=tests, method=method))
    with running([sys.executable, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_managers_that_start_in_threads_leave_the_main_module_alone():
    main = sys.modules["__main__"]

    def start():
        with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
            manager.reset(seed=0)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.modules["__main__"] is main


GUARDLESS = """
import sys
from abreast import EnvStateManager
from abreast.rollouts import register
from rollout_helpers import settings
from villain_envs import Counting, CountingConfig

@register("own", config=CountingConfig)
class Own(Counting): pass

config = settings(["Own"], [2], 1, {"Own": {"env_type": "own"}}, use_multiprocessing=True, max_workers=1)
EnvStateManager(config).reset(seed=0)
"""


def test_a_script_without_a_guard_is_told_what_to_do(tmp_path):
    (tmp_path / "script.py").write_text(GUARDLESS)
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent.parent), *sys.path])}
    done = subprocess.run(
        [sys.executable, "script.py"], check=False, cwd=tmp_path, env=surroundings, capture_output=True, timeout=100
    )
    told = (
        "rollout worker 0 could not start: WorkerError: a worker cannot have workers of its own; it imports your script"
    )
    assert told in done.stderr.decode().splitlines()[-1]


def test_workers_that_are_replaced_leave_neither_sockets_nor_threads():
    threads = threading.active_count()
    with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
        manager.reset(seed=0)
        open_files = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            os.kill(manager.worker_pids[0], signal.SIGSTOP)  # so that it cannot answer before it is killed
            manager.send([{"env_id": 0, "actions": ["x" * 3_000_000]}])
            kill(manager.worker_pids[0])
            manager.recv()
        assert len(list(Path("/proc/self/fd").iterdir())) <= open_files
    deadline = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() == threads


def test_no_worker_outlives_the_manager():
    config = settings(["Calm"], [4], 1, CALM, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        pids = manager.worker_pids
        manager.send(go(range(4), "a"))
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


# ---- obeying orders, without a process


class Context:
    """Stands for the connection to the main process."""

    number = 0

    def __init__(self):
        self.beats, self.answers = [], []

    def beat(self, at=NOWHERE, allow_s=0.0):
        self.beats.append((at, allow_s))

    def answer(self, key, value, last=True):
        self.answers.append((key, read_answers(value), last))


def recipe(name, **config):
    env = getattr(villain_envs, name)
    return pickle.dumps((env, CountingConfig(**config)))


def test_one_order_builds_starts_and_takes_turns_and_is_answered_once():
    context = Context()
    work = rollout_process(context, None)
    work.obey(
        1,
        (
            [(4, None, 9), (5, ["a"], 9)],
            dict.fromkeys((4, 5), recipe("Counting")),
            dict.fromkeys((4, 5), (7, (), None)),
            set(),
            True,
            False,
        ),
    )
    ((key, answers, last),) = context.answers
    assert (key, last) == (1, True) and [answer[0] for answer in answers] == [4, 5]
    results = [TurnResult(*answer[1]) for answer in answers]
    assert [result.state[:7] for result in results] == ["0 steps", "1 steps"]
    assert [answer[2][0] for answer in answers] == [0, 1], "a rebuild comes with a digest"
    assert {at for at, _ in context.beats} == {NOWHERE, AT_ANSWERS, 4, 5} and context.beats[-1] == (NOWHERE, 0.0)
    assert (4, BUILD_S) in context.beats, "making an environment may take long"


def test_what_cannot_be_pickled_or_made_is_answered_with_the_reason_and_the_rest_as_usual():
    context = Context()
    work = rollout_process(context, None)
    recipes = [recipe("Counting"), recipe("ReturnsUnpicklable", harm_at=1), b"no pickle"]
    starts = dict.fromkeys(range(3), (0, (), None))
    work.obey(
        "key", ([(number, ["a"], 9) for number in range(3)], dict(enumerate(recipes)), starts, set(), True, False)
    )
    ((_, answers, _),) = context.answers
    assert [isinstance(fields, str) for _, fields, _ in answers] == [False, True, True]
    assert (
        "cannot be sent" in answers[1][1]
        and "<lambda> is none of" in answers[1][1]
        and "cannot be unpickled" in answers[2][1]
    )


def test_answers_that_are_waited_for_one_by_one_are_not_held_back_by_a_slow_turn():
    context = Context()
    work = rollout_process(context, None)
    recipes = dict.fromkeys(range(3), recipe("Counting", seconds=0.01))
    starts = dict.fromkeys(range(3), (0, (), None))
    work.obey(1, ([(n, None, 9) for n in range(3)], recipes, starts, set(), False, False))
    context.answers.clear()
    work.obey(2, ([(n, ["a"], 9) for n in range(3)], {}, {}, set(), False, False))
    assert [(len(value), last) for _, value, last in context.answers] == [(1, False), (1, False), (1, True)]
    context.answers.clear()
    work.obey(3, ([(n, ["a"], 9) for n in range(3)], {}, {}, set(), True, False))
    assert [(len(value), last) for _, value, last in context.answers] == [(3, True)]


def test_a_replay_that_fails_is_the_result_of_the_turn():
    context = Context()
    work = rollout_process(context, None)
    work.obey(
        1, ([(0, ["a"], 9)], {0: recipe("Counting")}, {0: (7, (["a"],), (1, b"another digest"))}, set(), True, False)
    )
    ((_, ((_, fields, _),), _),) = context.answers
    assert "came to another state" in TurnResult(*fields).failure


def test_turns_of_which_one_has_killed_a_worker_are_answered_while_their_environment_is_at_work():
    context = Context()
    work = rollout_process(context, None)
    recipes, starts = dict.fromkeys((4, 5), recipe("Counting")), dict.fromkeys((4, 5), (7, (), None))
    at = []
    context.answer = lambda key, value, last=True: at.append((context.beats[-1][0], len(read_answers(value)), last))
    work.obey(1, ([(4, ["a"], 9), (5, ["a"], 9)], recipes, starts, {5}, True, False))
    assert at == [(4, 1, False), (5, 1, False), (AT_ANSWERS, 0, True)]
