"""Environments that die, hang, raise: the batch completes, the others are untouched, the reason is told."""

import os
import signal
import time

import numpy as np
import pytest

from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager, register
from rollout_helpers import go, kill, plain, settings, villain
from villain_envs import Counting, CountingConfig

CALM = {"Calm": {"env_type": "Counting", "max_actions_per_traj": 20}}


def among_others(name, use=True, **config):
    """One villain (seed 1, group 1) between seven calm ones, on two workers."""
    custom = {**CALM, **villain(name, harm_seed=1, **config)}
    manager = {"use_multiprocessing": use, "max_workers": 2, "step_timeout": 0.7, "worker_memory_mb": 3000}
    return settings(["Calm", name, "Calm"], [1, 1, 6], 1, custom, **manager)


def calm_caches(turns):
    loop = plain(settings(["Calm"], [8], 1, CALM))
    loop.reset(0)
    for _ in range(turns):
        loop.step(go(range(8), "a"))
    return loop.caches


VILLAINS = {
    "KillsItself": "its worker died: SIGKILL, often out of memory",
    "HangsInStep": "its worker did nothing for 0.7 s",
    "RaisesInStep": "ZeroDivisionError: a villain divides by zero",
    "AllocatesTooMuch": "MemoryError",
}


@pytest.mark.parametrize("name", VILLAINS)
@pytest.mark.xdist_group("rollouts")
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
        timeouts = manager.get_rollout_states()["tags"][name]["timeouts"]
        assert timeouts == (2 if name == "HangsInStep" else 0)
        assert len(manager.reset(seed=100)) == 8, "the manager goes on"
        assert len(manager.step(go(range(8), "a"))) == 8


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.parametrize("name", ["RaisesInReset", "HangsInReset"])
@pytest.mark.xdist_group("rollouts")
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


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.xdist_group("rollouts")
def test_one_that_takes_long_to_build_is_waited_for(use):
    custom = villain("TakesLongToBuild", seconds=1.0)
    config = settings(["TakesLongToBuild"], [2], 1, custom, use_multiprocessing=use, max_workers=2, step_timeout=0.5)
    with EnvStateManager(config) as manager:
        assert len(manager.reset(seed=0)) == 2
        assert len(manager.step(go(range(2), "a"))) == 2
        assert manager.get_rollout_states()["tags"]["TakesLongToBuild"]["timeouts"] == 0


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.xdist_group("rollouts")
def test_one_that_shows_pictures_shows_the_last_when_it_fails(use):
    config = settings(["ShowsPictures"], [2], 1, villain("ShowsPictures", harm_seed=1), use_multiprocessing=use)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        manager.step(go(range(2), "a"))
        manager.step(go(range(2), "a"))
        *_, before, last = manager.caches[1]["history"]
        assert "divides by zero" in before["info"]["error"]
        assert last["state"] == "<images>" and [list(image.tobytes()) for image in last["images"]] == [[1] * 12]
        assert len(manager.render()[1]) == 1


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.xdist_group("rollouts")
def test_what_can_neither_be_copied_nor_counted_does_no_harm(use):
    config = settings(["TellsOfALock"], [2], 1, villain("TellsOfALock"), use_multiprocessing=use)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        assert len(manager.step(go(range(2), "a"))) == 2
        assert all(cache["history"][0]["info"]["lock"] for cache in manager.caches)
        assert "big" not in manager.get_rollout_states()["tags"]["TellsOfALock"]


def test_if_none_can_begin_that_is_an_error():
    with EnvStateManager(settings(["RaisesInReset"], [1], 2, villain("RaisesInReset"))) as manager:
        assert manager.get_rollout_states()["tags"]["RaisesInReset"]["num_actions"] == 0
        with pytest.raises(
            RolloutError, match=r"no environment could begin, environment 0 \(RaisesInReset\) because of"
        ):
            manager.reset(seed=0)
        assert [status["num_actions"] for status in manager.statuses()] == [0, 0]
        assert len(manager.reset(seed=1)) == 2, "with another seed they can"


@pytest.mark.parametrize("place", ["multiprocessing.Pipe", "multiprocessing.context.ForkServerProcess.start"])
@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), EOFError("unexpected EOF")])
@pytest.mark.xdist_group("rollouts")
def test_when_no_other_worker_can_start_environments_come_home(error, place, monkeypatch, caplog):
    config = settings(["Calm"], [4], 1, CALM, use_multiprocessing=True, max_workers=2)
    loop = plain(config)
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)

        def fails(*arguments):
            raise error

        monkeypatch.setattr("abreast.processes.supervisor.RETRY_S", 0.0)
        monkeypatch.setattr(place, fails)
        kill(*manager.worker_pids)
        for _ in range(3):
            assert manager.step(go(range(4), "a")) == loop.step(go(range(4), "a"))
        assert {env.worker for env in manager.envs} == {-1}
        assert f"could not start: {type(error).__name__}" in caplog.text


def test_raising_here_is_the_same_as_raising_in_a_worker():
    outcomes = []
    for use in (True, False):
        with EnvStateManager(among_others("RaisesInStep", use)) as manager:
            manager.reset(seed=0)
            for turn in range(3):
                manager.step(go([env for env in range(8) if turn < 2 or env != 1], "a"))
            outcomes.append((manager.caches, manager.statuses()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(("name", "use"), [("DiesOnce", True), ("RaisesOnce", True), ("RaisesOnce", False)])
@pytest.mark.xdist_group("rollouts")
def test_a_misfortune_that_does_not_repeat_leaves_no_trace(name, use, tmp_path):
    flag = tmp_path / "struck"
    with EnvStateManager(among_others(name, use, flag=str(flag))) as manager:
        manager.reset(seed=0)
        for _ in range(3):
            assert len(manager.step(go(range(8), "a"))) == 8
        assert flag.exists()
        histories = [env.cache["history"] for env in manager.envs]
    assert histories == [cache["history"] for cache in calm_caches(3)]


@pytest.mark.xdist_group("rollouts")
def test_what_cannot_be_pickled_is_taken_here_and_the_turn_completes(caplog):
    with EnvStateManager(among_others("ReturnsUnpicklable")) as manager:
        manager.reset(seed=0)
        for _ in range(3):
            assert len(manager.step(go(range(8), "a"))) == 8
        caches = manager.caches
        for cache, calm in zip(caches, calm_caches(3), strict=True):
            assert [entry["state"] for entry in cache["history"]] == [entry["state"] for entry in calm["history"]]
        info = caches[1]["history"][1]["info"]
        assert callable(info["function"]) and "cannot be pickled" in info["moved"]
        assert "cannot be pickled" in caplog.text
        assert manager.envs[1].worker == -1 and manager.envs[2].worker != -1


@pytest.mark.xdist_group("rollouts")
def test_an_environment_that_is_not_the_same_when_rebuilt_ends_with_that_reason():
    custom = {**CALM, **villain("ForgetsItsSeed")}
    config = settings(["Calm", "ForgetsItsSeed"], [3, 1], 1, custom, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        manager.step(go(range(4), "a"))
        kill(*manager.worker_pids)
        assert [cache["env_id"] for cache in manager.step(go(range(4), "a"))] == [0, 1, 2]
        assert "came to another state" in manager.caches[3]["history"][1]["info"]["error"]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.xdist_group("rollouts")
def test_one_that_is_not_the_same_where_it_moves_to_ends_too(first):
    config = settings(["ForgetsItsSeed"], [2], 1, villain("ForgetsItsSeed"), use_multiprocessing=first, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        assert len(manager.step(go(range(2), "a"))) == 2
        manager.use_multiprocessing = not first
        assert manager.step(go(range(2), "a")) == []
        assert all("came to another state" in cache["history"][1]["info"]["error"] for cache in manager.caches)


@pytest.mark.xdist_group("rollouts")
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
        missing = [env.env_id for env in manager.envs if not env.is_there]
        assert missing, "everybody was rebuilt, wanted or not"
        assert manager.step(go(range(8), "a")) == loop.step(go(range(8), "a"))


@pytest.mark.xdist_group("rollouts")
def test_a_frozen_worker_is_killed_and_its_turns_complete():
    config = settings(["Calm"], [4], 1, CALM, use_multiprocessing=True, max_workers=2, step_timeout=0.7)
    loop = plain(config)
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        os.kill(manager.worker_pids[1], signal.SIGSTOP)
        assert manager.step(go(range(4), "a")) == loop.step(go(range(4), "a"))


@pytest.mark.xdist_group("rollouts")
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


class Homebody:
    """Made only where it was thought up: elsewhere it cannot even be unpickled."""

    def __init__(self):
        self.pid = os.getpid()

    def __call__(self, config):
        return Counting(config)

    def __reduce__(self):
        return _wake_up, (self.pid,)


def _wake_up(pid):
    if os.getpid() != pid:
        raise OSError("there is no such device here")
    return Homebody()


@pytest.mark.xdist_group("rollouts")
def test_what_cannot_be_unpickled_in_a_worker_lives_here():
    register("homebody", config=CountingConfig)(Homebody())
    custom = {**CALM, "Homebody": {"env_type": "homebody", "max_actions_per_traj": 20}}
    config = settings(["Calm", "Homebody"], [2, 2], 1, custom, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        assert len(manager.reset(seed=0)) == 4
        assert len(manager.step(go(range(4), "a"))) == 4
        assert [env.worker == -1 for env in manager.envs] == [False, False, True, True]


@pytest.mark.xdist_group("rollouts")
def test_a_worker_that_cannot_live_is_given_up_and_its_environments_come_home(monkeypatch, caplog):
    config = settings(["Calm"], [4], 1, CALM, use_multiprocessing=True, max_workers=2)
    loop = plain(config)
    loop.reset(0)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        pool = manager._fleet.pool
        healthy = pool._make
        monkeypatch.setattr(
            pool._supervisor, "_make", lambda number: Child("unfit", _dies_at_once, []) if number else healthy(0)
        )
        kill(manager.worker_pids[1])
        for _ in range(3):
            assert manager.step(go(range(4), "a")) == loop.step(go(range(4), "a"))
        assert pool.lost == {1} and {env.worker for env in manager.envs} == {0}
        assert "given up" in caplog.text


def _dies_at_once(connection):
    os._exit(7)


@pytest.mark.parametrize("shape", [(4, 4, 3), (4, 4), (4, 4, 4)])
def test_a_picture_of_the_wrong_kind_ends_the_episode_with_that_reason(shape):
    class Misdrawn(Counting):
        def render(self):
            return np.zeros(shape)

    register("misdrawn", config=CountingConfig)(Misdrawn)
    custom = {"Misdrawn": {"env_type": "misdrawn"}}
    config = settings(["Misdrawn"], custom=custom, use_multiprocessing=False)
    with EnvStateManager(config) as manager, pytest.raises(RolloutError, match="expected text or pictures"):
        manager.reset(seed=0)
