"""Pending turns: phases, `send` and `recv`, and what becomes of turns whose worker dies, hangs or cannot go on."""

import math
import os
import signal
import sys
import threading
import time

import pytest

from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.episodes.slot import HERE, OVER, QUEUED, READY, SENT
from rollout_helpers import CALM, among_others, calm_caches, go, kill, plain, settings, villain, workers

pytestmark = pytest.mark.xdist_group("rollouts: turns")


SLOW = {
    **villain("Counting", seconds=0.6),
    "Quick": {"env_type": "Counting", "max_actions_per_traj": 20},
}


def test_recv_does_not_wait_for_the_slowest():
    config = settings(["Quick", "Counting"], [3, 1], 1, SLOW, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        slow = manager.envs[3].worker
        manager.send(go([3, 0, 1, 2], "a"))
        early = manager.recv(min_ready=2)
        assert early and all(cache["env_id"] != 3 for cache in early)
        assert 3 in manager.pending
        assert [c["env_id"] for c in early] == [i for i in (0, 1, 2) if manager.envs[i].worker != slow]
        assert manager.recv(min_ready=4, timeout=0.01) == []
        with pytest.raises(RolloutError, match="already under way"):
            manager.send(go([3], "a"))
        with pytest.raises(RolloutError, match=r"step called while \d turns are under way"):
            manager.step(go([0], "a"))
        late = manager.recv(min_ready=4)
        assert manager.pending == [] and late[0]["env_id"] == 3


def test_quick_ones_do_not_wait_for_a_slow_one_in_the_same_worker():
    config = settings(["Quick", "Counting"], [3, 1], 1, SLOW, use_multiprocessing=True, max_workers=1)
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        manager.send(go([0, 1, 3, 2], "a"))
        assert {cache["env_id"] for cache in manager.recv(min_ready=2)} == {0, 1}
        assert manager.pending == [3, 2]
        assert [cache["env_id"] for cache in manager.recv(min_ready=2)] == [3, 2]


@pytest.mark.parametrize("use", [True, False])
def test_send_and_recv_give_the_same_as_step(use):
    config = settings(["Counting"], [6], 1, villain("Counting"), use_multiprocessing=use, max_workers=2)
    loop = plain(config)
    loop.reset(2)
    with EnvStateManager(config) as manager:
        manager.send(go([cache["env_id"] for cache in manager.reset(seed=2)], "a"))
        while manager.pending:
            for cache in manager.recv(min_ready=2):
                manager.send(go([cache["env_id"]], "b", "c"))
        for env_id in range(6):
            outputs = loop.step(go([env_id], "a"))
            while outputs:
                outputs = loop.step(go([env_id], "b", "c"))
        assert manager.caches == loop.caches


def test_a_reset_lets_turns_under_way_come_to_their_end():
    config = settings(["Counting"], [2], 1, villain("Counting", seconds=0.05), use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        manager.send(go([0, 1], "a"))
        caches = manager.reset(seed=1)
        assert [len(cache["history"]) for cache in caches] == [1, 1]
        assert [cache["history"][-1]["state"][:7] for cache in manager.step(go([0, 1], "a"))] == ["1 steps"] * 2


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


VILLAINS = {
    "KillsItself": "its worker died: SIGKILL, often out of memory",
    "HangsInStep": "its worker did nothing for 0.7 s",
    "RaisesInStep": "ZeroDivisionError: a villain divides by zero",
    "AllocatesTooMuch": "its worker failed: MemoryError",
}


@pytest.mark.parametrize("name", VILLAINS)
def test_a_villain_ends_alone(name, caplog):
    with EnvStateManager(among_others(name)) as manager:
        manager.reset(seed=0)
        for turn in range(3):
            outputs = manager.step(go([env for env in range(8) if turn < 2 or env != 1], "a"))
        caches = manager.caches
        assert len(outputs) == 7
        for env_id, (cache, calm) in enumerate(zip(caches, calm_caches(3), strict=True)):
            if env_id != 1:
                assert cache["history"] == calm["history"], env_id
        status = manager.statuses()[1]
        assert status["terminated"] and status["truncated"]
        entry = caches[1]["history"][1]
        assert VILLAINS[name] in entry["info"]["error"] and entry["info"]["success"] is False
        assert caches[1]["history"][2]["actions_left"] >= 0
        assert f"environment 1 ({name}) cannot go on: {VILLAINS[name]}" in caplog.text
        timeouts = manager.get_measurements()[name]["timeouts"]
        assert timeouts == (2 if name == "HangsInStep" else 0)
        assert len(manager.reset(seed=100)) == 8, "the manager goes on"
        assert len(manager.step(go(range(8), "a"))) == 8


ENDS = {"sys.exit": "SystemExit: 3 ", "os._exit": "SystemExit: os._exit(3) ", "cancel": "CancelledError: given up "}


@pytest.mark.parametrize("use", [False, True, "threads"])
def test_an_environment_that_ends_the_program_ends_its_episode(use):
    for way, error in ENDS.items():
        with EnvStateManager(among_others("EndsTheProgram", use, flag=way)) as manager:
            manager.reset(seed=0)
            manager.step(go(range(8), "a"))
            assert [cache["env_id"] for cache in manager.step(go(range(8), "a"))] == [0, *range(2, 8)]
            told = manager.caches[1]["history"][1]["info"]["error"]
            assert told.startswith(f"{error}(villain_envs.py, line "), (way, told)
            manager.step(go([0, *range(2, 8)], "a"))
            assert manager.team is None or not manager.team.restarts
            for env_id, (cache, calm) in enumerate(zip(manager.caches, calm_caches(3), strict=True)):
                assert env_id == 1 or cache["history"] == calm["history"], (way, env_id)


def test_the_processes_that_an_environment_forks_may_end():
    config = settings(["EndsTheProgram"], [1], 1, villain("EndsTheProgram", flag="child"), use_multiprocessing=False)
    loop = plain(settings(["Calm"], [1], 1, CALM))
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        after = manager.step(go([0], "a", "a"))[0]["history"][-1]["state"]
    total = int(loop.step(go([0], "a", "a"))[0]["history"][-1]["state"].split()[2])
    assert after == f"2 steps, {total + 7} in all"


@pytest.mark.parametrize("use", [False, "threads"])
def test_a_signal_whose_handler_raises_ends_the_program_and_no_episode(use):
    """In a turn of the main process: what a worker is at is not interrupted."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    try:
        with EnvStateManager(
            settings(["Counting"], [1], 1, villain("Counting", seconds=0.5), use_multiprocessing=use)
        ) as manager:
            manager.reset(seed=0)
            threading.Timer(0.2, signal.raise_signal, [signal.SIGTERM]).start()
            with pytest.raises(SystemExit):
                manager.step(go([0], "a"))
            assert manager.envs[0].error is None
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_worker_that_has_used_up_its_memory_is_replaced():
    config = workers(["LeaksMemory"], [2], villain("LeaksMemory"), max_workers=1, worker_memory_mb=1000)
    loop = plain(settings(["Calm"], [2], 1, CALM))
    with EnvStateManager(config) as manager:
        for seed in range(8):
            manager.reset(seed=seed)
            loop.reset(seed)
            manager.step(go(range(2), "a"))
            loop.step(go(range(2), "a"))
            assert [each["history"] for each in manager.caches] == [each["history"] for each in loop.caches], seed
        assert manager.team.restarts >= 1


@pytest.mark.parametrize(("name", "use"), [("ClosesDescriptors", True), ("KillsWhenPickled", "auto")])
def test_an_environment_that_breaks_its_worker_outside_a_turn_is_blamed_and_never_run_in_the_main_process(name, use):
    with EnvStateManager(among_others(name)) as manager:
        manager.reset(seed=0)
        manager.use_multiprocessing = use
        manager.step(go(range(8), "a"))
        assert [cache["env_id"] for cache in manager.step(go(range(8), "a"))] == [0, *range(2, 8)]
        assert "its worker died" in manager.caches[1]["history"][1]["info"]["error"]
        manager.step(go([0, *range(2, 8)], "a"))
        assert all(slot.worker != HERE for slot in manager.envs), "nothing has moved"
        for env_id, (cache, calm) in enumerate(zip(manager.caches, calm_caches(3), strict=True)):
            assert env_id == 1 or cache["history"] == calm["history"], env_id


@pytest.mark.parametrize(("use", "reward"), [(True, "nan"), (False, "inf"), ("threads", "-inf")])
def test_a_reward_that_is_not_finite_ends_the_episode_with_its_reason(reward, use):
    with EnvStateManager(among_others("EarnsNothingFinite", use, flag=reward)) as manager:
        manager.reset(seed=0)
        manager.step(go(range(8), "a"))
        assert len(manager.step(go(range(8), "a"))) == 7
        entry, status = manager.caches[1]["history"][1], manager.statuses()[1]
        assert entry["info"]["error"] == f"its reward is {reward}, expected a finite number."
        assert entry["reward"] == 0.0 and math.isfinite(status["reward"]) and status["truncated"]
        assert manager.get_rollout_states()["tags"]["EarnsNothingFinite"]["failed"] == 1


def test_nothing_that_an_environment_returns_is_run_in_the_main_process(tmp_path):
    flag = tmp_path / "was_run"
    custom = {**CALM, **villain("RunsCodeWhenRead", flag=str(flag))}
    with EnvStateManager(workers(["RunsCodeWhenRead", "Calm"], [1, 1], custom)) as manager:
        manager.reset(seed=0)
        assert [cache["env_id"] for cache in manager.step(go(range(2), "a"))] == [0, 1]
        assert manager.envs[0].worker == HERE and not flag.exists()


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.parametrize("name", ["RaisesInReset", "HangsInReset"])
def test_an_episode_that_cannot_begin_is_over(name, use, caplog):
    with EnvStateManager(among_others(name, use)) as manager:
        assert [cache["env_id"] for cache in manager.reset(seed=0)] == [0, *range(2, 8)]
        assert manager.statuses()[1]["terminated"]
        (entry,) = manager.caches[1]["history"]
        assert entry["actions_left"] == 0
        reason = (
            "no room for this seed" if name == "RaisesInReset" else "did nothing" if use else "took longer than 0.7 s"
        )
        assert reason in entry["info"]["error"]
        others = [0, *range(2, 8)]
        assert [cache["env_id"] for cache in manager.step(go(others, "a"))] == others
        assert f"environment 1 ({name}) cannot go on" in caplog.text


def test_raising_here_is_the_same_as_raising_in_a_worker():
    outcomes = []
    for use in (True, False):
        with EnvStateManager(among_others("RaisesInStep", use)) as manager:
            manager.reset(seed=0)
            for turn in range(3):
                manager.step(go([env for env in range(8) if turn < 2 or env != 1], "a"))
            outcomes.append((manager.caches, manager.statuses()))
    assert outcomes[0] == outcomes[1]


def test_a_death_that_does_not_repeat_leaves_no_trace(tmp_path):
    flag = tmp_path / "struck"
    with EnvStateManager(among_others("DiesOnce", flag=str(flag))) as manager:
        manager.reset(seed=0)
        for _ in range(3):
            assert len(manager.step(go(range(8), "a"))) == 8
        assert flag.exists()
        histories = [env.cache["history"] for env in manager.envs]
    assert histories == [cache["history"] for cache in calm_caches(3)]


@pytest.mark.parametrize("use", [True, False])
def test_an_environment_that_raises_is_not_tried_again(use, tmp_path):
    flag = tmp_path / "struck"
    with EnvStateManager(among_others("RaisesOnce", use, flag=str(flag))) as manager:
        manager.reset(seed=0)
        manager.step(go(range(8), "a"))
        assert [cache["env_id"] for cache in manager.step(go(range(8), "a"))] == [0, *range(2, 8)]
        assert "the network was away" in manager.caches[1]["history"][1]["info"]["error"]
        assert len(manager.reset(seed=0)) == 8


def test_an_episode_that_returns_what_cannot_be_sent_goes_on_in_the_main_process(caplog):
    with EnvStateManager(among_others("ReturnsUnpicklable")) as manager:
        manager.reset(seed=0)
        for _ in range(3):
            assert len(manager.step(go(range(8), "a"))) == 8
        assert "cannot live in worker processes: what it returned cannot be sent" in caplog.text
        assert manager.envs[1].worker == HERE and manager.envs[2].worker != HERE
        for cache, calm in zip(manager.caches, calm_caches(3), strict=True):
            assert [entry["state"] for entry in cache["history"]] == [entry["state"] for entry in calm["history"]]
        assert callable(manager.caches[1]["history"][1]["info"]["function"])


def test_only_those_who_wait_are_rebuilt_at_once():
    config = settings(["Calm"], [8], 1, CALM, use_multiprocessing=True, max_workers=2)
    loop = plain(config)
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        for env_ids in (range(8), [0], [5, 6]):
            kill(manager.worker_pids[0])
            time.sleep(0.05)
            assert manager.step(go(env_ids, "a")) == loop.step(go(env_ids, "a"))
        built = {env.built_in for env in manager.envs if env.worker == 0}
        assert len(built) > 1, "environments without a pending turn were rebuilt too"
        assert manager.step(go(range(8), "a")) == loop.step(go(range(8), "a"))


def test_a_frozen_worker_is_killed_and_its_turns_complete():
    config = settings(["Calm"], [4], 1, CALM, use_multiprocessing=True, max_workers=2, step_timeout=0.7)
    loop = plain(config)
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        os.kill(manager.worker_pids[1], signal.SIGSTOP)
        assert manager.step(go(range(4), "a")) == loop.step(go(range(4), "a"))


def test_a_worker_that_has_answered_is_not_silent():
    with EnvStateManager(workers(["Calm"], [4], CALM, step_timeout=0.7)) as manager:
        manager.reset(seed=0)
        pids = manager.worker_pids
        manager.send(go(range(4), "a"))
        time.sleep(1.4)  # a language model thinks
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
    config = workers(["Counting"], [1], custom, step_timeout=0.8, max_workers=1)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        for _ in range(5):
            manager.step(go([0], "a"))
        kill(*manager.worker_pids)
        assert manager.step(go([0], "a"))[0]["history"][-1]["state"].startswith("6 steps")
        assert manager.get_measurements()["Counting"]["timeouts"] == 0


@pytest.mark.parametrize("number", [signal.SIGRTMIN + 6, signal.SIGABRT])
def test_a_death_by_any_signal_is_told(number, caplog):
    with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
        manager.reset(seed=0)
        os.kill(manager.worker_pids[0], number)
        assert len(manager.step(go(range(2), "a"))) == 2
    assert ("SIGABRT" if number == signal.SIGABRT else f"signal {int(number)}") in caplog.text


@pytest.mark.parametrize(("free_cores", "spins"), [(0, False), (3, True)])
def test_the_main_process_waits_without_sleeping_only_if_a_core_is_free(free_cores, spins, monkeypatch):
    looks = []
    monkeypatch.setattr("abreast.processes.team.spin_wait", lambda is_ready: looks.append(is_ready) and False)
    monkeypatch.setattr("abreast.rollouts.episodes.turns.cores", lambda: free_cores)
    with EnvStateManager(workers(["Counting"], [2], villain("Counting", seconds=0.05))) as manager:
        manager.reset(seed=0)
        looks.clear()
        manager.send(go(range(2), "a"))
        assert manager.recv(timeout=0) == [] and not looks
        manager.recv(min_ready=2)
        assert bool(looks) == spins


# ---- phases


def phases(manager):
    return [slot.phase for slot in manager.envs]


@pytest.mark.parametrize(("use", "under_way"), [(False, QUEUED), (True, SENT)])
def test_a_turn_goes_through_its_phases(use, under_way):
    config = workers(["Counting"], [2], villain("Counting", seconds=0.05), use_multiprocessing=use)
    with EnvStateManager(config) as manager:
        assert phases(manager) == [OVER, OVER] and manager.pending == []
        manager.reset(seed=1)
        assert phases(manager) == [READY, READY] and manager.pending == []
        manager.send(go([1], *["a"] * 10))
        assert phases(manager) == [READY, under_way] and manager.pending == [1]
        assert manager.recv() == [] and phases(manager) == [READY, OVER], "after ten steps it is done"
        manager.send(go([0], "a"))
        assert phases(manager) == [under_way, OVER]
        manager.reset(env_ids=[1])
        assert phases(manager) == [under_way, READY], "the other goes on"
        assert len(manager.recv()) == 1 and phases(manager) == [READY, READY]


def test_a_dead_worker_leaves_its_turns_sent_and_they_are_taken_by_its_successor():
    with EnvStateManager(workers(["Counting"], [2], villain("Counting", seconds=0.3))) as manager:
        manager.reset(seed=0)
        manager.send(go(range(2), "a"))
        keys = [slot.key for slot in manager.envs]
        kill(*manager.worker_pids)
        while [slot.key for slot in manager.envs] == keys:
            assert manager.recv(timeout=0.05) == []
        assert set(phases(manager)) == {SENT}, "they were sent again"
        assert len(manager.recv(min_ready=2)) == 2
        assert [slot.built_in for slot in manager.envs] == [2, 2]


def test_a_restart_does_not_block_recv():
    config = workers(["Counting"], [2], villain("Counting", seconds=0.2), start_method="spawn")
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        manager.send(go(range(2), "a"))
        kill(*manager.worker_pids)
        longest, outputs, began = 0.0, [], time.monotonic()
        while manager.pending:
            started = time.monotonic()
            outputs += manager.recv(timeout=0)
            longest = max(longest, time.monotonic() - started)
            time.sleep(0.005)
        assert len(outputs) == 2
        assert longest < 0.5 * (time.monotonic() - began), "spawned processes take long to start; recv does not"
