"""Environments of another shape."""

import pickle
import random

import pytest

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
