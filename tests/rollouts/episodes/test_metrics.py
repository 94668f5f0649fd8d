"""Figures of episodes under RAGEN's names."""

from abreast.rollouts import find_tag
from abreast.rollouts.episodes.metrics import metrics_of
from rollout_helpers import LAKE, go, here, villain


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
            passed = float(any(cache["metrics"]["Lake/success"] for cache in group))
            assert [cache["metrics"]["Lake/pass@2"] for cache in group] == [passed, passed]
        manager.reset(seed=4)
        assert all("metrics" not in cache for cache in manager.caches)


def test_an_episode_that_could_not_begin_has_metrics_too():
    with here(["RaisesInReset", "Lake"], [1, 1], 1, {**LAKE, **villain("RaisesInReset")}) as manager:
        manager.reset(seed=0)
        assert manager.caches[0]["metrics"] == {"RaisesInReset/success": 0.0, "RaisesInReset/num_actions": 0}


def test_figures_of_a_whole_episode_are_summed_where_the_type_says_so():
    info = {"success": True, "action_is_valid": True, "r_type": 0.5, "page": "end", "available_actions": ["a"]}
    history = [{"state": "", "actions": ["a"], "info": info}] * 2 + [{"state": ""}]
    assert metrics_of(find_tag("WebShop", {}), history, True) == {
        "WebShop/success": 1.0,
        "WebShop/num_actions": 2,
        "WebShop/action_is_valid": 1.0,
        "WebShop/traj_sum/r_type": 1.0,
    }
    assert metrics_of(find_tag("Bandit", {}), history, False)["Bandit/r_type"] == 0.5
