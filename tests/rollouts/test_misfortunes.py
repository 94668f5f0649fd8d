"""What an adversary found: silence that is none, answers that come too late, pipes that are full, interrupts."""

import asyncio
import copy
import enum
import importlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import abreast
from abreast.errors import RolloutError, WorkerError
from abreast.rollouts import EnvStateManager, register
from rollout_helpers import go, kill, plain, settings, villain
from villain_envs import Counting, CountingConfig

CALM = {"Calm": {"env_type": "Counting", "max_actions_per_traj": 20}}
pytestmark = pytest.mark.xdist_group("rollouts")


def workers(tags, counts, custom, **manager):
    return settings(tags, counts, 1, custom, **{"use_multiprocessing": True, "max_workers": 2, **manager})


# ---- silence


def test_who_has_answered_is_not_silent_however_late_it_is_asked():
    with EnvStateManager(workers(["Calm"], [4], CALM, step_timeout=1.5)) as manager:
        manager.reset(seed=0)
        pids = manager.worker_pids
        manager.send(go(range(4), "a"))
        time.sleep(2.5)  # a language model thinks
        assert len(manager.recv(min_ready=4)) == 4
        assert manager.worker_pids == pids


def test_slow_environments_here_do_not_spoil_those_in_workers():
    slow = {"Slow": {"env_type": "Counting", "env_config": {"reset_seconds": 0.3}}}
    lake = {"Lake": {"env_type": "frozen_lake", "env_config": {"size": 8}}}
    config = workers(["Lake", "Slow"], [2, 3], {**slow, **lake}, step_timeout=0.5, sequential_env_types=["Counting"])
    loop = plain(config)
    with EnvStateManager(config) as manager:
        for seed in (100, 200):
            assert manager.reset(seed=seed) == loop.reset(seed)
            assert manager.step(go(range(5), "down")) == loop.step(go(range(5), "down"))


def test_no_timeout_means_none():
    with EnvStateManager(workers(["Calm"], [2], CALM, step_timeout=None)) as manager:
        manager.reset(seed=0)
        assert len(manager.step(go(range(2), "a"))) == 2


def test_playing_a_long_episode_again_is_no_silence():
    custom = villain("Counting", seconds=0.2)
    config = workers(["Counting"], [2], custom, step_timeout=1.2)
    loop = plain(config)
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        for _ in range(8):
            assert manager.step(go(range(2), "a")) == loop.step(go(range(2), "a"))
        kill(*manager.worker_pids)
        assert manager.step(go(range(2), "a")) == loop.step(go(range(2), "a"))


def test_an_import_that_takes_longer_than_a_turn_may(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text(
        "import time\nfrom villain_envs import Counting\nif __name__ != '__main__': time.sleep(2.0)\n"
        "class Slow(Counting): pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("slow_to_import")
    register("slow_to_import", config=CountingConfig)(module.Slow)
    custom = {"Slow": {"env_type": "slow_to_import"}}
    with EnvStateManager(workers(["Slow"], [2], custom, step_timeout=1.0)) as manager:
        manager.reset(seed=0)
        assert {env.worker for env in manager.envs} == {0, 1}


@pytest.mark.parametrize("number", [signal.SIGRTMIN + 6, signal.SIGABRT])
def test_a_death_by_any_signal_is_told(number, caplog):
    with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
        manager.reset(seed=0)
        os.kill(manager.worker_pids[0], number)
        assert len(manager.step(go(range(2), "a"))) == 2
    assert ("SIGABRT" if number == signal.SIGABRT else f"signal {int(number)}") in caplog.text


# ---- answers of another time


def test_what_was_said_of_an_abandoned_episode_is_not_taken_for_the_new_one():
    custom = villain("Counting", seconds=0.3)
    config = workers(["Counting"], [2], custom)
    loop = plain(config)
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        manager.send(go(range(2), "a"))
        assert manager.reset(seed=50) == loop.reset(50)
        assert manager.step(go(range(2), "b")) == loop.step(go(range(2), "b"))


def test_a_late_failure_does_not_end_the_next_episode():
    custom = {**CALM, **villain("ForgetsItsSeed")}
    with EnvStateManager(workers(["ForgetsItsSeed", "Calm"], [1, 1], custom, max_workers=1)) as manager:
        for seed in range(4):
            manager.reset(seed=seed)
            manager.step(go([0, 1], "a"))
            kill(manager.worker_pids[0])
            manager.step(go([0, 1], "a"))
            assert len(manager.reset(seed=seed + 10)) == 2


# ---- full pipes


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
    custom = villain("Counting", padding=50_000_000)
    with EnvStateManager(workers(["Counting"], [1], custom, max_workers=1, step_timeout=1.5)) as manager:
        manager.reset(seed=0)
        manager.send(go([0], "a"))
        time.sleep(0.3)  # it is writing, and nobody reads
        os.kill(manager.worker_pids[0], signal.SIGSTOP)
        started = time.monotonic()
        manager.recv(timeout=0.2)
        assert time.monotonic() - started < 10  # it used to be for ever
        assert len(manager.recv() if manager.pending else [1]) == 1


# ---- interrupts


class _Interrupted(Counting):
    def step(self, action):
        if self.steps == 1 and _Interrupted.strikes:
            _Interrupted.strikes -= 1
            self.total += 1000  # half done
            raise KeyboardInterrupt
        return super().step(action)


def test_after_an_interrupt_the_turn_can_still_be_had_or_the_episode_begun_anew(monkeypatch):
    register("interrupted", config=CountingConfig)(_Interrupted)
    custom = {"Interrupted": {"env_type": "interrupted", "max_actions_per_traj": 20}}
    config = settings(["Interrupted"], [3], 1, custom, use_multiprocessing=False)
    _Interrupted.strikes = 0
    loop = plain(config)
    with EnvStateManager(config) as manager:
        for go_on in (True, False):
            assert manager.reset(seed=0) == loop.reset(0)
            assert manager.step(go(range(3), "a")) == loop.step(go(range(3), "a"))
            _Interrupted.strikes = 1
            with pytest.raises(KeyboardInterrupt):
                manager.step(go(range(3), "b"))
            if go_on:
                assert manager.recv(min_ready=3) == loop.step(go(range(3), "b"))


def test_an_interrupt_while_workers_start_leaves_nothing_hanging(monkeypatch):
    with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
        original = manager._fleet._workers

        def interrupted():
            raise KeyboardInterrupt

        monkeypatch.setattr(manager._fleet, "_workers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            manager.reset(seed=0)
        monkeypatch.setattr(manager._fleet, "_workers", original)
        assert len(manager.reset(seed=0)) == 2


def test_a_reset_that_was_interrupted_leaves_no_turns_to_be_mistaken_for_others(monkeypatch):
    custom = {**CALM, "Slow": {"env_type": "Counting", "env_config": {"reset_seconds": 0.5}}}
    with EnvStateManager(workers(["Calm", "Slow"], [1, 1], custom)) as manager:
        hear, calls = manager._fleet.hear, []

        def interrupted(wait_s):
            if manager.envs[0].history and not calls:
                calls.append(wait_s)
                raise KeyboardInterrupt
            hear(wait_s)

        monkeypatch.setattr(manager._fleet, "hear", interrupted)
        with pytest.raises(KeyboardInterrupt):
            manager.reset(seed=0)
        time.sleep(0.7)  # the slow one begins, and nobody wants to know
        assert len(manager.step(go([0], "a"))[0]["history"]) == 2
        with pytest.raises(RolloutError, match="environment 1 has no episode yet"):
            manager.step(go([1], "a"))
        assert len(manager.reset(seed=0)) == 2


def interrupted_at(number, call):
    """Make the call, with a Ctrl-C at the n-th line of ours that it comes to; whether it came to so many."""
    source, before, lines = str(Path(abreast.__file__).parent), sys.gettrace(), 0

    def trace(frame, event, argument):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(source):
            return None
        if event == "line":
            lines += 1
            if lines == number:
                sys.settrace(before)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)


CHAOS = bool(os.environ.get("ABREAST_CHAOS"))


@pytest.mark.timeout(3600 if CHAOS else 120)
@pytest.mark.parametrize(("use", "stride"), [(False, 1), (True, 1 if CHAOS else 13)])
def test_wherever_an_interrupt_comes_nothing_is_wrong_in_silence_and_nothing_hangs(use, stride):
    config = workers(["Calm"], [2], CALM, max_workers=1, use_multiprocessing=use, step_timeout=20)
    loop, inputs = plain(config), go(range(2), "a")
    with EnvStateManager(config) as manager:
        number, torn, went_on = 0, 0, 0
        while True:
            number += stride
            assert manager.reset(seed=1) == loop.reset(1)
            before = copy.deepcopy(loop.caches)
            loop.step(inputs)
            if not interrupted_at(number, lambda: manager.step(inputs)):
                break
            try:
                while manager.pending:
                    manager.recv()
                if manager.caches == before:
                    manager.step(inputs)
                assert manager.caches == loop.caches, number
                assert manager.step(inputs) == loop.step(inputs), number
                went_on += 1
            except RolloutError as error:
                assert "interrupted" in str(error) and "call reset" in str(error), number
                torn += 1
        assert torn > 2 and went_on > 2 and number > 10 * stride, (torn, went_on, number)


# ---- what does not depend on its seed and its actions alone


class _Wavers(Counting):
    def step(self, action):
        time.sleep(0.0002)
        self.total += int.from_bytes(os.urandom(3), "big")
        return super().step(action)


@pytest.mark.parametrize("harm", ["kill", "flip"])
@pytest.mark.parametrize(("name", "turns"), [("wavers", 1), ("wavers", 2), ("ForgetsItsSeed", 0)])
def test_it_is_found_out_when_it_has_to_be_rebuilt_turn_for_turn(name, turns, harm):
    register("wavers", config=CountingConfig)(_Wavers)
    custom = {"Odd": {"env_type": name, "max_actions_per_traj": 20, "env_config": {"harm_seed": -1}}}
    with EnvStateManager(workers(["Odd"], [2], custom)) as manager:
        outputs, taken = manager.reset(seed=1), 0
        while outputs and taken < 8:
            if taken >= turns:
                if harm == "kill":
                    kill(*manager.worker_pids)
                else:
                    manager.use_multiprocessing = not manager.use_multiprocessing
            outputs = manager.step(go([cache["env_id"] for cache in outputs], "a"))
            taken += 1
        assert taken <= turns + 2
        assert all("came to another state" in cache["history"][-2]["info"]["error"] for cache in manager.caches)


class _OfOld(Counting):
    def reset(self, *, seed=None, options=None):
        self._np_random = np.random.RandomState(seed)
        self.seed, self.steps, self.total = seed, 0, 0
        return self.render(), {}

    def step(self, action):
        self.steps += 1
        self.total += self._np_random.randint(100)
        return self.render(), 0.0, False, False, {}


def test_a_random_state_of_old_is_as_good_as_a_generator():
    register("of_old", config=CountingConfig)(_OfOld)
    config = workers(["Old"], [2], {"Old": {"env_type": "of_old", "max_actions_per_traj": 40}})
    loop = plain(config)
    with EnvStateManager(config) as manager:
        assert manager.reset(seed=1) == loop.reset(1)
        pids = manager.worker_pids
        for turn in range(20):
            manager.use_multiprocessing = turn % 10 < 8
            assert manager.step(go(range(2), "a")) == loop.step(go(range(2), "a"))
        assert manager.worker_pids == pids


# ---- verify


def test_a_disagreement_leaves_the_manager_usable():
    custom = {**CALM, **villain("ForgetsItsSeed")}
    with EnvStateManager(workers(["Calm", "ForgetsItsSeed"], [3, 1], custom), verify=True) as manager:
        for _ in range(2):
            with pytest.raises(RolloutError, match="disagree about its state"):
                manager.reset(seed=0)
        manager.use_multiprocessing = False
        assert len(manager.reset(seed=0)) == 4


def test_after_a_reset_that_failed_there_is_no_episode_and_that_is_said():
    with EnvStateManager(workers(["ForgetsItsSeed"], [2], villain("ForgetsItsSeed")), verify=True) as manager:
        with pytest.raises(RolloutError, match="disagree"):
            manager.reset(seed=0)
        assert manager.pending == [] and manager.render() == ["", ""]
        with pytest.raises(RolloutError, match="has no episode yet: call reset"):
            manager.step(go([0], "a"))


def test_arrays_and_sets_in_an_info_are_compared_by_what_they_hold():
    config = workers(["TellsMuch"], [2], villain("TellsMuch"))
    with EnvStateManager(config, verify=True) as manager:
        manager.reset(seed=0)
        for _ in range(3):
            assert len(manager.step(go(range(2), "a"))) == 2
        assert manager.verified_turns == 8
        assert manager.get_rollout_states()["tags"]["TellsMuch"]["number"] == 2.0


# ---- awaited


def test_a_cancelled_step_can_be_received_and_disturbs_no_other():
    custom = {**villain("Counting", seconds=0.5), **CALM}
    config = workers(["Counting", "Calm"], [1, 1], custom)

    async def drive(manager):
        slow = asyncio.create_task(manager.step_async(go([0], "a")))
        await asyncio.sleep(0.05)
        slow.cancel()
        quick = await manager.step_async(go([1], "a"))
        with pytest.raises(RolloutError, match="already under way"):
            await manager.step_async(go([0], "a"))
        other = asyncio.create_task(manager.step_async(go([1], "b")))
        await asyncio.sleep(0)
        late = manager.recv()
        return quick, late, await other

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        quick, late, other = asyncio.run(drive(manager))
        assert [c["env_id"] for c in (*quick, *late, *other)] == [1, 0, 1]


def test_an_awaited_step_returns_when_it_is_done_though_another_heard_of_it(monkeypatch):
    monkeypatch.setattr("abreast.rollouts.episodes.waiters.LOOK_S", 25.0)
    custom = {**villain("Counting", seconds=0.05), **CALM}
    config = workers(["Counting", "Calm"], [1, 1], custom)

    async def drive(manager):
        started = time.monotonic()
        first = asyncio.create_task(manager.step_async(go([0], "a")))
        await asyncio.sleep(0)
        time.sleep(0.1)  # the answer lies there
        await manager.step_async(go([1], "a"))
        await first
        return time.monotonic() - started

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        assert asyncio.run(drive(manager)) < 15


# ---- closing, odd inputs


@pytest.mark.parametrize("use", [True, False])
def test_every_environment_is_closed_with_the_manager(use, tmp_path):
    custom = villain("TellsWhenClosed", flag=str(tmp_path / "closed"))
    with EnvStateManager(workers(["TellsWhenClosed"], [3], custom, use_multiprocessing=use)) as manager:
        manager.reset(seed=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed0", "closed1", "closed2"]


def test_an_environment_that_cannot_be_closed_stops_nobody(caplog):
    custom = villain("RaisesInClose")
    with EnvStateManager(workers(["RaisesInClose"], [2], custom, use_multiprocessing=False)) as manager:
        manager.reset(seed=0)
        manager.use_multiprocessing = True
        assert len(manager.step(go(range(2), "a"))) == 2
        manager.use_multiprocessing = False
        assert len(manager.step(go(range(2), "a"))) == 2
    assert "could not be closed: OSError('it is stuck')" in caplog.text


class Move(str, enum.Enum):  # noqa: UP042 (as users write it)
    LEFT = "left"


def test_actions_of_a_class_of_ones_own_are_plain_texts_to_environments():
    lake = {"Lake": {"env_type": "frozen_lake", "env_config": {"p": 1.0}}}

    class Local(str):
        __slots__ = ()

    with EnvStateManager(workers(["Lake"], [2], lake)) as manager:
        manager.reset(seed=0)
        manager.step([{"env_id": 0, "actions": [Move.LEFT]}, {"env_id": 1, "actions": [Local("left")]}])
        assert [cache["history"][0]["actions"] for cache in manager.caches] == [["Left"], ["Left"]]


def test_a_doomed_turn_under_auto_is_no_division_by_zero():
    custom = villain("KillsItself", seconds=0.01, harm_at=3, harm_seed=1)
    with EnvStateManager(workers(["KillsItself"], [4], custom, use_multiprocessing="auto")) as manager:
        manager.reset(seed=0)
        for _ in range(2):
            manager.step(go(range(4), "a"))
        assert manager.step(go([1], "a")) == []


def test_recv_of_nothing_is_refused():
    with EnvStateManager(settings(["Calm"], custom=CALM, use_multiprocessing=False)) as manager:
        manager.reset(seed=0)
        manager.send(go([0], "a"))
        with pytest.raises(RolloutError, match="min_ready is 0"):
            manager.recv(min_ready=0)
        assert len(manager.recv(timeout=0)) == 1


def test_send_and_recv_find_out_too_what_is_worth_a_worker():
    with EnvStateManager(
        workers(["Counting"], [8], villain("Counting", seconds=0.004), use_multiprocessing="auto")
    ) as m:
        m.reset(seed=0)
        for _ in range(2):
            m.send(go(range(8), "a"))
            m.recv(min_ready=8)
        assert {env.worker for env in m.envs} == {0, 1}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
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


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_die_with_a_killed_parent_in_the_middle_of_a_turn(method, tmp_path):
    tests = str(Path(__file__).parent.parent)
    (tmp_path / "script.py").write_text(ORPHANS.format(tests=tests, method=method))
    parent = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 2
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


UNCLOSED = """
from abreast.rollouts import EnvStateManager

if __name__ == "__main__":
    groups = {"env_groups": 2, "group_size": 2, "env_configs": {"tags": ["FrozenLake"], "n_groups": [2]}}
    manager = EnvStateManager({"es_manager": {"use_multiprocessing": True, "max_workers": 2, "train": groups}})
    print(len(manager.reset(seed=1)))
"""


def test_a_manager_that_nobody_closed_ends_in_peace(tmp_path):
    (tmp_path / "script.py").write_text(UNCLOSED)
    run = [sys.executable, "script.py"]
    ended = subprocess.run(run, check=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("4\n", "")


def test_a_turn_that_waits_to_be_taken_here_is_taken_here_though_its_environment_is_to_move():
    config = workers(["Calm"], [2], CALM, step_timeout=60)
    loop = plain(config)
    with EnvStateManager(config) as manager:
        manager.use_multiprocessing = False
        assert manager.reset(seed=0) == loop.reset(0)
        manager.send(go([0], "a"))
        manager.use_multiprocessing = True
        manager.send(go([1], "a"))
        assert manager.recv(min_ready=2) == loop.step(go(range(2), "a"))
        started = time.monotonic()
        assert manager.step(go(range(2), "a")) == loop.step(go(range(2), "a"))
        assert time.monotonic() - started < 30  # it used to wait for the timeout


@pytest.mark.parametrize("end", ["reset", "close"])
def test_who_awaits_a_turn_that_will_not_come_is_told(end):
    async def both(manager):
        awaited = asyncio.create_task(manager.step_async(go([0], "a")))
        await asyncio.sleep(0.05)
        getattr(manager, end)()
        with pytest.raises(RolloutError, match=r"a reset has ended|is closed"):
            await asyncio.wait_for(awaited, 20)
        if end == "reset":
            assert len(await asyncio.wait_for(manager.step_async(go(range(2), "a")), 20)) == 2

    with EnvStateManager(workers(["Counting"], [2], villain("Counting", seconds=0.3))) as manager:
        manager.reset(seed=0)
        asyncio.run(both(manager))


def test_when_workers_cannot_start_no_turn_is_begun(monkeypatch):
    with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
        manager.use_multiprocessing = False
        manager.reset(seed=0)
        manager.use_multiprocessing = True

        def fails(*arguments):
            raise WorkerError("no more processes.")

        with monkeypatch.context() as patched:
            patched.setattr("abreast.rollouts.episodes.turns.WorkerPool", fails)
            for call in (manager.step, manager.send):
                with pytest.raises(WorkerError, match="no more"):
                    call(go(range(2), "a"))
            assert manager.pending == []
        assert len(manager.step(go(range(2), "a"))) == 2


def test_auto_does_without_workers_that_cannot_start(monkeypatch, caplog):
    config = settings(
        ["Counting"], [2], 1, villain("Counting", seconds=0.02), use_multiprocessing="auto", max_workers=2
    )
    loop = plain(config)

    def fails(*arguments):
        raise WorkerError("no more processes.")

    monkeypatch.setattr("abreast.rollouts.episodes.turns.WorkerPool", fails)
    with EnvStateManager(config) as manager:
        for seed in range(2):
            assert manager.reset(seed=seed) == loop.reset(seed)
            for _ in range(8):
                assert manager.step(go(range(2), "a")) == loop.step(go(range(2), "a"))
        assert caplog.text.count("stay in the main process, because workers cannot start: no more processes") == 1
        manager.use_multiprocessing = True
        with pytest.raises(WorkerError, match="no more"):
            manager.step(go(range(2), "a"))


def _step_in_a_pool(_):
    config = settings(
        ["Counting"], [2], 1, villain("Counting", seconds=0.02), use_multiprocessing="auto", max_workers=2
    )
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        outputs = [manager.step(go(range(2), "a")) for _ in range(6)]
        homes = {env.worker for env in manager.envs}
    return [len(each) for each in outputs], homes


def test_auto_does_without_workers_where_none_may_be():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_step_in_a_pool, (0,)) == ([2] * 6, {-1})


def test_managers_that_start_in_threads_leave_the_main_module_alone():
    main = sys.modules["__main__"]

    def start():
        with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
            manager.reset(seed=0)

    for _ in range(3):
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
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
    done = subprocess.run(
        [sys.executable, "script.py"], check=False, cwd=tmp_path, env=surroundings, capture_output=True, timeout=100
    )
    told = "rollout worker 0 could not start: exit code 1; it imports your script for what is defined there: put all"
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
