"""Environments with numbers for actions, as users bring them, played with texts."""

import gymnasium
import numpy as np
import pytest

import stranger_envs
from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager, find_tag, register
from abreast.rollouts.adapters import Adapter, TextAdapter, adapt
from abreast.rollouts.config import OpenEnvConfig
from rollout_helpers import go, settings


@register("registered_walk")
class RegisteredWalk(stranger_envs.Walk):
    def __init__(self, config):
        super().__init__(config.length)


def play(kind, turns, use=False, **config):
    tag = {"env_type": kind, "max_actions_per_traj": 20, "env_config": config}
    with EnvStateManager(settings(["S"], [2], 1, {"S": tag}, use_multiprocessing=use, max_workers=2)) as manager:
        manager.reset(seed=3)
        for actions in turns:
            manager.step(go([0, 1], *actions))
        return manager.caches, manager.statuses()


@pytest.mark.parametrize("use", [True, False])
@pytest.mark.xdist_group("rollouts")
@pytest.mark.parametrize("kind", ["stranger_envs:Walk", "registered_walk"])
def test_a_users_discrete_environment_gets_numbers(kind, use):
    (cache, _), _ = play(kind, [["1"], ["1", "0"]], use, length=9)
    env = stranger_envs.Walk(9)
    env.reset(seed=3)
    for action in (1, 1, 0):
        seen, *_, info = env.step(action)
    assert cache["history"][-1]["state"] == f"[{seen[0]:g}, {seen[1]:g}]"
    assert cache["history"][1]["actions"] == ["1", "0"] and cache["history"][1]["info"]["wind"] == info["wind"]
    assert cache["penalty"] == 0


class PaysNothing(stranger_envs.Walk):
    def step(self, action):
        observation, _, *more = super().step(int(action))
        return observation, None, *more


class PaysNothingOfOld(stranger_envs.OldDiscrete):
    def step(self, action):
        observation, _, *more = super().step(action)
        return observation, None, *more


class PaysNothingForTexts(PaysNothing):
    render_mode = "text"

    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.Text(1)

    def render(self):
        return "on"


@pytest.mark.parametrize("kind", [PaysNothing, PaysNothingOfOld, PaysNothingForTexts])
def test_a_reward_that_is_no_number_is_named_as_the_reward(kind):
    (cache, _), _ = play(f"{__name__}:{kind.__name__}", [["1"]])
    assert cache["history"][-2]["info"]["error"] == "its reward is None, expected a finite number."


@pytest.mark.parametrize("junk", ["2", "go", "", "-1", "1.0", "9" * 5000])
def test_unknown_actions_are_dropped_with_a_penalty(junk):
    (cache, _), (status, _) = play("stranger_envs:Walk", [[junk, "1"], [junk]])
    assert cache["history"][0]["actions"] == ["1"] and cache["history"][1]["actions"] == []
    assert cache["penalty"] == -0.2 and status["num_actions"] == 1 and not status["terminated"]


def test_names_of_the_environment_are_known_beside_numbers():
    (cache, _), _ = play("stranger_envs:NamedWalk", [["forth", "0", " Back "]])
    assert cache["history"][0]["actions"] == ["forth", "0", " Back "] and cache["penalty"] == 0
    assert cache["history"][0]["info"]["available_actions"] == ["BACK", "FORTH"]


def test_several_numbers_make_one_action():
    (cache, _), (status, _) = play("stranger_envs:Lock", [["1 1", "[3, 4]", "2,2", "0 0"]])
    assert cache["history"][0]["actions"][0] == "1 1" and cache["penalty"] == -0.1
    assert "hint.sum: " in cache["history"][0]["state"]
    tries = [f"{a} {b}" for a in (1, 2, 3) for b in (1, 2, 3, 4)]
    _, (status, _) = play("stranger_envs:Lock", [tries])
    assert status["terminated"] and not status["truncated"], "its own success counts"


def test_with_a_lookup_only_its_names_are_known():
    (cache, _), _ = play("stranger_envs:made_walk", [["fore", "1"]], action_lookup={0: "back", 1: "fore"})
    assert cache["history"][0]["actions"] == ["fore"] and cache["penalty"] == -0.1


# ---- the adapter alone


def test_missing_keys_of_info_are_filled_in():
    env = TextAdapter(stranger_envs.Walk(1))
    _, first = env.reset(seed=3)
    assert first == {"wind": 0, "available_actions": ["0", "1"]}
    *_, info = env.step("1")
    assert (info["success"], info["action_is_valid"], info["action_is_effective"]) == (True, True, True)
    assert env.filled == {"success", "action_is_valid", "action_is_effective"}
    *_, info = env.step("nothing")
    assert (info["success"], info["action_is_valid"], info["action_is_effective"]) == (False, False, False)


def test_keys_that_are_there_are_kept():
    env = TextAdapter(stranger_envs.Lock())
    env.reset(seed=3)
    env.step("1 1")
    assert env.filled == {"action_is_valid", "action_is_effective"}


class InPlace(gymnasium.Env):
    """Returns the same array, changed or not."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 9, (1,), np.int64)

    def reset(self, *, seed=None, options=None):
        self.array = np.zeros(1, dtype=np.int64)
        return self.array, {}

    def step(self, action):
        self.array += action
        return self.array, 1.0, bool(self.array[0] == 3), False, {}


def test_an_action_is_effective_if_what_is_observed_has_changed():
    env = TextAdapter(InPlace())
    env.reset()
    assert [env.step(action)[4]["action_is_effective"] for action in "0110"] == [False, True, True, False]
    assert env.render() == "[2]"


@pytest.mark.parametrize(("wanted", "success"), [(None, True), (4.0, True), (4.5, False)])
def test_success_is_an_end_with_enough_reward(wanted, success):
    env = TextAdapter(InPlace(), success_reward=wanted)
    env.reset()
    told = [env.step(action)[4]["success"] for action in "1101"]
    assert told == [False, False, False, success]


def test_the_threshold_of_a_specification_counts():
    env = TextAdapter(gymnasium.make("CartPole-v1"))
    env.reset(seed=1)
    done = False
    while not done:  # the pole falls: it terminates with a reward of 1, far below 475 in all
        _, reward, done, _, info = env.step("1")
    assert reward == 1 and not info["success"]


# ---- who is adapted


def test_what_can_be_played_as_it_is_stays_as_it_is():
    plain, named = OpenEnvConfig(), OpenEnvConfig(action_lookup={0: "a", 1: "b"})
    page, walk = stranger_envs.LivePage(), stranger_envs.Walk()
    walk.render_mode = "text"
    assert adapt(page, plain) is page and adapt(walk, named) is walk
    adapted = adapt(walk, plain)
    assert adapted.inner is walk and adapt(adapted, plain) is adapted
    for tag in ("SimpleSokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA", "WebShop"):
        found = find_tag(tag, {})
        env = found.kind.env(found.config)
        assert not isinstance(env, Adapter), tag


def test_continuous_actions_are_refused_in_one_sentence():
    with pytest.raises(RolloutError, match=r"its action space is Box\(-1.0, 1.0,"):
        play("stranger_envs:Continuous", [])


def test_what_an_environment_says_of_replays_is_known_of_its_type():
    assert not find_tag("stranger_envs:LivePage", {}).kind.env.replayable
    assert find_tag("stranger_envs:Walk", {}).kind.env.replayable and find_tag("bandit", {}).kind.env.replayable
