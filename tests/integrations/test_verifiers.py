"""verifiers itself: its classes take ours. Its agents need programs from the network, so one stands in for them."""

import asyncio
from contextlib import asynccontextmanager
from itertools import islice
from types import SimpleNamespace

import pytest

vf = pytest.importorskip("verifiers.v1", reason='verifiers is not installed: pip install "abreast[verifiers]"')

from verifiers.v1.utils.loaders import load_taskset, taskset_class  # noqa: E402

from abreast.errors import RolloutError  # noqa: E402
from abreast.integrations.verifiers import AbreastConfig, AbreastEnv, AbreastTaskset  # noqa: E402
from abreast.rollouts import EnvStateManager  # noqa: E402

CONFIG = {"context": {"enable_think": False}}
MOVES = ["<answer>Right</answer>", "what?", "<answer>Down || Right</answer>"]


class Player:
    """An agent that answers by the number of the turn, and stops when it is told to."""

    def __init__(self, most=100):
        self.told, self.most = [], most
        self.trace = SimpleNamespace(rewards={}, metrics={}, info={})
        self.trace.record_reward = lambda name, value, weight=1.0: self.trace.rewards.update({name: value})
        self.trace.record_metric = lambda name, value: self.trace.metrics.update({name: value})

    @asynccontextmanager
    async def interaction(self, task):
        yield self

    async def turn(self, message):
        self.told.append(message)
        return SimpleNamespace(last_reply=MOVES[(len(self.told) - 1) % 3], terminated=len(self.told) > self.most)


def play(task, most=100):
    player = Player(most)
    asyncio.run(AbreastEnv.run(AbreastEnv.__new__(AbreastEnv), task, SimpleNamespace(player=player)))
    return player


def taskset(**more):
    return AbreastTaskset(AbreastConfig(id="abreast", tag="FrozenLake", rollouts=CONFIG, **more))


def test_tasks_are_episodes_and_are_played_as_ours():
    first, second = islice(taskset(first_seed=7), 2)
    assert isinstance(first, vf.Task) and (first.data.seed, second.data.seed, second.data.idx) == (7, 8, 1)
    assert first.data.system_prompt.startswith("You play a game")
    player = play(first)
    with (
        EnvStateManager.for_tag("FrozenLake", config=CONFIG, use_multiprocessing=False) as manager,
        manager.episode(seed=7) as episode,
    ):
        told = []
        while not episode.done:
            told.append(episode.messages[-1:])
            episode.step(MOVES[(len(told) - 1) % 3])
    assert player.told == told and player.trace.rewards == {"score": episode.score}
    assert player.trace.metrics["success"] == float(episode.success) and player.trace.info["episode"]["seed"] == 7


def test_a_player_that_stops_leaves_no_episode_behind():
    from abreast.integrations.trainers import shared_episodes

    player = play(next(iter(taskset())), most=1)
    assert len(player.told) == 2 and "score" in player.trace.rewards
    assert shared_episodes("FrozenLake", CONFIG).manager.episodes_under_way == 0


def test_a_module_of_ones_own_is_a_taskset(tmp_path, monkeypatch):
    (tmp_path / "my_lakes.py").write_text(
        "from abreast.integrations.verifiers import AbreastEnv, AbreastTaskset\n"
        "__all__ = ['AbreastEnv', 'AbreastTaskset']\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert taskset_class("my_lakes") is AbreastTaskset
    config = AbreastConfig(id="my_lakes", tag="FrozenLake", rollouts=CONFIG)
    assert next(iter(load_taskset(config))).data.tag == "FrozenLake"


def test_a_tag_that_does_not_exist_is_named():
    with pytest.raises(RolloutError, match="there is no tag or environment type 'FrozenLaek'"):
        next(iter(AbreastTaskset(AbreastConfig(id="abreast", tag="FrozenLaek"))))
