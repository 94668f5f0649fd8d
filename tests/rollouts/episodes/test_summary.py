"""Summaries of episodes."""

import numpy as np
import pytest

from abreast.rollouts import find_tag
from abreast.rollouts.episodes.slot import Slot, Tally
from abreast.rollouts.episodes.summary import metrics_of, pass_at_k
from rollout_helpers import LAKE, go, here, villain


def test_pass_at_k_is_the_unbiased_estimate():
    results = [True, False, False, True, False]
    estimate = pass_at_k(results)
    for k in range(1, 6):
        rng = np.random.default_rng(k)
        drawn = np.mean([any(rng.choice(results, k, replace=False)) for _ in range(3000)])
        assert estimate[f"pass@{k}"] == pytest.approx(drawn, abs=0.03)
    assert pass_at_k([False, False]) == {"pass@1": 0.0, "pass@2": 0.0}


def test_a_cache_has_metrics_once_its_episode_is_over():
    with here(["Lake"], [1], 2, LAKE) as manager:
        manager.reset(seed=3)
        manager.step(go([0], "nowhere"))
        assert "metrics" not in manager.caches[0]
        manager.step(go([0], "left", "left"))
        metrics, turns = manager.caches[0]["metrics"], manager.caches[0]["history"][:-1]
        assert metrics["Lake/success"] == 0.0 and metrics["Lake/num_actions"] == 2, "those executed"
        assert metrics["Lake/action_is_valid"] == sum(turn["info"].get("action_is_valid", 0) for turn in turns) / 2
        assert "metrics" not in manager.caches[1]


def test_rollout_cache_has_them_for_all_with_pass_at_k():
    with here(["Lake"], [2], 2, LAKE) as manager:
        manager.reset(seed=3)
        manager.step(go([0, 1, 2], "left", "left", "left"))
        caches = manager.rollout_cache
        assert [cache["env_id"] for cache in caches] == [0, 1, 2, 3] and caches[3]["metrics"]["Lake/num_actions"] == 0
        for group in (caches[:2], caches[2:]):
            over = [cache for cache in group if cache["env_id"] != 3]
            passed = float(any(cache["metrics"]["Lake/success"] for cache in over))
            assert [cache["metrics"].get(f"Lake/pass@{len(over)}") for cache in over] == [passed] * len(over)
        assert "Lake/pass@2" not in caches[3]["metrics"], "it is not over"
        manager.reset(seed=4)
        assert all("metrics" not in cache for cache in manager.caches)


def test_an_episode_that_could_not_begin_has_metrics_too():
    with here(["RaisesInReset", "Lake"], [1, 1], 1, {**LAKE, **villain("RaisesInReset")}) as manager:
        manager.reset(seed=0)
        metrics = manager.caches[0]["metrics"]
        assert metrics["RaisesInReset/success"] == 0.0 and metrics["RaisesInReset/num_actions"] == 0


def test_figures_of_a_whole_episode_are_summed_where_the_type_says_so():
    info = {"success": True, "action_is_valid": True, "r_type": 0.5, "page": "end", "available_actions": ["a"]}
    history = [{"state": "", "actions": ["a"], "info": info}] * 2 + [{"state": ""}]
    slot = Slot(0, 0, find_tag("WebShop", {}))
    slot.cache = {"history": history, "penalty": -0.5}
    slot.tally = Tally(reward=2.0, success=True, given=4, executed=2, invalid=1)
    assert metrics_of(slot) == {
        "WebShop/success": 1.0,
        "WebShop/num_actions": 2,
        "WebShop/reward": 2.0,
        "WebShop/penalty": -0.5,
        "WebShop/score": 1.5,
        "WebShop/invalid_rate": 0.25,
        "WebShop/action_is_valid": 1.0,
        "WebShop/traj_sum/r_type": 1.0,
    }
    slot.tag = find_tag("Bandit", {})
    assert metrics_of(slot)["Bandit/r_type"] == 0.5
