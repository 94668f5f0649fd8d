"""`verify=True`."""

import pytest

from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager
from rollout_helpers import CALM, go, settings, villain, workers

pytestmark = pytest.mark.xdist_group("rollouts: turns")


def test_verify_steps_everything_here_too_and_notices_a_difference():
    config = settings(["Counting"], [4], 1, villain("Counting"), use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config, verify=True) as manager:
        manager.reset(seed=1)
        manager.step(go(range(4), "a"))
        manager.use_multiprocessing = False
        manager.reset(seed=1)
        manager.step(go(range(4), "a"))
        manager.use_multiprocessing = "threads"
        manager.reset(seed=1)
        manager.step(go(range(4), "a"))
        assert manager.verified_turns == 16
    config = settings(["ForgetsItsSeed"], [2], 1, villain("ForgetsItsSeed"), use_multiprocessing=True)
    with EnvStateManager(config, verify=True) as manager, pytest.raises(RolloutError, match="disagree about its state"):
        manager.reset(seed=1)


@pytest.mark.parametrize("first", [False, "auto"])
def test_flips_are_verified_too(first):
    config = settings(["FrozenLake"], [4], 1, use_multiprocessing=first, max_workers=2)
    with EnvStateManager(config, verify=True) as manager:
        for seed, turns_there in ((1, 3), (77, 0), (5, 2)):
            manager.use_multiprocessing = False
            manager.reset(seed=seed)
            manager.step(go(range(4), "Left"))
            for _ in range(turns_there):
                manager.use_multiprocessing = True
                going = [status["env_id"] for status in manager.statuses() if not status["terminated"]]
                manager.step(go(going, "Up"))
        manager.use_multiprocessing = True
        manager.reset(seed=9)
        manager.step(go(range(4), "Left"))
        manager.use_multiprocessing = False
        manager.reset(seed=10)
        manager.step(go(range(4), "Left"))
        manager.use_multiprocessing = True
        going = [status["env_id"] for status in manager.statuses() if not status["terminated"]]
        manager.step(go(going, "Up"))
        assert manager.verified_turns > 0


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
        assert manager.rollout_cache[0]["metrics"]["TellsMuch/number"] == 2.0
