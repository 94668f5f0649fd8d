"""The manager as a vector environment of Gymnasium: what it returns is what `SyncVectorEnv` returns."""

import os
import signal

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

import stranger_envs
from abreast.errors import AbreastError, ConfigError, RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.vector import RolloutVectorEnv, make_vec
from rollout_helpers import settings, villain

TAXI = next(name for name in ("Taxi-v4", "Taxi-v3") if name in gymnasium.registry)
CLIFF = next(name for name in ("CliffWalking-v1", "CliffWalking-v0") if name in gymnasium.registry)
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]
COUNT = 3


class SeedsCountOn(gymnasium.Wrapper):
    """Begins each episode with a seed, as a vector environment of ours does."""

    def reset(self, *, seed=None, options=None):
        self.seed = seed if seed is not None else self.seed + COUNT
        return self.env.reset(seed=self.seed, options=options)


OTHERS = {
    "stranger_envs:Walk": stranger_envs.Walk,
    "stranger_envs:NamedWalk": stranger_envs.NamedWalk,
    "stranger_envs:Lock": stranger_envs.Lock,
}


def sync(name, mode=AutoresetMode.NEXT_STEP):
    def make():
        return SeedsCountOn(OTHERS[name]() if name in OTHERS else gymnasium.make(name))

    return SyncVectorEnv([make] * COUNT, autoreset_mode=mode)


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert data_equivalence(mine, other, exact=True), (mine, other)


def compare(ours, theirs, steps=40):
    """Whether both return the same, for random actions."""
    assert (ours.num_envs, ours.single_action_space, ours.action_space) == (
        theirs.num_envs, theirs.single_action_space, theirs.action_space
    )  # fmt: skip
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    ours.action_space.seed(4)
    assert_same(ours.reset(seed=11), theirs.reset(seed=11))
    ends = 0
    for _ in range(steps):
        actions = ours.action_space.sample()
        got = ours.step(actions)
        assert_same(got, theirs.step(actions))
        ends += int((got[2] | got[3]).sum())
    return ends


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["FrozenLake-v1", TAXI, "Blackjack-v1", CLIFF, "CartPole-v1", *OTHERS])
def test_it_returns_what_a_sync_vector_env_returns(name, mode):
    with_ends = name not in (TAXI, CLIFF)
    ours = make_vec(name, COUNT, autoreset_mode=mode, use_multiprocessing=False)
    try:
        assert (compare(ours, sync(name, mode)) > 1) is with_ends
    finally:
        ours.close()


@pytest.mark.parametrize("name", ["FrozenLake-v1", TAXI, "stranger_envs:Lock"])
def test_threads_change_nothing(name):
    ours = make_vec(name, COUNT, use_multiprocessing="threads")
    compare(ours, sync(name), 15)
    ours.close()


@pytest.mark.xdist_group("rollouts")
@pytest.mark.parametrize("name", ["FrozenLake-v1", "stranger_envs:Walk"])
def test_workers_and_their_deaths_change_nothing(name):
    ours, theirs = make_vec(name, COUNT, use_multiprocessing=True, max_workers=2), sync(name)
    try:
        ours.action_space.seed(1)
        assert_same(ours.reset(seed=2), theirs.reset(seed=2))
        for turn in range(12):
            if turn == 5:
                os.kill(ours.manager.worker_pids[0], signal.SIGKILL)
            actions = ours.action_space.sample()
            assert_same(ours.step(actions), theirs.step(actions))
    finally:
        ours.close()


def test_a_truncated_episode_is_truncated():
    ours = make_vec("StrangersWalk-v0", COUNT, use_multiprocessing=False)  # five steps
    compare(ours, sync("StrangersWalk-v0"), 12)
    ours.close()


def test_the_budget_of_a_tag_truncates():
    envs = make_vec("CartPole-v1", 2, max_steps=2, use_multiprocessing=False)
    envs.reset(seed=1)
    assert envs.step([0, 0])[3].tolist() == [False, False]
    *_, terminations, truncations, _ = envs.step([1, 1])
    assert (terminations.tolist(), truncations.tolist()) == ([False, False], [True, True])
    envs.close()


@pytest.mark.parametrize(
    "wrap", [RecordEpisodeStatistics, DictInfoToList, lambda envs: DictInfoToList(RecordEpisodeStatistics(envs))]
)
def test_wrappers_of_gymnasium_take_it(wrap):
    ours, theirs = wrap(make_vec("FrozenLake-v1", COUNT, use_multiprocessing=False)), wrap(sync("FrozenLake-v1"))
    ours.action_space.seed(4)
    assert_same(ours.reset(seed=1), theirs.reset(seed=1))
    for _ in range(30):
        actions = ours.action_space.sample()
        (*mine, told), (*other, their_told) = ours.step(actions), theirs.step(actions)
        assert_same(mine, other)
        for infos in (told, their_told):
            for each in infos if isinstance(infos, list) else [infos]:
                each.get("episode", {}).pop("t", None)  # seconds
        assert data_equivalence(told, their_told, exact=True)
    ours.close()


# ---- seeds and resets


def test_seeds_are_counted_on_for_every_later_episode():
    envs = make_vec("FrozenLake-v1", 2, use_multiprocessing=False)
    seeds = lambda: [status["seed"] for status in envs.manager.statuses()]  # noqa: E731
    envs.reset()
    assert seeds() == [10_000, 10_001], "the first ones are those of the configuration"
    envs.reset()
    assert seeds() == [10_002, 10_003]
    envs.reset(seed=7)
    assert seeds() == [7, 8]
    envs.reset(seed=[5, None])
    assert seeds() == [5, 10]
    envs.reset(options={"reset_mask": np.array([False, True])})
    assert seeds() == [5, 12]
    envs.reset(seed=3, options={"reset_mask": np.array([True, False])})
    assert seeds() == [3, 12]
    envs.close()


def test_validation_begins_with_the_same_seeds_each_time():
    config = settings(["FrozenLake"], [2], use_multiprocessing=False)
    envs = RolloutVectorEnv(config, mode="val")
    for _ in range(2):
        envs.reset()
        assert [status["seed"] for status in envs.manager.statuses()] == [123, 124]
    envs.close()


def test_some_environments_are_reset_and_the_others_go_on():
    ours, theirs = make_vec("stranger_envs:Walk", COUNT, use_multiprocessing=False), sync("stranger_envs:Walk")
    assert_same(ours.reset(seed=1), theirs.reset(seed=1))
    actions = np.array([1, 1, 1])
    assert_same(ours.step(actions), theirs.step(actions))
    mask = {"reset_mask": np.array([True, False, True])}
    assert_same(ours.reset(seed=9, options=dict(mask)), theirs.reset(seed=9, options=dict(mask)))
    assert_same(ours.step(actions), theirs.step(actions))
    ours.close()


def test_without_automatic_resets_an_episode_that_is_over_must_be_reset():
    envs = make_vec("CartPole-v1", 2, max_steps=1, autoreset_mode=AutoresetMode.DISABLED, use_multiprocessing=False)
    envs.reset(seed=1)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    envs.step([0, 1])
    with pytest.raises(RolloutError, match="the episode of environment 0 is over, and autoreset_mode is disabled"):
        envs.step([0, 1])
    envs.reset(options={"reset_mask": np.array([True, True])})
    envs.step([0, 1])
    envs.close()


# ---- environments with texts, names, pictures


def test_environments_that_ship_are_played_by_number():
    envs = RolloutVectorEnv(settings(["SafeFrozenLake"], [2], use_multiprocessing=False))
    observations, _ = envs.reset(seed=1)
    assert isinstance(observations, tuple) and "P" in observations[0]
    assert envs.single_action_space == gymnasium.spaces.Discrete(4, start=1)
    _, _, _, _, infos = envs.step(np.array([1, 2]))
    assert infos["action_is_valid"].tolist() == [True, True] and "abreast.report" not in infos
    assert envs.manager.caches[0]["history"][0]["actions"] == ["Left"]
    assert envs.render() == tuple(envs.manager.render())
    envs.close()


def test_texts_are_actions_too():
    envs = make_vec("stranger_envs:LivePage", 2, use_multiprocessing=False)
    first, _ = envs.reset(seed=1)
    second, *_ = envs.step(("a", "b"))
    assert all(text.startswith("visit") for text in (*first, *second)) and len({*first, *second}) == 4
    envs.close()


@pytest.mark.xdist_group("rollouts")
@pytest.mark.parametrize("use", [True, "threads", False])
def test_what_cannot_be_sent_is_the_same_wherever_an_environment_began(use):
    envs = make_vec("stranger_envs:TellsOfALock", 2, use_multiprocessing=use, max_workers=2)
    envs.reset(seed=1)
    observations, *_, infos = envs.step([1, 1])
    assert observations.shape == (2, 2)
    assert all(lock.acquire() for lock in infos["lock"])
    envs.close()


def test_what_is_drawn_is_rendered_and_observations_are_otherwise():
    envs = make_vec("FrozenLake-v1", 2, {"render_mode": "ansi"}, use_multiprocessing=False)
    envs.reset(seed=1)
    assert envs.render_mode == "ansi" and "<red:S>FFF" in envs.render()[0]
    envs.close()
    envs = make_vec("FrozenLake-v1", 2, use_multiprocessing=False)
    envs.reset(seed=1)
    assert envs.render_mode is None and envs.render() == ("0", "0")
    envs.close()


# ---- bad input


def test_an_environment_that_raises_is_truncated_with_the_reason():
    tags = villain("RaisesInStep", harm_seed=1)
    config = settings(["RaisesInStep"], [2], 1, tags, use_multiprocessing=False)
    with pytest.raises(RolloutError, match="both must be spaces of Gymnasium"):
        RolloutVectorEnv(config)
    envs = make_vec("stranger_envs:Fragile", 2, use_multiprocessing=False)
    before, _ = envs.reset(seed=1)
    after, rewards, terminations, truncations, infos = envs.step([1, 0])
    assert truncations.tolist() == [True, False] and not terminations.any() and not rewards.any()
    assert "it broke" in infos["error"][0] and infos["_error"].tolist() == [True, False]
    assert np.array_equal(after[0], before[0])
    envs.step([1, 0])  # the next episode begins
    assert envs.manager.statuses()[0]["seed"] == 3
    envs.close()


BAD = [
    (lambda envs: envs.step([0, 1]), "step called before reset"),
    (lambda envs: (envs.reset(), envs.step([0, 7])), "the action of environment 1 is 7: expected one of Discrete(2)"),
    (lambda envs: envs.reset(seed=[1]), "there are 1 seeds for 2 environments: give one for each."),
    (lambda envs: envs.reset(options={"map": 3}), "only reset_mask is known"),
    (lambda envs: envs.reset(options={"reset_mask": [1, 0]}), "an array of 2 booleans, some of them True"),
    (
        lambda envs: envs.reset(options={"reset_mask": np.array([True, False])}),
        "the first reset must begin all of them",
    ),
    (lambda envs: (envs.close(), envs.reset()), "the manager is closed"),
]


@pytest.mark.parametrize(("call", "says"), BAD, ids=[row[1][:30] for row in BAD])
def test_what_cannot_be_done_is_told(call, says):
    envs = make_vec("CartPole-v1", 2, use_multiprocessing=False)
    with pytest.raises(RolloutError) as error:
        call(envs)
    assert says in str(error.value)
    envs.close()


def test_a_manager_is_not_a_configuration():
    with (
        EnvStateManager(settings(["Bandit"], [1])) as manager,
        pytest.raises(ConfigError, match=r"the configuration is .*EnvStateManager.*, expected a mapping"),
    ):
        RolloutVectorEnv(manager)
    with pytest.raises(RolloutError, match="num_envs is 0: expected 1 or more"):
        make_vec("CartPole-v1", 0)


def test_environments_with_other_spaces_do_not_share_a_vector():
    with pytest.raises(RolloutError, match="Bandit has other spaces"):
        RolloutVectorEnv(settings(["FrozenLake", "Bandit"], use_multiprocessing=False))


def test_arguments_of_an_environment_are_refused_and_ids_are_suggested():
    with pytest.raises(ConfigError, match="no argument 'render_mode': what a type takes goes into env_config"):
        make_vec("CartPole-v1", 1, render_mode="rgb_array")
    with pytest.raises(AbreastError, match="did you mean 'CartPole-v1'"):
        make_vec("CartPol-v1")
    with pytest.raises(ConfigError, match="max_worker"):
        make_vec("CartPole-v1", max_worker=1)
