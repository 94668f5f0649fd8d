"""Environments of another shape."""

import pickle
import random

import pytest

from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager, register
from abreast.rollouts.adapters import FourTuple
from rollout_helpers import go, settings


class Old:
    """As it was done before Gymnasium."""

    def __init__(self, config=None):
        self.chance = random.Random()

    def seed(self, seed):
        self.chance.seed(seed)

    def reset(self):
        self.steps = 0
        self.start = self.chance.randrange(1000)
        return self.start

    def step(self, action):
        self.steps += 1
        cut = self.steps == 5
        return (
            self.start,
            1,
            cut or action == "end",
            {"success": not cut, **({"TimeLimit.truncated": True} if cut else {})},
        )

    def render(self):
        return f"{self.start} and {self.steps}"


@register("old")
def make_old(config):
    return FourTuple(Old())


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.xdist_group("rollouts")
def test_old_environments_are_stepped_like_others(use):
    config = settings(["Old"], [2], 1, {"Old": {"env_type": "old", "max_actions_per_traj": 9}}, use_multiprocessing=use)
    with EnvStateManager(config) as manager:
        first, second = (cache["history"][0]["state"] for cache in manager.reset(seed=1))
        assert first != second
        assert manager.reset(seed=1)[0]["history"][0]["state"] == first
        assert manager.step(go([0], "end") + go([1], *"abcdefg")) == []
        over, cut = manager.statuses()
        assert (over["terminated"], over["truncated"]) == (True, False)
        assert (cut["terminated"], cut["truncated"], cut["num_actions"]) == (True, True, 5)


def test_it_can_be_pickled_and_lets_everything_else_through():
    wrapped = pickle.loads(pickle.dumps(FourTuple(Old())))
    wrapped.reset(seed=3)
    assert wrapped.start == random.Random(3).randrange(1000)
    with pytest.raises(AttributeError):
        _ = wrapped.nothing


# ---- found by themselves, with the manager


def play(env, actions, use=False, mode="train", seed=1, **config):
    tag = {"env_type": f"stranger_envs:{env}", "max_actions_per_traj": 9, "env_config": config}
    with EnvStateManager(settings(["S"], [2], 1, {"S": tag}, use_multiprocessing=use), mode=mode) as manager:
        manager.reset(seed=seed)
        manager.step(go([0, 1], *actions))
        return manager.caches, manager.statuses()


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.xdist_group("rollouts")
@pytest.mark.parametrize("env", ["Ragen", "NeedsBoth", "OldDiscrete", "TextRender"])
def test_each_gets_its_seed(env, use):
    (first, second), _ = play(env, ["1"], use)
    assert first["history"][0]["state"] != second["history"][0]["state"], "the groups have two seeds"
    (again, _), _ = play(env, ["1"], not use)
    assert again["history"] == first["history"], "the same seed"


def test_the_seed_is_the_one_of_the_manager():
    (first, _), _ = play("Ragen", ["go"], seed=7)
    assert first["history"][0]["state"] == f"train {random.Random(7).random():.3f} after 0"
    (first, _), _ = play("OldDiscrete", ["1"], seed=7)
    assert first["history"][0]["state"] == f"[{random.Random(7).randrange(1000)}, 0]"


@pytest.mark.parametrize("env", ["Ragen", "NeedsBoth"])
@pytest.mark.parametrize("mode", ["train", "val"])
def test_the_mode_is_passed_where_it_is_taken(env, mode):
    (first, _), _ = play(env, ["go"], mode=mode)
    assert first["history"][0]["state"].startswith(mode)


def test_done_and_time_limits_become_terminated_and_truncated():
    _, (status, _) = play("Ragen", ["go", "end", "go"])
    assert (status["terminated"], status["truncated"], status["num_actions"], status["reward"]) == (True, False, 2, 2.0)
    _, (status, _) = play("OldDiscrete", ["0"] * 7)
    assert (status["terminated"], status["truncated"], status["num_actions"]) == (True, True, 5)


def test_old_environments_with_numbers_are_given_numbers():
    (cache, _), _ = play("OldDiscrete", ["2", "no", "0", "1"])
    start, (after, steps) = cache["history"][0]["state"], eval(cache["history"][-1]["state"])
    assert (after, steps) == (eval(start)[0], 3) and cache["penalty"] == -0.1
    assert cache["history"][0]["actions"] == ["2", "0", "1"]


def test_a_render_for_a_screen_is_not_called():
    (cache, _), _ = play("OldDiscrete", ["1"])
    assert cache["history"][0]["state"].startswith("[")
    (cache, _), _ = play("TextRender", ["1"])
    assert cache["history"][0]["state"].startswith("<red:")


def test_one_that_takes_no_seed_is_played_all_the_same():
    (first, second), _ = play("Seedless", ["1"])
    assert first["history"][0]["state"] == second["history"][0]["state"]


@pytest.mark.parametrize(
    ("reset", "seeded"),
    [
        (lambda self, seed=None, options=None, mode=None: (seed, mode), (5, "val")),
        (lambda self, **more: sorted(more.items()), [("seed", 5)]),
        (lambda self, *, seed: seed, 5),
        (lambda self: "none", "none"),
    ],
)
def test_reset_is_called_as_it_is_written(reset, seeded):
    env = type("Some", (), {"reset": reset, "step": lambda self, action: (1, 2, True, {})})()
    assert FourTuple(env, "val").reset(seed=5) == (seeded, {})
    assert FourTuple(env).step("a") == (1, 2.0, True, False, {})


def test_what_has_five_values_already_stays():
    env = type(
        "Some", (), {"reset": lambda self: ("a", {"b": 1}), "step": lambda self, action: (1, 2, False, True, {})}
    )()
    assert FourTuple(env).reset(seed=1) == ("a", {"b": 1}) and FourTuple(env).step("a") == (1, 2, False, True, {})


def test_another_number_of_values_is_told():
    env = type("Some", (), {"reset": lambda self: "a", "step": lambda self, action: (1, 2, False)})()
    with pytest.raises(
        RolloutError, match=r"step returned \(1, 2, False\): expected \(observation, reward, terminated"
    ):
        FourTuple(env).step("a")
