"""Environments that hang in the main process."""

import logging
import signal
import subprocess
import sys
import threading

import pytest

from abreast.rollouts import EnvStateManager
from abreast.rollouts.episodes.slot import Slot
from abreast.rollouts.episodes.watchdog import TookTooLong, Watchdog
from abreast.rollouts.registry import find_tag
from rollout_helpers import CALM, go, plain, settings, villain

pytestmark = pytest.mark.xdist_group("rollouts: turns")


@pytest.mark.parametrize("use", ["auto", False])
@pytest.mark.parametrize("name", ["HangsInStep", "LoopsInStep", "ClingsToItsTurn", "SwallowsEverything"])
def test_one_that_hangs_here_ends_alone(name, use, caplog, monkeypatch):
    monkeypatch.setattr("abreast.rollouts.workers.timing.WAIT_SHARE", 2.0)  # on a busy machine it may seem to wait
    custom = {**CALM, **villain(name, harm_seed=1)}
    config = settings(["Calm", name, "Calm"], [1, 1, 2], 1, custom, use_multiprocessing=use, step_timeout=0.2)
    loop = plain(settings(["Calm"], [4], 1, CALM))
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        for turn in range(3):
            outputs = manager.step(go([env_id for env_id in range(4) if turn < 2 or env_id != 1], "a"))
            loop.step(go(range(4), "a"))
        assert [cache["env_id"] for cache in outputs] == [0, 2, 3]
        for env_id in (0, 2, 3):
            assert manager.caches[env_id]["history"] == loop.caches[env_id]["history"]
        assert manager.caches[1]["history"][1]["info"] == {"success": False, "error": "its turn took longer than 0.2 s"}
        assert manager.get_measurements()[name]["timeouts"] == 2
        assert "(most recent call last)" not in caplog.text and "in strike" in caplog.text
        assert f"environment 1 ({name}) has been at one turn in the main process for 0.2 s" in caplog.text
        assert len(manager.reset(seed=100)) == 4, "the manager goes on"
        assert len(manager.step(go(range(4), "a"))) == 4


@pytest.mark.parametrize("inner_timeout", [None, 20.0])
def test_one_that_uses_a_manager_itself_is_interrupted_as_a_whole(inner_timeout):
    custom = villain("UsesAManager", inner_timeout=inner_timeout)
    config = settings(["UsesAManager"], [2], 1, custom, use_multiprocessing=False, step_timeout=0.3)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        manager.step(go(range(2), "a"))
        assert [cache["env_id"] for cache in manager.step(go(range(2), "a"))] == [1]
        assert manager.caches[0]["history"][1]["info"]["error"] == "its turn took longer than 0.3 s"


def test_playing_a_long_episode_again_is_no_hang():
    config = settings(["Counting"], [1], 1, villain("Counting", seconds=0.1), max_workers=1, step_timeout=0.4)
    loop = plain(config)
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.use_multiprocessing = True
        manager.reset(seed=0)
        for turn in range(8):
            manager.use_multiprocessing = turn < 7
            assert manager.step(go([0], "a")) == loop.step(go([0], "a"))
        assert manager.get_measurements()["Counting"]["timeouts"] == 0


def test_without_a_timeout_there_is_no_watchdog_thread():
    threads = threading.active_count()
    with EnvStateManager(settings(["Calm"], [1], 1, CALM, step_timeout=None)) as manager:
        manager.reset(seed=0)
        assert threading.active_count() == threads


def test_what_cannot_be_interrupted_is_named(caplog):
    config = settings(
        ["Counting"], [1], 1, villain("Counting", seconds=0.8), use_multiprocessing=False, step_timeout=0.3
    )
    outputs = []

    def work():
        with EnvStateManager(config) as manager:
            manager.reset(seed=0)
            outputs.extend(manager.step(go([0], "a")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(outputs) == 1
    assert "for 0.3 s, and cannot be interrupted" in caplog.text and "time.sleep(self.config.seconds)" in caplog.text


def test_a_manager_that_was_first_used_in_a_thread_can_be_interrupted_in_the_main_one():
    before = signal.signal(signal.SIGURG, signal.SIG_DFL)
    try:
        config = settings(["HangsInStep"], [2], 1, villain("HangsInStep"), use_multiprocessing=False, step_timeout=0.2)
        with EnvStateManager(config) as manager:
            thread = threading.Thread(target=manager.reset, kwargs={"seed": 0})
            thread.start()
            thread.join()
            manager.step(go(range(2), "a"))
            assert len(manager.step(go(range(2), "a"))) == 1
    finally:
        signal.signal(signal.SIGURG, before)


def test_no_timeout_is_enforced_while_a_debugger_is_active(caplog):
    config = settings(["IsDebugged"], [1], 1, villain("IsDebugged"), use_multiprocessing=False, step_timeout=0.2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        for _ in range(3):
            assert len(manager.step(go([0], "a"))) == 1
    assert not caplog.text


def test_a_signal_handler_of_the_program_stays(caplog):
    caplog.set_level(logging.WARNING)
    heard = []
    before = signal.signal(signal.SIGURG, lambda number, frame: heard.append(number))
    try:
        config = settings(["Counting"], [1], 1, villain("Counting", seconds=0.8), step_timeout=0.3)
        with EnvStateManager(config) as manager:
            manager.use_multiprocessing = False
            manager.reset(seed=0)
            assert len(manager.step(go([0], "a"))) == 1
        assert "cannot be interrupted" in caplog.text and not heard
    finally:
        signal.signal(signal.SIGURG, before)


def test_a_turn_that_has_just_ended_is_not_interrupted():
    watchdog, slots = Watchdog(100.0), [Slot(number, number, find_tag("frozen_lake", {})) for number in range(2)]
    watchdog.watch()
    watchdog.at = slots[0]
    moment = watchdog.moment()
    watchdog.at = slots[1]
    watchdog.interrupt(moment)  # the signal is handled before this returns
    assert not watchdog.has_raised
    watchdog.at = slots[0]
    with pytest.raises(TookTooLong):
        watchdog.interrupt(moment)
    watchdog.at = None
    assert watchdog.has_raised
    watchdog.close()


def test_rollouts_can_be_imported_where_there_is_no_such_signal():
    """As on Windows."""
    code = (
        "import signal; del signal.SIGURG, signal.pthread_kill\n"
        "from abreast.rollouts import EnvStateManager\n"
        "groups = {'env_groups': 1, 'group_size': 1, 'env_configs': {'tags': ['Bandit']}}\n"
        "manager = EnvStateManager({'es_manager': {'use_multiprocessing': False, 'train': groups}})\n"
        "print(len(manager.reset()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
