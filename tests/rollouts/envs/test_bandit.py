"""The bandit, rule by rule."""

import pickle
import random
import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts.envs.bandit import KIND, BanditConfig, BanditEnv
from abreast.rollouts.registry import KINDS

LO, HI = 1, 2
JUNK = [0, 3, -1, 10**400, 1.0, True, None, "Dragon", "2", "x" * 1_000_000, b"1", [1], {}, np.array([1, 2])]


def play(env, seed, action):
    return env.reset(seed=seed), env.step("junk"), env.step(action)


@pytest.mark.parametrize("seed", range(5))
def test_the_lo_arm_always_pays_the_same_and_is_no_success(seed):
    env = BanditEnv()
    env.reset(seed=seed)
    text, reward, terminated, truncated, info = env.step(LO)
    assert (text, reward, terminated, truncated) == ("You pulled Phoenix. It paid 0.1.", 0.1, True, False)
    assert info == {"success": False, "action_is_valid": True, "action_is_effective": True}


def test_the_hi_arm_pays_in_a_quarter_of_the_cases_and_is_always_a_success():
    env = BanditEnv()
    texts, rewards = set(), []
    for seed in range(2000):
        env.reset(seed=seed)
        text, reward, terminated, truncated, info = env.step(HI)
        assert (terminated, truncated) == (True, False)
        assert info == {"success": True, "action_is_valid": True, "action_is_effective": True}
        texts.add((text, reward))
        rewards.append(reward)
    assert texts == {("You pulled Dragon. It paid 1.", 1.0), ("You pulled Dragon. It paid 0.", 0.0)}
    assert np.mean(rewards) == pytest.approx(0.25, abs=0.05)  # five deviations


@pytest.mark.parametrize(("probability", "reward"), [(0.0, 0.0), (1.0, 7.5)])
def test_the_rewards_are_those_of_the_configuration(probability, reward):
    env = BanditEnv({"lo_reward": 2, "hi_reward": 7.5, "hi_probability": probability})
    for seed in range(20):
        env.reset(seed=seed)
        assert env.step(HI)[1] == reward
        env.reset(seed=seed)
        assert env.step(LO)[1] == 2.0


def test_the_seed_decides_which_name_stands_first():
    env = BanditEnv()
    texts = [env.reset(seed=seed)[0] for seed in range(1000)]
    lo_first = sum(text.index("Phoenix") < text.index("Dragon") for text in texts)
    assert lo_first == pytest.approx(500, abs=80)  # five deviations
    assert len(set(texts)) == 2


def test_the_place_of_a_name_says_nothing():
    """Neither what a number means nor how often the hi arm pays depends on the order of the names."""
    env = BanditEnv()
    paid = {True: [], False: []}
    for seed in range(4000):
        text, _ = env.reset(seed=seed)
        paid[text.index("Phoenix") < text.index("Dragon")].append(env.step(HI)[1])
        assert "Dragon" in env.render()
    assert np.mean(paid[True]) == pytest.approx(0.25, abs=0.05)
    assert np.mean(paid[False]) == pytest.approx(0.25, abs=0.05)


def test_the_text_names_both_arms_and_no_reward():
    env = BanditEnv({"lo_arm_name": "Turtle", "hi_arm_name": "Hare", "lo_reward": 0.37, "hi_reward": 8.25})
    text, info = env.reset(seed=0)
    assert "Turtle" in text and "Hare" in text and "one choice" in text
    assert not any(character.isdigit() for character in text)
    assert info == {"success": False, "action_is_valid": True, "action_is_effective": False}


def test_no_step_without_an_episode():
    env = BanditEnv()
    with pytest.raises(RolloutError, match="call reset"):
        env.step(LO)
    with pytest.raises(RolloutError, match="call reset"):
        env.render()
    env.reset(seed=0)
    env.step(LO)
    with pytest.raises(RolloutError, match="call reset"):
        env.step(LO)
    env.reset()
    env.step(np.int64(HI))


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: f"{type(junk).__name__}-{str(junk)[:8]}")
def test_an_unknown_action_changes_nothing(junk):
    env, twin = BanditEnv(), BanditEnv()
    text, _ = env.reset(seed=3)
    twin.reset(seed=3)
    no_op = (text, 0.0, False, False, {"success": False, "action_is_valid": False, "action_is_effective": False})
    assert env.step(junk) == no_op == env.step(junk)
    assert env.step(HI) == twin.step(HI)


def test_the_same_seed_gives_the_same_episode():
    one = BanditEnv()
    first = [play(one, seed, HI) for seed in range(20)]
    assert [play(one, seed, HI) for seed in range(20)] == first
    assert [play(BanditEnv(), seed, HI) for seed in range(20)] == first
    assert len({repr(episode) for episode in first}) > 2


def test_an_episode_without_a_seed_goes_on_in_the_stream():
    def episodes(env):
        env.reset(seed=1)
        return [(env.reset(), env.step(HI)) for _ in range(40)]

    one = episodes(BanditEnv())
    assert one == episodes(BanditEnv())
    assert {(start[0], end[1]) for start, end in one} == {
        (text, reward) for text in {start[0] for start, _ in one} for reward in (0.0, 1.0)
    }


def test_global_random_state_is_left_alone():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 (the very state that must not change)
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    play(BanditEnv(), 0, HI)
    BanditEnv().reset()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_a_pickled_environment_goes_on_as_if_nothing_had_happened():
    for seed in range(20):
        env = BanditEnv()
        env.reset(seed=seed)
        copy = pickle.loads(pickle.dumps(env))
        assert env.step(HI) == copy.step(HI)
        assert env.reset() == copy.reset()


@pytest.mark.parametrize("config", [{}, {"lo_arm_name": "灰色 Maus", "hi_arm_name": "É", "hi_reward": 1e-7}], ids=str)
def test_gymnasium_finds_no_fault(config):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(BanditEnv(config), skip_render_check=False)
    # Only `gymnasium.make` gives an environment a spec.
    assert [str(w.message) for w in caught if "not having a spec" not in str(w.message)] == []


@pytest.mark.parametrize(
    "config",
    [{}, {"lo_reward": -3.125, "hi_reward": 1e9, "hi_arm_name": "Q"}, {"lo_reward": 2, "hi_reward": 3}],
    ids=str,
)
def test_every_text_lies_in_the_observation_space(config):
    env = BanditEnv(config)
    for seed in range(40):
        for action in (LO, HI):
            assert all(result[0] in env.observation_space for result in play(env, seed, action))
            assert env.render() in env.observation_space


def test_the_numbers_of_the_actions_follow_from_the_names():
    assert BanditConfig().action_lookup == {1: "Phoenix", 2: "Dragon"}
    config = BanditConfig.parse({"lo_arm_name": "Turtle", "hi_arm_name": "Hare"})
    assert config.action_lookup == {1: "Turtle", 2: "Hare"}
    assert BanditConfig.parse(config.model_dump()) == config
    assert BanditConfig().action_lookup == {1: "Phoenix", 2: "Dragon"}


def test_the_solver_chooses_the_hi_arm():
    config = BanditConfig(lo_arm_name="Turtle", hi_arm_name="Hare")
    env = BanditEnv(config)
    numbers = {name: number for number, name in config.action_lookup.items()}
    for seed in range(20):
        text, _ = env.reset(seed=seed)
        (name,) = KIND.solver(config, [{"state": text, "actions_left": 1}])
        assert env.step(numbers[name])[4]["success"]
    assert KIND.solver(config, [{"state": text, "actions_left": 0}]) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"lo_arm_name": "Dragon"}, "could mean either arm"),
        ({"lo_arm_name": "dragon"}, "could mean either arm"),
        ({"hi_arm_name": ""}, "hi_arm_name is ''"),
        ({"hi_arm_name": " Dragon"}, "hi_arm_name is ' Dragon'"),
        ({"lo_arm_name": "a\nb"}, "lo_arm_name is"),
        ({"lo_arm_name": "x" * 41}, "lo_arm_name is"),
        ({"lo_arm_name": 5}, "lo_arm_name is 5"),
        ({"hi_probability": 1.1}, "hi_probability is 1.1"),
        ({"lo_reward": float("inf")}, "lo_reward is inf"),
        ({"lo_arm": "x"}, "did you mean 'lo_arm_name'"),
        ({"action_lookup": {1: "Dragon", 2: "Phoenix"}}, "leave it out"),
        ({"action_lookup": {1: "Left", 2: "Right"}}, "leave it out"),
        ("Dragon", "expected a mapping"),
    ],
    ids=str,
)
def test_bad_settings_are_named(config, message):
    with pytest.raises(ConfigError, match=message):
        BanditEnv(config)


def test_the_defaults_are_those_of_the_rules():
    config = BanditEnv().config
    assert (config.lo_reward, config.hi_reward, config.hi_probability) == (0.1, 1.0, 0.25)
    assert BanditEnv(config).config is config


def test_the_registry_finds_it():
    assert KINDS.find("bandit") is KIND
    assert isinstance(KIND.env(KIND.config.parse({})), BanditEnv)
