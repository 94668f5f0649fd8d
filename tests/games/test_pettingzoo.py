"""Our games as PettingZoo environments, under PettingZoo's own tests, and played as we play them."""

import importlib
import sys
import warnings

import numpy as np
import pettingzoo
import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test, seed_test

from abreast.agents import MovingAgent
from abreast.errors import ConfigError, GameError, WorldError
from abreast.games import find_game, list_games
from abreast.games.pettingzoo import ParallelGame, TurnGame, env, parallel_env
from abreast.training.collect import collect_pass

OWN = f"{importlib.import_module('own_game').__file__}"


@pytest.mark.parametrize("game", ["treasurehunt", "cleanup", "staghunt", "tag"])
def test_pettingzoos_own_tests(game):
    module = importlib.import_module(f"abreast.games.{game}.{game}_v0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(module.parallel_env(max_turns=10), num_cycles=25)
        api_test(module.env(max_turns=4), num_cycles=15)
        api_test(module.raw_env(num_agents=3), num_cycles=15)
        seed_test(module.env, num_cycles=8)
        parallel_seed_test(module.parallel_env, num_cycles=8)
        render_test(module.env)
    assert module.parallel_env().metadata["name"] == f"{game}_v0"


def test_every_game_is_there_and_registered():
    for game in list_games():
        assert importlib.import_module(f"abreast.games.{game}.{game}_v0").parallel_env().possible_agents
        registered = [pettingzoo.make(kind, f"abreast/{game}-v0", num_agents=3) for kind in ("aec", "parallel")]
        assert [type(each.unwrapped) for each in registered] == [TurnGame, ParallelGame]
        assert [len(each.possible_agents) for each in registered] == [3, 3]


def played_by_us(game, order, turns):
    """What agents see, do and get in one epoch."""
    found = find_game(game)
    sections = {"experiment": {"max_turns": turns, "turn_order": order}, "model": {"n_frames": 1}}
    one = found.build(found.configure(sections))
    collect_pass(one.game, 0)
    rows = [agent.model.memory.trajectory(0, 0) for agent in one.agents]
    return [(each.states[:, 0], each.actions, each.rewards) for each in rows]


@pytest.mark.parametrize("game", ["treasurehunt", "staghunt", OWN])
def test_agents_see_and_get_what_they_would_here(game):
    ours = played_by_us(game, "simultaneous", 12)
    zoo = parallel_env(game, max_turns=12)
    seen, _ = zoo.reset()
    for turn in range(12):
        assert all(np.array_equal(seen[f"agent_{i}"], states[turn]) for i, (states, _, _) in enumerate(ours))
        seen, rewards, done, cut, _ = zoo.step({f"agent_{i}": each[1][turn] for i, each in enumerate(ours)})
        assert [np.float32(reward) for reward in rewards.values()] == [each[2][turn] for each in ours]
        assert (set(cut.values()), set(done.values())) == ({turn == 11}, {False})
    assert zoo.agents == []


@pytest.mark.parametrize("game", ["treasurehunt", "cleanup", "tag", OWN])
def test_agents_in_turn_see_and_get_what_they_would_here(game):
    ours = played_by_us(game, "sequential", 9)
    zoo = env(game, max_turns=9)
    zoo.reset()
    got = np.zeros((len(ours), 9))
    for step, name in enumerate(zoo.agent_iter()):
        number, turn = int(name.removeprefix("agent_")), min(step // len(ours), 9)
        seen, reward, done, cut, _ = zoo.last()
        if turn:
            got[number, turn - 1] = reward
        if not cut:
            assert np.array_equal(seen, ours[number][0][turn])
        zoo.step(None if done or cut else ours[number][1][turn])
    assert step == len(ours) * 10 - 1 and (got.astype(np.float32) == [each[2] for each in ours]).all()


def test_legal_actions_are_told():
    game = f"{OWN.replace('own_game', 'fenced_game')}:FencedGarden"
    api_test(env(game, max_turns=5), num_cycles=20)
    zoo = parallel_env(game, max_turns=8)
    _, infos = zoo.reset(seed=1)
    while zoo.agents:  # the game itself refuses what is not legal
        masks = {name: infos[name]["action_mask"] for name in zoo.agents}
        _, _, _, _, infos = zoo.step({name: int(mask.argmax()) for name, mask in masks.items()})


def test_a_seed_gives_the_same_episode_and_none_gives_another():
    def first(zoo, seed):
        return np.concatenate([seen.ravel() for seen in zoo.reset(seed=seed)[0].values()])

    one, other = parallel_env("treasurehunt"), parallel_env("treasurehunt", seed=5)
    assert (first(one, 7) == first(other, 7)).all()
    assert (first(one, None) == first(other, None)).all()
    assert (first(one, 7) != first(one, None)).any() and (first(one, 7) != first(one, 8)).any()


class Sleepwalker(MovingAgent):
    def transition(self, world):
        """Acts by itself."""


def test_bad_input_is_refused_in_a_sentence(monkeypatch):
    with pytest.raises(ConfigError, match=r"treasurehunt has no setting 'gem_vlaue': did you mean 'gem_value'\?"):
        parallel_env("treasurehunt", gem_vlaue=3)
    with pytest.raises(ConfigError, match="render_mode is 'rgb'"):
        parallel_env("treasurehunt", render_mode="rgb")
    with pytest.raises(GameError, match="CartPole-v1 is an environment of another library"):
        env("gymnasium:CartPole-v1")
    zoo = parallel_env("treasurehunt", num_agents=2)
    with pytest.raises(WorldError, match="call reset"):
        zoo.step({})
    zoo.reset()
    with pytest.raises(WorldError, match="no action of agent_1"):
        zoo.step({"agent_0": 0})
    with pytest.raises(WorldError, match=r"agent_0 of TreasurehuntEnv was given the action 4: expected .* 0 to 3"):
        zoo.step({"agent_0": 4, "agent_1": 0})
    game = find_game("treasurehunt")
    setup = game.environment.setup_agents

    def asleep(self):
        setup(self)
        self.agents[0].__class__ = Sleepwalker

    monkeypatch.setattr(game.environment, "setup_agents", asleep)
    for kind in (ParallelGame, TurnGame):
        with pytest.raises(GameError, match=r"agent 0 of TreasurehuntEnv \(Sleepwalker\) takes its turn by itself"):
            kind(game, None, {})


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "abreast.games.pettingzoo")
    with pytest.raises(GameError, match=r'pip install "abreast\[pettingzoo\]"'):
        importlib.import_module("abreast.games.pettingzoo")
