"""One environment and its episode: replays, digests, states, and environments that cannot be replayed."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager, register
from abreast.rollouts.episodes import episode as episode_module
from rollout_helpers import CALM, go, here, kill, plain, settings, villain, workers
from villain_envs import Counting, CountingConfig

pytestmark = pytest.mark.xdist_group("rollouts: turns")


def test_what_an_environment_changes_later_does_not_change_the_history():
    with here(["SharesItsInfo"], custom=villain("SharesItsInfo")) as manager:
        manager.reset(seed=1)
        manager.step(go([0], "a"))
        (cache,) = manager.step(go([0], "b"))
        assert [entry["info"]["log"] for entry in cache["history"][:2]] == [["a"], ["a", "b"]]


@pytest.mark.parametrize(("name", "turns"), [("Wavers", 1), ("Wavers", 2), ("ForgetsItsSeed", 0)])
def test_it_is_found_out_when_it_has_to_be_rebuilt_turn_for_turn(name, turns):
    custom = {"Odd": {"env_type": name, "max_actions_per_traj": 20, "env_config": {"harm_seed": -1}}}
    with EnvStateManager(workers(["Odd"], [2], custom)) as manager:
        outputs, taken = manager.reset(seed=1), 0
        while outputs and taken < 8:
            if taken >= turns:
                kill(*manager.worker_pids)
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
            if turn % 8 == 7:
                kill(*manager.worker_pids)
            assert manager.step(go(range(2), "a")) == loop.step(go(range(2), "a"))
        assert set(manager.worker_pids).isdisjoint(pids)


def test_an_environment_that_raises_in_close_is_logged(caplog):
    custom = villain("RaisesInClose")
    with EnvStateManager(workers(["RaisesInClose"], [2], custom, use_multiprocessing=False)) as manager:
        manager.reset(seed=0)
        manager.use_multiprocessing = True
        assert len(manager.reset(seed=0)) == 2
        manager.use_multiprocessing = False
        assert len(manager.reset(seed=0)) == 2
    assert "could not be closed: OSError('it is stuck')" in caplog.text


def test_an_environment_that_is_not_the_same_when_rebuilt_ends_with_that_reason():
    custom = {**CALM, **villain("ForgetsItsSeed")}
    config = settings(["Calm", "ForgetsItsSeed"], [3, 1], 1, custom, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        manager.step(go(range(4), "a"))
        kill(*manager.worker_pids)
        assert [cache["env_id"] for cache in manager.step(go(range(4), "a"))] == [0, 1, 2]
        assert "came to another state" in manager.caches[3]["history"][1]["info"]["error"]


@pytest.mark.parametrize("first", [True, False, "threads"])
def test_a_change_of_use_multiprocessing_replays_nothing(first):
    config = settings(["ForgetsItsSeed"], [2], 1, villain("ForgetsItsSeed"), use_multiprocessing=first, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        for use in (True, False, "threads", "auto"):
            assert len(manager.step(go(range(2), "a"))) == 2
            manager.use_multiprocessing = use


@pytest.mark.parametrize("use", [True, False])
def test_one_that_takes_long_to_build_is_waited_for(use):
    custom = villain("TakesLongToBuild", seconds=1.0)
    config = settings(["TakesLongToBuild"], [2], 1, custom, use_multiprocessing=use, max_workers=2, step_timeout=0.5)
    with EnvStateManager(config) as manager:
        assert len(manager.reset(seed=0)) == 2
        assert len(manager.step(go(range(2), "a"))) == 2
        assert manager.get_measurements()["TakesLongToBuild"]["timeouts"] == 0


@pytest.mark.parametrize("use", [True, False])
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


@pytest.mark.parametrize("use", ["threads", False])
def test_what_can_neither_be_copied_nor_counted_does_no_harm(use):
    config = settings(["TellsOfALock"], [2], 1, villain("TellsOfALock"), use_multiprocessing=use)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        assert len(manager.step(go(range(2), "a"))) == 2
        assert all(cache["history"][0]["info"]["lock"] for cache in manager.caches)
        assert "big" not in manager.get_rollout_states()["tags"]["TellsOfALock"]


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


@pytest.mark.parametrize("name", ["ShowsNothing", "ShowsNoNumbers"])
def test_an_environment_that_shows_none_ends_its_episode_with_that_reason(name):
    custom, says = {"Blank": {"env_type": f"unfit_envs:{name}"}}, "it shows None: let render return a text or pictures"
    with here(["Blank"], custom=custom) as manager, pytest.raises(RolloutError, match=says):
        manager.reset(seed=1)


@pytest.mark.parametrize(
    ("voluntary", "involuntary", "has_waited"), [(0, 3, False), (1, 3, False), (2, 0, True), (5, 1, True)]
)
def test_a_turn_that_was_preempted_has_not_waited(monkeypatch, voluntary, involuntary, has_waited):
    used = iter([(0, 0), (voluntary, involuntary)])

    def thread_usage():
        ours, others = next(used)
        return SimpleNamespace(ru_utime=0.0, ru_stime=0.0, ru_nvcsw=ours, ru_nivcsw=others)

    monkeypatch.setattr(episode_module, "thread_usage", thread_usage)
    clock = episode_module.Clock()
    time.sleep(0.01)
    assert (clock.waited > 0.0) == has_waited
