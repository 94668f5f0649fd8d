"""Which process environments live in, flips of `use_multiprocessing`, and workers that cannot start or are lost."""

import multiprocessing
import os
import random
import threading
import time

import pytest

import villain_envs
from abreast.errors import WorkerError
from abreast.processes.fork_server import FORK_SERVER
from abreast.processes.process import ProcessChild
from abreast.rollouts import EnvStateManager, register
from abreast.rollouts.episodes.slot import HERE
from abreast.rollouts.workers.timing import PlacementRules
from rollout_helpers import CALM, LAKE, go, kill, plain, settings, villain, workers
from villain_envs import Counting, CountingConfig

pytestmark = pytest.mark.xdist_group("rollouts: manager")


@pytest.fixture
def taken_for_computing(monkeypatch):
    """Environments that sleep are treated like those that compute: how fast these are depends on what else runs."""
    monkeypatch.setattr("abreast.rollouts.workers.timing.WAIT_SHARE", 2.0)


def test_a_change_of_use_multiprocessing_takes_effect_when_episodes_begin():
    config = settings(["Counting", "Lake"], [2, 2], 2, {**villain("Counting"), **LAKE}, max_workers=2)
    loop = plain(config)
    with EnvStateManager(config) as manager:
        manager.use_multiprocessing = False
        for use in (True, "threads", True, False, "threads", False):
            assert manager.reset(seed=3) == loop.reset(3)
            places = [env.worker for env in manager.envs]
            manager.use_multiprocessing = use
            inputs = go(range(8), "down")
            assert manager.step(inputs) == loop.step(inputs)
            assert [env.worker for env in manager.envs] == places
            assert manager.reset(seed=4) == loop.reset(4)
            wanted = {True: {0, 1}, False: {HERE}, "threads": {2, 3}}[use]
            assert {env.worker for env in manager.envs} <= wanted


def test_workers_and_environments_are_kept_over_resets():
    custom = villain("Counting", seconds=0.002)  # which is worth two workers
    config = settings(["Counting"], [4], 1, custom, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset()
        pids = manager.worker_pids
        homes = [env.worker for env in manager.envs]
        assert sorted(homes) == [0, 0, 1, 1]
        for _ in range(3):
            manager.step(go(range(4), "a"))
            manager.reset()
            assert {env.built_in for env in manager.envs} == {1}
        assert manager.worker_pids == pids and [env.worker for env in manager.envs] == homes


def test_sequential_env_types_stay_here_and_the_others_do_not():
    custom = {**villain("Counting"), **LAKE}
    config = settings(
        ["Counting", "Lake"], [2, 2], 1, custom, use_multiprocessing=True, sequential_env_types=["frozen_lake"]
    )
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        assert [env.worker == -1 for env in manager.envs] == [False, False, True, True]


def test_auto_moves_expensive_environments_to_workers_with_the_second_reset_and_leaves_cheap_ones_here(
    taken_for_computing,
):
    custom = {**villain("Counting", seconds=0.004), **LAKE}
    config = settings(["Counting", "Lake"], [8, 8], 1, custom, max_workers=2)
    rules = PlacementRules(turn_message_s=0.0003)  # so that a busy machine does not matter
    with EnvStateManager(config, rules=rules) as manager:
        for has_workers in (False, True, True):
            outputs = manager.reset(seed=1)
            assert bool(manager.worker_pids) == has_workers
            assert {env.worker for env in manager.envs[:8]} == ({0, 1} if has_workers else {HERE})
            assert {env.worker for env in manager.envs[8:]} == {HERE}
            while outputs:
                outputs = manager.step(go([cache["env_id"] for cache in outputs], "down"))


@pytest.mark.parametrize(("share", "places"), [(2.0, {0, 1}), (0.75, {2, 3, 4, 5})])
def test_auto_never_replays_a_live_episode(share, places, monkeypatch):
    """An environment whose answers differ from call to call finishes every episode, here, in workers and in threads."""
    config = settings(["Wavers"], [4], 1, villain("Wavers", budget=3, seconds=0.02), max_workers=2)
    monkeypatch.setattr("abreast.rollouts.workers.timing.WAIT_SHARE", share)
    with EnvStateManager(config) as manager:
        for _ in range(4):
            outputs = manager.reset()
            while outputs:
                outputs = manager.step(go([cache["env_id"] for cache in outputs], "a"))
            assert ["error" in cache["history"][-2]["info"] for cache in manager.caches] == [False] * 4
        assert {env.worker for env in manager.envs} == places


def test_expensive_environments_are_spread_by_what_they_cost():
    custom = {
        "Slow": {"env_type": "Counting", "max_actions_per_traj": 9, "env_config": {"seconds": 0.004}},
        "Slower": {"env_type": "Counting", "max_actions_per_traj": 9, "env_config": {"seconds": 0.012}},
    }
    config = settings(["Slow", "Slower"], [6, 2], 1, custom, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        manager.step(go(range(8), "a"))
        manager.reset(seed=2)
        costs = [0.0, 0.0]
        for env in manager.envs:
            costs[env.worker] += 12 if env.tag.name == "Slower" else 4
        assert costs == [24, 24]


def test_an_environment_that_cannot_be_sent_stays_here_and_says_so(caplog):
    @villain_envs.register("local", config=villain_envs.CountingConfig)
    def make(config):
        return villain_envs.Counting(config)

    custom = {"Local": {"env_type": "local"}}
    with EnvStateManager(settings(["Local"], [2], 1, custom, use_multiprocessing=True)) as manager:
        manager.reset(seed=1)
        manager.step(go([0, 1], "a"))
        assert not manager.worker_pids
    assert "environments of type local cannot live in worker processes" in caplog.text


def test_send_and_recv_are_measured_too(taken_for_computing):
    config = workers(["Counting"], [8], villain("Counting", seconds=0.004), use_multiprocessing="auto")
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        for _ in range(2):
            manager.send(go(range(8), "a"))
            manager.recv(min_ready=8)
        manager.reset(seed=0)
        assert {env.worker for env in manager.envs} == {0, 1}


def no_more_files(*arguments):
    raise OSError(24, "Too many open files")


def test_when_workers_cannot_start_no_episode_is_begun(monkeypatch):
    with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
        manager.use_multiprocessing = False
        manager.reset(seed=0)
        manager.use_multiprocessing = True
        with monkeypatch.context() as patched:
            patched.setattr("abreast.processes.process.PipeChannel", no_more_files)
            with pytest.raises(WorkerError, match=r"rollout worker 0 could not start: .* Too many open files"):
                manager.reset(seed=0)
            assert manager.pending == []
        assert len(manager.reset(seed=0)) == 2
        assert len(manager.step(go(range(2), "a"))) == 2


def test_auto_does_without_workers_that_cannot_start(monkeypatch, caplog, taken_for_computing):
    config = workers(["Counting"], [2], villain("Counting", seconds=0.02), use_multiprocessing="auto")
    loop = plain(config)
    monkeypatch.setattr("abreast.processes.process.PipeChannel", no_more_files)
    with EnvStateManager(config) as manager:
        for seed in range(3):
            assert manager.reset(seed=seed) == loop.reset(seed)
            for _ in range(3):
                assert manager.step(go(range(2), "a")) == loop.step(go(range(2), "a"))
        assert caplog.text.count("stay in the main process, because workers cannot start") == 1
        manager.use_multiprocessing = True
        with pytest.raises(WorkerError, match="Too many open files"):
            manager.reset(seed=0)


def _step_under_auto(_=0):
    config = workers(["Counting"], [2], villain("Counting", seconds=0.02), use_multiprocessing="auto")
    with EnvStateManager(config) as manager:
        outputs = []
        for _ in range(2):
            manager.reset(seed=0)
            outputs += [len(manager.step(go(range(2), "a"))) for _ in range(3)]
        return outputs, {env.worker for env in manager.envs}


def test_auto_does_without_workers_in_a_worker(taken_for_computing, monkeypatch):
    monkeypatch.setattr("abreast.processes.process.parent_pid", os.getppid)
    assert _step_under_auto() == ([2] * 6, {HERE})


def test_a_process_of_a_pool_has_workers_of_its_own(taken_for_computing, monkeypatch):
    monkeypatch.setattr(FORK_SERVER, "preload", [])  # which costs seconds
    with EnvStateManager(workers(["Calm"], [2], CALM)) as manager, multiprocessing.get_context("fork").Pool(1) as pool:
        manager.reset(seed=0)
        assert pool.apply(_step_under_auto, (0,)) == ([2] * 6, {0, 1})
        assert len(manager.step(go(range(2), "a"))) == 2, "its fork server is another one"


@pytest.mark.parametrize("place", ["PipeChannel", "start_process"])
@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), EOFError("unexpected EOF")])
def test_when_no_worker_can_be_restarted_environments_move_to_the_main_process(error, place, monkeypatch, caplog):
    config = settings(["Calm"], [4], 1, CALM, use_multiprocessing=True, max_workers=2)
    loop = plain(config)
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)

        def fails(*arguments):
            raise error

        monkeypatch.setattr("abreast.processes.team.RETRY_S", 0.0)
        monkeypatch.setattr(f"abreast.processes.process.{place}", fails)
        kill(*manager.worker_pids)
        for _ in range(3):
            assert manager.step(go(range(4), "a")) == loop.step(go(range(4), "a"))
        assert {env.worker for env in manager.envs} == {-1}
        assert f"could not start: {type(error).__name__}" in caplog.text


class OnlyHere:
    """Can be unpickled only in the process that made it."""

    def __init__(self):
        self.pid = os.getpid()

    def __call__(self, config):
        return Counting(config)

    def __reduce__(self):
        return _unpickle, (self.pid,)


def _unpickle(pid):
    if os.getpid() != pid:
        raise OSError("there is no such device here")
    return OnlyHere()


def test_what_cannot_be_unpickled_in_a_worker_lives_here():
    register("only_here", config=CountingConfig)(OnlyHere())
    custom = {**CALM, "OnlyHere": {"env_type": "only_here", "max_actions_per_traj": 20}}
    config = settings(["Calm", "OnlyHere"], [2, 2], 1, custom, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        assert len(manager.reset(seed=0)) == 4
        assert len(manager.step(go(range(4), "a"))) == 4
        assert [env.worker == -1 for env in manager.envs] == [False, False, True, True]


def test_the_environments_of_a_lost_worker_go_to_the_others(monkeypatch, caplog):
    config = workers(["Calm"], [4], CALM)
    loop = plain(config)
    loop.reset(0)
    start = ProcessChild.__init__

    def fails(child, number, *arguments):
        if number == 1:
            raise OSError(24, "Too many open files")
        start(child, number, *arguments)

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        monkeypatch.setattr("abreast.processes.team.RETRY_S", 0.0)
        monkeypatch.setattr(ProcessChild, "__init__", fails)
        kill(manager.worker_pids[1])
        for _ in range(3):
            assert manager.step(go(range(4), "a")) == loop.step(go(range(4), "a"))
        assert {env.worker for env in manager.envs} == {0}
        assert "not restarted again" in caplog.text
        assert manager.reset(seed=5) == loop.reset(5)
        assert {env.worker for env in manager.envs} == {0}


def test_an_environment_of_a_batch_that_begins_anew_stays_in_its_worker_under_auto(taken_for_computing):
    with EnvStateManager(workers(["Calm"], [4], CALM)) as manager:
        manager.reset(seed=1)
        places = [env.worker for env in manager.envs]
        manager.use_multiprocessing = "auto"
        manager.reset(env_ids=[1, 2])
        assert [env.worker for env in manager.envs] == places != [HERE] * 4


def test_turns_that_threads_take_at_once_are_not_taken_for_waiting():
    """They may wait for each other, for the interpreter: threads would gain nothing."""
    quick = {"Quick": {"env_type": "Counting", "max_actions_per_traj": 20, "env_config": {"seconds": 0.03}}}
    config = settings(["Quick", "Counting"], [1, 1], 1, {**quick, **villain("Counting", seconds=1.0)})
    with EnvStateManager(config) as manager, manager.episode("Counting") as slow, manager.episode("Quick") as episode:
        thread = threading.Thread(target=slow.step, args=(["a"],))
        thread.start()
        while not manager._turns.pending:
            time.sleep(0.001)
        time.sleep(0.05)
        for _ in range(3):
            episode.step(["a"])
        timing = manager._places.timings["Quick"]
        assert thread.is_alive() and not timing.waits
        thread.join()
        for _ in range(3):
            episode.step(["a"])
        assert timing.waits


def test_environments_that_draw_from_shared_generators_play_the_same_episodes_wherever_they_live(caplog):
    config = settings(
        ["Draws"],
        [6],
        1,
        {"Draws": {"env_type": "stranger_envs:DrawsFromShared", "max_actions_per_traj": 10}},
        max_workers=2,
    )
    random.seed(1)
    expected, found = random.Random(1).random(), []
    eager = PlacementRules(turn_message_s=0.0, order_s=0.0, cheap_turn_s=0.0, gain=1.0, worth_s=-1.0, enough_s=0.0)
    for use in (False, True, "threads", "auto"):
        with EnvStateManager(config, rules=eager) as manager:
            manager.use_multiprocessing = use
            for seed in (7, 3):
                manager.reset(seed=seed)
                for turn in range(10):
                    if manager.worker_pids and turn == 4:
                        kill(manager.worker_pids[0])
                    manager.step(go(range(6), "0"))
            assert bool(manager.worker_pids) == (use in (True, "auto"))
            found.append([[entry["state"] for entry in cache["history"]] for cache in manager.caches])
        told = [record.message for record in caplog.records if "shares" in record.message]
        assert len(told) == 1 and "Draws" in told[0] and "the module random and numpy.random" in told[0]
        caplog.clear()
    assert found[0] == found[1] == found[2] == found[3] and len({states[-1] for states in found[0]}) == 6
    with EnvStateManager(config) as manager:
        manager.use_multiprocessing = False
        with manager.episode(seed=8) as other:
            other.step(["0"])
        with manager.episode(seed=4) as episode:
            for _ in range(10):
                episode.step(["0"])
        assert [entry["state"] for entry in episode.slot.history] == found[0][1]
    assert random.random() == expected
