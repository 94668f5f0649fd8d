"""The rules of the manager, and its messages to users who use it wrongly."""

import enum
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts import EnvStateManager
from rollout_helpers import (
    CALM,
    COUNTING,
    LAKE,
    go,
    here,
    plain,
    settings,
    villain,
    workers,
)

pytestmark = pytest.mark.xdist_group("rollouts: manager")


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
            "env_id": 0, "seed": 1, "num_actions": 0, "reward": 0.0, "terminated": True, "truncated": True,
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


def test_rollout_states_are_means_over_the_episodes_that_are_over_and_the_others_are_counted():
    custom = {**LAKE, **COUNTING, **villain("RaisesInStep", harm_at=1), **villain("RaisesInReset", harm_seed=3)}
    with here(["Lake", "Counting", "RaisesInStep", "RaisesInReset"], [1, 1, 1, 1], 2, custom) as manager:
        assert manager.get_rollout_states()["tags"]["Lake"]["never_begun"] == 2
        manager.reset(seed=0)
        manager.step(go([0], "fly") + go([1]) + go([2], *"aaaa") + go([3], "a"))
        manager.reset(env_ids=[4], seeds=[0])
        manager.step(go([4], "a"))
        states = manager.get_rollout_states()
        lake, counting, fails, cannot = states["tags"].values()
        counts = ("episodes", "unfinished", "failed", "never_begun")
        assert [[each[key] for key in counts] for each in states["tags"].values()] == [
            [0, 2, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [2, 0, 2, 0],
        ]  # fmt: skip
        assert math.isnan(lake["success"]) and math.isnan(lake["invalid_rate"])
        assert manager.get_measurements()["Lake"].keys() == {"latency_p50_ms", "latency_p95_ms", "timeouts"}
        assert manager.get_measurements()["Lake"]["latency_p50_ms"] > 0
        assert counting["num_actions"] == 4 and counting["success"] == 0.0 and counting["invalid_rate"] == 0.0
        assert counting["reward"] == counting["score"] == manager.statuses()[2]["reward"]
        assert (fails["success"], fails["reward"], cannot["success"], cannot["num_actions"]) == (0.0, 0.0, 0.0, 0)
        assert states["groups"][0] == {"tag": "Lake"} and states["groups"][1] == {"tag": "Counting", "pass@1": 0.0}


def test_an_episode_that_cannot_go_on_is_no_success_in_its_group():
    custom = {**villain("RaisesInStep", harm_seed=0), **villain("Counting")}
    with here(["RaisesInStep"], [2], 2, custom) as manager:
        manager.reset(seed=1)  # both of seed 1 succeed
        manager.step(go([0, 1, 3], *["a"] * 10))
        manager.reset(env_ids=[1], seeds=[0])
        manager.step(go([1], *["a"] * 10))
        states = manager.get_rollout_states()
        assert states["groups"][0] == {"tag": "RaisesInStep", "pass@1": 0.5, "pass@2": 1.0}
        each = states["tags"]["RaisesInStep"]
        assert (each["episodes"], each["failed"], each["unfinished"]) == (3, 1, 1)
        assert each["success"] == pytest.approx(2 / 3)


def test_the_success_of_an_environment_that_never_says_it_is_not_known(caplog):
    sparse = {"env_type": "SaysNoSuccess", "env_config": {"flag": "only when it succeeds"}}
    custom = {"Silent": {"env_type": "SaysNoSuccess"}, "Sparse": sparse}
    with here(["Silent", "Sparse"], [2, 2], 1, custom) as manager:
        manager.reset(seed=0)
        manager.step(go([1]))  # so it is cut off
        manager.step(go(range(4), *["a"] * 10))
        for _ in range(2):
            states = manager.get_rollout_states()
        silent, sparse = states["tags"].values()
        assert math.isnan(silent["success"]) and silent["reward"] > 0 and sparse["success"] == 0.5
        assert math.isnan(states["groups"][0]["pass@1"]) and states["groups"][2]["pass@1"] == 0.0
        assert caplog.text.count('No episode of Silent ended with info["success"]') == 1, "once"
        assert "TextAdapter" in caplog.text and "of Sparse" not in caplog.text


def test_invalid_actions_are_a_share_of_all_actions():
    with here(["Lake"], [2], 1, {"Lake": {**LAKE["Lake"], "max_actions_per_traj": 3}}) as manager:
        manager.reset(seed=1)
        manager.step(go([0], "fly") + go([1], "left", "left", "left"))
        manager.step(go([0], "fly", "left", "left"))
        rates = [cache["metrics"]["Lake/invalid_rate"] for cache in manager.caches]
        assert rates == [0.5, 0.0] and manager.get_rollout_states()["tags"]["Lake"]["invalid_rate"] == 2 / 7


def test_states_and_metrics_have_one_definition_each():
    with here(["Lake"], [1], 2, LAKE) as manager:
        manager.reset(seed=1)
        outputs = [None]
        while outputs:
            outputs = manager.step([{"env_id": s["env_id"], "actions": ["Left", "fly"]}
                                    for s in manager.statuses() if not s["terminated"]])  # fmt: skip
        states = manager.get_rollout_states()["tags"]["Lake"]
        metrics = [cache["metrics"] for cache in manager.caches]
        for key in ("success", "num_actions", "reward", "penalty", "score", "invalid_rate", "action_is_valid",
                    "action_is_effective"):  # fmt: skip
            assert states[key] == pytest.approx(sum(each[f"Lake/{key}"] for each in metrics) / 2), key
        assert states["invalid_rate"] == 0.5 and states["penalty"] < 0
        assert states["score"] == pytest.approx(states["reward"] + states["penalty"])


def test_a_thousand_environments_at_once():
    config = settings(["Calm"], [512], 2, CALM, use_multiprocessing=True, max_workers=2)
    loop = plain(config)
    with EnvStateManager(config) as manager:
        assert len(manager) == 1024
        assert manager.reset(seed=1) == loop.reset(1)
        inputs = go(range(1024), "a", "b")
        assert manager.step(inputs) == loop.step(inputs)


DIGESTS = """
import hashlib, pickle, sys
sys.path.insert(0, {tests!r})
from abreast.rollouts import EnvStateManager
from rollout_helpers import settings
tags = ["LargerSokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA", "WebShop"]
if __name__ == "__main__":
    with EnvStateManager(settings(tags, [1] * 6, 2, use_multiprocessing={use}, max_workers=2, start_method={method!r})) as m:
        caches = m.reset(seed=5)
        actions = ["Up", "Left", "Dragon", "search[red shoes]"]
        outputs = m.step([{{"env_id": c["env_id"], "actions": actions}} for c in caches])
        print(hashlib.sha256(repr((caches, outputs)).encode()).hexdigest())
"""


def test_the_same_seed_gives_the_same_under_every_start_method_and_hash_seed():
    tests = str(Path(__file__).parent.parent)
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


def test_if_none_can_begin_that_is_an_error():
    with EnvStateManager(settings(["RaisesInReset"], [1], 2, villain("RaisesInReset"))) as manager:
        assert manager.get_rollout_states()["tags"]["RaisesInReset"]["never_begun"] == 2
        with pytest.raises(
            RolloutError, match=r"no environment could begin, environment 0 \(RaisesInReset\) because of"
        ):
            manager.reset(seed=0)
        assert [status["num_actions"] for status in manager.statuses()] == [0, 0]
        assert len(manager.reset(seed=1)) == 2, "with another seed they can"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n_groups": [3]}, r"n_groups \[3\] add up to 3, but env_groups is 2"),
        ({"n_groups": [1, 1]}, "1 tags but 2 n_groups"),
        ({"n_groups": [0, 2], "tags": ["Lake", "Lake"]}, "n_groups.* expected greater than or equal to 1"),
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
        (go([2], "a"), "env_id is 2: expected a whole number from 0 to 1"),
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


def test_recv_of_nothing_is_refused():
    with EnvStateManager(settings(["Calm"], custom=CALM, use_multiprocessing=False)) as manager:
        manager.reset(seed=0)
        manager.send(go([0], "a"))
        with pytest.raises(RolloutError, match="min_ready is 0"):
            manager.recv(min_ready=0)
        assert len(manager.recv(timeout=0)) == 1


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


@pytest.mark.parametrize("use", [True, False])
def test_every_environment_is_closed_with_the_manager(use, tmp_path):
    custom = villain("TellsWhenClosed", flag=str(tmp_path / "closed"))
    with EnvStateManager(workers(["TellsWhenClosed"], [3], custom, use_multiprocessing=use)) as manager:
        manager.reset(seed=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed0", "closed1", "closed2"]


UNCLOSED = """
from abreast.rollouts import EnvStateManager

if __name__ == "__main__":
    groups = {"env_groups": 2, "group_size": 2, "env_configs": {"tags": ["FrozenLake"], "n_groups": [2]}}
    manager = EnvStateManager({"es_manager": {"use_multiprocessing": True, "max_workers": 2, "train": groups}})
    print(len(manager.reset(seed=1)))
"""


def test_a_program_that_does_not_close_its_manager_ends_quietly(tmp_path):
    (tmp_path / "script.py").write_text(UNCLOSED)
    run = [sys.executable, "script.py"]
    ended = subprocess.run(run, check=True, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("4\n", "")
