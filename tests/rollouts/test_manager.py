"""The rules of the manager, and what it says to those who use it wrongly."""

import asyncio
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import villain_envs
from abreast.errors import ConfigError, RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.episodes.slot import HERE
from abreast.rollouts.episodes.summary import pass_at_k
from rollout_helpers import go, kill, plain, settings, villain

COUNTING = villain("Counting", budget=4)
LAKE = {"Lake": {"env_type": "frozen_lake", "max_actions_per_traj": 3, "env_config": {"is_slippery": False, "p": 1.0}}}


def here(*args, **kwargs):
    """A manager without workers."""
    return EnvStateManager(settings(*args, use_multiprocessing=False, **kwargs))


# ---- reset


def test_environments_are_numbered_by_tag_and_groups_share_a_seed():
    with here(["Lake", "Counting"], [2, 1], 3, {**LAKE, **COUNTING}) as manager:
        caches = manager.reset(seed=7)
        assert [cache["env_id"] for cache in caches] == list(range(9))
        assert [cache["group_id"] for cache in caches] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert [cache["tag"] for cache in caches] == ["Lake"] * 6 + ["Counting"] * 3
        assert [status["seed"] for status in manager.statuses()] == [7] * 3 + [8] * 3 + [9] * 3
        states = [cache["history"] for cache in caches]
        assert states[0] == states[1] == states[2] and states[0] != states[3]
        assert caches[0]["penalty"] == 0 and caches[0]["history"][0]["actions_left"] == 3


def test_training_counts_its_seeds_on_and_never_uses_one_twice():
    with here(["Counting"], [4], 1, COUNTING) as manager:
        firsts = []
        for seed in (None, None, 20_000, None, 5, None):
            manager.reset(seed=seed)
            firsts.append(manager.statuses()[0]["seed"])
    assert firsts == [10_000, 10_004, 20_000, 20_004, 5, 20_008]


def test_validation_always_starts_at_its_seed():
    config = settings(["Counting"], [4], 1, COUNTING, use_multiprocessing=False)
    with EnvStateManager(config, mode="val") as manager:
        for seed, first in ((None, 123), (None, 123), (9, 9), (None, 123)):
            manager.reset(seed=seed)
            assert manager.statuses()[0]["seed"] == first


# ---- a turn


def test_names_are_matched_without_regard_to_case_and_unknown_ones_cost_a_penalty_once():
    with here(["Lake"], custom=LAKE) as manager:
        manager.reset(seed=1)
        (cache,) = manager.step(go([0], " LEFT", "fly", "swim"))
        assert cache["history"][0]["actions"] == ["Left"]
        assert cache["penalty"] == -0.1
        assert cache["history"][1]["actions_left"] == 2


@pytest.mark.parametrize("written", [0.5, -0.5])
def test_the_penalty_lowers_the_score_whichever_sign_is_written(written):
    with here(["Lake"], custom=LAKE, format_penalty=written) as manager:
        manager.reset(seed=1)
        (cache,) = manager.step(go([0]))
        assert cache["penalty"] == -0.5
        (cache,) = manager.step(go([0], "fly"))
        assert cache["penalty"] == -1.0


def test_a_turn_without_a_valid_action_costs_one_of_the_budget_so_that_an_episode_ends():
    with here(["Lake"], custom=LAKE) as manager:
        manager.reset(seed=1)
        lefts = []
        outputs = [None]
        while outputs:
            outputs = manager.step(go([0], "fly"))
            lefts.append(manager.caches[0]["history"][-1]["actions_left"])
        assert lefts == [2, 1, 0]
        assert manager.statuses()[0] | {"seed": 1} == {
            "env_id": 0, "seed": 1, "num_actions": 3, "reward": 0.0, "terminated": True, "truncated": True,
        }  # fmt: skip


def test_actions_beyond_the_budget_are_not_executed_and_not_punished():
    with here(["Counting"], custom=COUNTING) as manager:
        manager.reset(seed=1)
        assert manager.step(go([0], *"abcdefg")) == []
        cache = manager.caches[0]
        assert cache["history"][0]["actions"] == list("abcd") and cache["penalty"] == 0
        assert cache["history"][1]["state"].startswith("4 steps")


def test_an_episode_stops_at_its_end_and_rewards_add_up():
    with here(["Counting"], custom=villain("Counting", budget=50)) as manager:
        manager.reset(seed=1)
        manager.step(go([0], *"abcdefgh"))
        assert manager.step(go([0], *"abcdefgh")) == []
        (status,) = manager.statuses()
        assert (status["num_actions"], status["terminated"], status["truncated"]) == (10, True, False)
        cache = manager.caches[0]
        assert status["reward"] == sum(entry["reward"] for entry in cache["history"][:-1])
        assert manager.get_rollout_states()["tags"]["Counting"]["success"] == 1.0


def test_the_last_entry_of_the_history_gains_what_was_said_and_done():
    with here(["Counting"], custom=COUNTING) as manager:
        manager.reset(seed=1)
        asked = {"env_id": 0, "actions": ["a"], "llm_response": "a", "llm_raw_response": "<answer>a</answer>"}
        (cache,) = manager.step([asked])
        first, second = cache["history"]
        assert first.keys() == {
            "state",
            "actions_left",
            "actions",
            "reward",
            "info",
            "llm_response",
            "llm_raw_response",
        }
        assert (first["llm_response"], first["llm_raw_response"]) == ("a", "<answer>a</answer>")
        assert second.keys() == {"state", "actions_left"}


def test_outputs_are_those_not_yet_done_in_the_order_of_the_inputs():
    with here(["Counting"], [5], 1, COUNTING) as manager:
        manager.reset(seed=1)
        inputs = go([4, 2], "a") + go([0], *"aaaa") + go([3], "a")
        assert [cache["env_id"] for cache in manager.step(inputs)] == [4, 2, 3]


def test_pictures_become_images_and_their_places_in_the_text():
    with here(["VisualSokoban"]) as manager:
        (cache,) = manager.reset(seed=1)
        (entry,) = cache["history"]
        assert entry["state"] == "<images>"
        assert entry["images"][0].size == (6 * 24, 6 * 24)
        assert manager.render() == [entry["images"]]


def test_render_shows_every_environment():
    with here(["Counting"], [2], 1, COUNTING) as manager:
        assert manager.render() == ["", ""]
        manager.reset(seed=1)
        manager.step(go([1], "a"))
        assert manager.render()[0] == "0 steps, 0 in all" and manager.render()[1].startswith("1 steps")


def test_what_an_environment_changes_later_does_not_change_the_history():
    with here(["SharesItsInfo"], custom=villain("SharesItsInfo")) as manager:
        manager.reset(seed=1)
        manager.step(go([0], "a"))
        (cache,) = manager.step(go([0], "b"))
        assert [entry["info"]["log"] for entry in cache["history"][:2]] == [["a"], ["a", "b"]]


# ---- what it came to


def test_rollout_states_are_means_per_tag():
    with here(["Lake", "Counting"], [1, 1], 2, {**LAKE, **COUNTING}) as manager:
        manager.reset(seed=1)
        manager.step(go([0], "Left", "fly") + go([1]) + go([2, 3], "a"))
        states = manager.get_rollout_states()
        lake = states["tags"]["Lake"]
        assert lake["invalid_rate"] == pytest.approx(2 / 3) and lake["num_actions"] == 1.0
        assert lake["timeouts"] == 0 and 0 < lake["latency_p50_ms"] <= lake["latency_p95_ms"]
        assert lake["action_is_valid"] == 1.0
        assert states["groups"].keys() == {0, 1} and states["groups"][0]["tag"] == "Lake"
        assert states["groups"][0].keys() == {"tag", "pass@1", "pass@2"}


def test_pass_at_k_is_the_unbiased_estimate():
    results = [True, False, False, True, False]
    estimate = pass_at_k(results)
    for k in range(1, 6):
        rng = np.random.default_rng(k)
        drawn = np.mean([any(rng.choice(results, k, replace=False)) for _ in range(3000)])
        assert estimate[f"pass@{k}"] == pytest.approx(drawn, abs=0.03)
    assert pass_at_k([False, False]) == {"pass@1": 0.0, "pass@2": 0.0}


# ---- workers


@pytest.mark.xdist_group("rollouts")
def test_use_multiprocessing_may_be_changed_in_the_middle_of_an_episode():
    config = settings(["Counting", "Lake"], [2, 2], 2, {**villain("Counting"), **LAKE}, max_workers=2)
    loop = plain(config)
    loop.reset(3)
    with EnvStateManager(config) as manager:
        manager.use_multiprocessing = False
        manager.reset(seed=3)
        for use in (False, True, True, "auto", False, "auto", True):
            manager.use_multiprocessing = use
            inputs = go([env_id for env_id, done in enumerate(loop.done) if not done], "down")
            assert manager.step(inputs) == loop.step(inputs)
            lives_here = {env.worker == HERE for env in manager.envs if not env.terminated}
            if use != "auto":  # which moves nothing before the next reset
                assert lives_here == {not use}


@pytest.mark.xdist_group("rollouts")
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


@pytest.mark.xdist_group("rollouts")
def test_sequential_env_types_stay_here_and_the_others_do_not():
    custom = {**villain("Counting"), **LAKE}
    config = settings(
        ["Counting", "Lake"], [2, 2], 1, custom, use_multiprocessing=True, sequential_env_types=["frozen_lake"]
    )
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        assert [env.worker == -1 for env in manager.envs] == [False, False, True, True]


@pytest.mark.xdist_group("rollouts")
def test_auto_leaves_cheap_environments_here_and_moves_dear_ones(monkeypatch):
    monkeypatch.setattr("abreast.rollouts.workers.placement.CHEAP_S", 0.001)  # whatever else this machine is doing
    custom = {**villain("Counting", seconds=0.004), **LAKE}
    with EnvStateManager(settings(["Counting", "Lake"], [8, 8], 1, custom, max_workers=2)) as manager:
        manager.reset(seed=1)
        assert not manager.worker_pids
        outputs = manager.step(go(range(16), "down"))
        manager.step(go([cache["env_id"] for cache in outputs], "down"))
        assert {env.worker for env in manager.envs[:8]} == {0, 1}
        assert {env.worker for env in manager.envs[8:] if not env.terminated} == {-1}


@pytest.mark.xdist_group("rollouts")
def test_dear_environments_are_spread_by_what_they_cost():
    custom = {
        "Dear": {"env_type": "Counting", "max_actions_per_traj": 9, "env_config": {"seconds": 0.004}},
        "Dearer": {"env_type": "Counting", "max_actions_per_traj": 9, "env_config": {"seconds": 0.012}},
    }
    config = settings(["Dear", "Dearer"], [6, 2], 1, custom, use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        manager.step(go(range(8), "a"))
        manager.reset(seed=2)
        costs = [0.0, 0.0]
        for env in manager.envs:
            costs[env.worker] += 12 if env.tag.name == "Dearer" else 4
        assert costs == [24, 24]


@pytest.mark.xdist_group("rollouts")
def test_a_thousand_environments_at_once():
    config = settings(["Lake"], [512], 2, LAKE, use_multiprocessing=True, max_workers=2)
    loop = plain(config)
    with EnvStateManager(config) as manager:
        assert len(manager) == 1024
        assert manager.reset(seed=1) == loop.reset(1)
        inputs = go(range(1024), "down", "right")
        assert manager.step(inputs) == loop.step(inputs)


DIGESTS = """
import hashlib, pickle, sys
sys.path.insert(0, {tests!r})
from abreast.rollouts import EnvStateManager
from rollout_helpers import settings
tags = ["LargerSokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA", "WebShop"]
if __name__ == "__main__":
    with EnvStateManager(settings(tags, [2] * 6, 2, use_multiprocessing={use}, max_workers=2, start_method={method!r})) as m:
        caches = m.reset(seed=5)
        actions = ["Up", "Left", "Dragon", "search[red shoes]"]
        outputs = m.step([{{"env_id": c["env_id"], "actions": actions}} for c in caches])
        print(hashlib.sha256(repr((caches, outputs)).encode()).hexdigest())
"""


@pytest.mark.xdist_group("rollouts")
def test_the_same_seed_gives_the_same_under_every_start_method_and_hash_seed():
    tests = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
    found = set()
    for use, method, hash_seed in [
        (False, "fork", "1"),
        (True, "fork", "2"),
        (True, "forkserver", "3"),
        (True, "spawn", "4"),
    ]:
        script = DIGESTS.format(tests=tests, use=use, method=method)
        ran = subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": hash_seed}, capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        found.add(ran.stdout.strip())
    assert len(found) == 1


@pytest.mark.xdist_group("rollouts")
def test_verify_steps_everything_here_too_and_notices_a_difference():
    config = settings(["Counting"], [4], 1, villain("Counting"), use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config, verify=True) as manager:
        manager.reset(seed=1)
        manager.step(go(range(4), "a"))
        manager.use_multiprocessing = False
        manager.step(go(range(4), "a"))
        manager.use_multiprocessing = True
        manager.step(go(range(4), "a"))
        assert manager.verified_turns == 12
    config = settings(["ForgetsItsSeed"], [2], 1, villain("ForgetsItsSeed"), use_multiprocessing=True)
    with EnvStateManager(config, verify=True) as manager, pytest.raises(RolloutError, match="disagree about its state"):
        manager.reset(seed=1)


# ---- not waiting for the slowest


SLOW = {
    **villain("Counting", seconds=0.6),
    "Quick": {"env_type": "Counting", "max_actions_per_traj": 20},
}


@pytest.mark.xdist_group("rollouts")
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


@pytest.mark.xdist_group("rollouts")
def test_quick_ones_do_not_wait_for_a_slow_one_in_the_same_worker():
    config = settings(["Quick", "Counting"], [3, 1], 1, SLOW, use_multiprocessing=True, max_workers=1)
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        manager.send(go([0, 1, 3, 2], "a"))
        assert {cache["env_id"] for cache in manager.recv(min_ready=2)} == {0, 1}
        assert manager.pending == [3, 2]
        assert [cache["env_id"] for cache in manager.recv(min_ready=2)] == [3, 2]


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.xdist_group("rollouts")
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


@pytest.mark.xdist_group("rollouts")
def test_a_reset_lets_turns_under_way_come_to_their_end():
    config = settings(["Counting"], [2], 1, villain("Counting", seconds=0.05), use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        manager.send(go([0, 1], "a"))
        caches = manager.reset(seed=1)
        assert [len(cache["history"]) for cache in caches] == [1, 1]
        assert [cache["history"][-1]["state"][:7] for cache in manager.step(go([0, 1], "a"))] == ["1 steps"] * 2


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.xdist_group("rollouts")
def test_steps_can_be_awaited_episode_by_episode(use):
    config = settings(["Counting"], [6], 1, villain("Counting", seconds=0.005), use_multiprocessing=use, max_workers=2)
    loop = plain(config)
    loop.reset(2)

    async def drive(manager, env_id):
        while await manager.step_async(go([env_id], "a", "b")):
            await asyncio.sleep(0.001)  # a language model thinks

    async def drive_all(manager):
        await asyncio.gather(*(drive(manager, env_id) for env_id in range(6)))

    with EnvStateManager(config) as manager:
        manager.reset(seed=2)
        asyncio.run(drive_all(manager))
        for env_id in range(6):
            while loop.step(go([env_id], "a", "b")):
                pass
        assert manager.caches == loop.caches
        assert manager.pending == []


@pytest.mark.xdist_group("rollouts")
def test_the_main_process_stays_awake_only_while_it_waits_and_a_core_is_free(monkeypatch):
    looks = []
    monkeypatch.setattr("abreast.processes.supervisor.look_out", lambda is_there: looks.append(is_there) and False)
    config = settings(["Counting"], [2], 1, villain("Counting", seconds=0.05), use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager._fleet._cores = 0
        manager.reset(seed=0)
        manager.step(go(range(2), "a"))
        assert not looks
        manager._fleet._cores = 3
        manager.send(go(range(2), "a"))
        assert manager.recv(timeout=0) == [] and not looks
        manager.recv(min_ready=2)
        assert looks


@pytest.mark.xdist_group("rollouts")
def test_those_who_await_turns_sleep_until_theirs_is_taken(monkeypatch):
    """(Waking each other, two of them once kept a core busy.)"""
    waits = []
    wait = asyncio.wait

    async def counted(*arguments, **more):
        waits.append(1)
        return await wait(*arguments, **more)

    monkeypatch.setattr(asyncio, "wait", counted)
    config = settings(["Counting"], [4], 1, villain("Counting", seconds=0.2), use_multiprocessing=True, max_workers=2)

    async def drive(manager):
        return await asyncio.gather(*(manager.step_async(go([env_id], "a")) for env_id in range(4)))

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        assert [len(outputs) for outputs in asyncio.run(drive(manager))] == [1] * 4
    assert len(waits) <= 12


@pytest.mark.xdist_group("rollouts")
def test_a_loop_that_is_closed_with_turns_under_way_leaves_the_manager_whole():
    config = settings(["Counting"], [2], 1, villain("Counting", seconds=0.3), use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        loop = asyncio.new_event_loop()
        task = loop.create_task(manager.step_async(go([0], "a")))
        loop.run_until_complete(asyncio.sleep(0.05))
        task._log_destroy_pending = False
        loop.close()
        assert len(asyncio.run(manager.step_async(go([1], "a")))) == 1
        manager.reset(seed=1)
        pids = manager.worker_pids
        again = asyncio.new_event_loop()
        task = again.create_task(manager.step_async(go([0], "a")))
        again.run_until_complete(asyncio.sleep(0.05))
        task._log_destroy_pending = False
        again.close()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)  # noqa: PTH110


@pytest.mark.xdist_group("rollouts")
def test_who_awaits_is_not_disturbed_by_descriptors_that_others_get():
    """The worker of a turn that is awaited dies, `recv` notices, and a pipe of the user's gets the number of its line."""
    custom = {**villain("Counting", seconds=0.3), "Calm": {"env_type": "Counting", "max_actions_per_traj": 20}}
    config = settings(["Counting", "Calm"], [2, 2], 1, custom, use_multiprocessing=True, max_workers=2)

    async def drive(manager):
        loop, heard = asyncio.get_running_loop(), []
        before = set(loop._selector.get_map())
        turn = asyncio.create_task(manager.step_async(go([0], "a")))
        await asyncio.sleep(0.05)
        kill(*manager.worker_pids)
        manager.send(go([2, 3], "a"))
        assert len(manager.recv(min_ready=2)) == 2
        looked_at = set(loop._selector.get_map()) - before
        assert looked_at == {manager._fleet.pool.fileno()}, "it does not go away with a worker"
        pipes = [os.pipe() for _ in range(8)]
        for reader, writer in pipes:
            loop.add_reader(reader, heard.append, reader)
            os.write(writer, b"x")
        outputs = await turn
        for reader, writer in pipes:
            assert reader in heard
            loop.remove_reader(reader)
            os.close(reader)
            os.close(writer)
        return outputs

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        assert len(asyncio.run(drive(manager))) == 1


@pytest.mark.xdist_group("rollouts")
def test_an_error_reaches_all_who_await(monkeypatch):
    config = settings(["Counting"], [2], 1, villain("Counting", seconds=0.1), use_multiprocessing=True, max_workers=2)

    async def drive(manager):
        tasks = [asyncio.create_task(manager.step_async(go([env_id], "a"))) for env_id in range(2)]
        await asyncio.sleep(0)

        def disagrees(wait_s):
            raise RolloutError("they disagree.")

        monkeypatch.setattr(manager._fleet, "hear", disagrees)
        return await asyncio.gather(*tasks, return_exceptions=True)

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        assert [str(error) for error in asyncio.run(drive(manager))] == ["they disagree."] * 2


@pytest.mark.parametrize("first", [False, "auto"])
@pytest.mark.xdist_group("rollouts")
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


@pytest.mark.xdist_group("rollouts")
def test_an_awaited_step_survives_the_death_of_a_worker():
    config = settings(["Counting"], [4], 1, villain("Counting", seconds=0.1), use_multiprocessing=True, max_workers=2)

    async def drive(manager):
        turn = asyncio.create_task(manager.step_async(go(range(4), "a", "b")))
        await asyncio.sleep(0.05)
        kill(manager.worker_pids[0])
        return await turn

    loop = plain(config)
    loop.reset(2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=2)
        assert asyncio.run(drive(manager)) == loop.step(go(range(4), "a", "b"))


# ---- used wrongly


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n_groups": [3]}, r"n_groups \[3\] add up to 3, but env_groups is 2"),
        ({"n_groups": [1, 1]}, "1 tags but 2 n_groups"),
        ({"n_groups": [0, 2], "tags": ["Lake", "Lake"]}, "each tag needs at least one group"),
        (
            {"tags": ["SimpleSokobann"], "n_groups": [2]},
            "no tag or .* 'SimpleSokobann': did you mean 'SimpleSokoban'",
        ),
        ({"tags": ["Typo"], "n_groups": [2]}, "no environment type 'frozen_lak': did you mean 'frozen_lake'"),
        ({"tags": ["Bad"], "n_groups": [2]}, "env_config of the tag 'Bad': size is 1"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(change, says):
    custom = {
        **LAKE,
        "Typo": {"env_type": "frozen_lak"},
        "Bad": {"env_type": "frozen_lake", "env_config": {"size": 1}},
    }
    config = settings(["Lake"], [2], 1, custom)
    config["es_manager"]["train"]["env_configs"] |= change
    config["es_manager"]["val"] = settings(["Lake"], [2])["es_manager"]["val"]
    with pytest.raises((ConfigError, RolloutError), match=says):
        EnvStateManager(config)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ("left", "inputs are 'left': expected a list"),
        ([{"actions": ["a"]}], "expected a mapping with env_id and actions"),
        ([3], "an input is 3"),
        (go([2], "a"), "env_id is 2: expected a number from 0 to 1"),
        (go([-1], "a"), "env_id is -1"),
        (go([True], "a"), "env_id is True"),
        (go(["0"], "a"), "env_id is '0'"),
        (go([0, 1, 0], "a"), "environment 0 is given twice"),
        ([{"env_id": 0, "actions": "left"}], "actions of environment 0 are 'left': expected a list of texts"),
        (go([0], 1), "expected a list of texts"),
        (go([0], None), "expected a list of texts"),
    ],
)
def test_a_wrong_input_is_refused_before_anything_is_stepped(inputs, says):
    with here(["Counting"], [2], 1, COUNTING) as manager:
        manager.reset(seed=1)
        before = [dict(status) for status in manager.statuses()]
        with pytest.raises(RolloutError, match=says):
            manager.step(inputs)
        assert manager.statuses() == before and manager.pending == []
        assert len(manager.step(go([0, 1], "a"))) == 2


def test_calls_out_of_order_are_named():
    manager = here(["Counting"], [2], 1, COUNTING)
    with pytest.raises(RolloutError, match="no episode yet: call reset"):
        manager.step(go([0], "a"))
    with pytest.raises(RolloutError, match="recv called before send"):
        manager.recv()
    manager.reset(seed=1)
    with pytest.raises(RolloutError, match="recv called before send"):
        manager.recv()
    manager.step(go([0], *"aaaa"))
    with pytest.raises(RolloutError, match="the episode of environment 0 is over"):
        manager.step(go([0], "a"))
    with pytest.raises(RolloutError, match="the seed is -1"):
        manager.reset(seed=-1)
    manager.use_multiprocessing = "sometimes"
    with pytest.raises(RolloutError, match="use_multiprocessing is 'sometimes'"):
        manager.step(go([1], "a"))
    manager.close()
    manager.close()
    for call in (manager.reset, manager.render, manager.recv, lambda: manager.step([])):
        with pytest.raises(RolloutError, match="the manager is closed"):
            call()
    with pytest.raises(ConfigError, match="mode is 'test'"):
        EnvStateManager(settings(["Lake"]), mode="test")


def test_nothing_asked_nothing_done():
    with here(["Counting"], custom=COUNTING) as manager:
        manager.reset(seed=1)
        assert manager.step([]) == []


@pytest.mark.parametrize("text", ["x" * 1_000_000, "9**9**9", "().__class__", "(" * 10_000 + ")" * 10_000])
@pytest.mark.parametrize("tag", ["SimpleSokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA", "WebShop"])
def test_hostile_texts_cost_a_penalty_or_nothing_and_no_time(tag, text):
    with here([tag]) as manager:
        manager.reset(seed=1)
        started = time.monotonic()
        manager.step(go([0], text))
        assert time.monotonic() - started < 5.0
        (entry, _) = manager.caches[0]["history"]
        assert entry["reward"] == 0 and "error" not in entry["info"]


def test_an_environment_that_cannot_be_sent_stays_here_and_says_so(caplog):
    @villain_envs.register("local", config=villain_envs.CountingConfig)
    def make(config):
        return villain_envs.Counting(config)

    custom = {"Local": {"env_type": "local"}}
    with EnvStateManager(settings(["Local"], [2], 1, custom, use_multiprocessing=True)) as manager:
        manager.reset(seed=1)
        manager.step(go([0, 1], "a"))
        assert not manager.worker_pids
    assert "environments of type local stay in the main process" in caplog.text
