"""Playing episodes: every one once, in order, whoever plays and wherever."""

import random

import numpy as np
import pytest

from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.drivers.play import RandomPolicy, listed_action, make_policy, play_episodes
from abreast.rollouts.registry import find_tag
from rollout_helpers import settings, villain
from villain_envs import ALL  # noqa: F401 (registers them)


def play(tags, policy="random", episodes=None, **more):
    """All episodes that were played, and how many turns each call told of."""
    ended, turns = [], []

    def note(taken, over):
        turns.append(taken)
        ended.extend(over)

    with EnvStateManager(settings(tags, **{"use_multiprocessing": False, **more})) as manager:
        chosen = make_policy(policy, manager.tag_of(0), seed=5) if isinstance(policy, str) else policy
        play_episodes(manager, chosen, note, episodes)
    return ended, turns


def what_came_of(ended):
    return [(each.env_id, each.group_id, each.seed, each.truncated, each.cache["history"]) for each in ended]


# ---- the loop


def test_every_environment_plays_one_episode():
    ended, turns = play(["Bandit", "FrozenLake"], counts=[2, 3], size=2)
    assert sorted(each.env_id for each in ended) == list(range(10))
    assert all(each.cache["history"][-1]["actions_left"] >= 0 and each.error is None for each in ended)
    assert turns[0] == 0 and turns[1] == 10 and sum(turns) == sum(len(each.tally.seconds) for each in ended)
    assert sum(each.num_actions for each in ended) == sum(turns)  # the random policy takes one action a turn


def test_more_episodes_than_environments_take_several_resets_and_seeds_count_on():
    ended, _ = play(["Bandit"], counts=[2], size=2, episodes=10)
    ended.sort()
    assert [each.env_id for each in ended] == list(range(10))
    assert [each.group_id for each in ended] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [each.seed for each in ended] == [10_000 + each.group_id for each in ended]
    assert [each.cache["env_id"] for each in ended] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_fewer_episodes_than_environments_leave_the_others_alone():
    ended, turns = play(["Bandit"], counts=[4], episodes=1)
    assert [each.env_id for each in ended] == [0] and turns == [0, 1]


def test_an_environment_that_cannot_start_ends_and_the_others_go_on():
    custom = villain("RaisesInReset", budget=3, harm_seed=10_001)
    ended, turns = play(["RaisesInReset"], counts=[3], custom=custom)
    assert ended[0].env_id == 1 and ended[0].error.startswith(
        "ValueError: no room for this seed (villain_envs.py, line"
    )
    assert ended[0].num_actions == 0
    assert [each.error for each in ended[1:]] == [None, None]
    assert turns == [0, 2, 2, 2]


def test_an_environment_that_fails_on_its_way_says_why():
    custom = villain("RaisesInStep", budget=5, harm_seed=10_001)
    ended, _ = play(["RaisesInStep"], counts=[2], custom=custom)
    errors = {each.env_id: each.error for each in ended}
    assert errors[0] is None
    assert errors[1].startswith("ZeroDivisionError: a villain divides by zero (villain_envs.py, line")


@pytest.mark.xdist_group("system")
def test_workers_play_the_same_episodes():
    here, _ = play(["FrozenLake", "MetaMathQA"], counts=[4, 4], episodes=12)
    there, _ = play(["FrozenLake", "MetaMathQA"], counts=[4, 4], episodes=12, use_multiprocessing=True, max_workers=2)
    assert what_came_of(here) == what_came_of(there)


# ---- policies


@pytest.mark.parametrize("tag", ["SimpleSokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA", "WebShop"])
def test_the_random_policy_plays_everything_and_never_says_what_is_not_known(tag):
    ended, _ = play([tag], counts=[4])
    assert len(ended) == 4
    assert all(each.tally.invalid == 0 and each.cache["penalty"] == 0 for each in ended)


def test_the_random_policy_depends_on_its_seed_alone():
    before = random.getstate(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    first, again, other = (play(["FrozenLake"], RandomPolicy(seed), counts=[8])[0] for seed in (1, 1, 2))
    assert what_came_of(first) == what_came_of(again) != what_came_of(other)
    assert before == (random.getstate(), np.random.get_state()[1].tobytes())  # noqa: NPY002


def test_what_happens_to_one_environment_changes_nothing_for_the_random_actions_of_others():
    tag = find_tag("FrozenLake", {})
    caches = [{"env_id": env_id, "history": [{"state": ""}]} for env_id in range(2)]
    alone, both = RandomPolicy(0), RandomPolicy(0)
    for _ in range(20):
        action, _ = both(tag, caches[0]), both(tag, caches[1])
        assert alone(tag, caches[0]) == action


def test_listed_actions_are_chosen_from_and_placeholders_filled_with_words():
    rng = np.random.default_rng(0)
    info = {"available_actions": ["search[<words>]"], "instruction": "red shoes 42"}
    searches = {listed_action(info, "", rng) for _ in range(100)}
    assert {"search[red]", "search[shoes red]"} <= searches
    assert all(set(search[7:-1].split()) <= {"red", "shoes"} for search in searches)
    assert listed_action({"available_actions": ["click[< prev]", "click[next >]"]}, "", rng).startswith("click[")
    assert listed_action({"available_actions": {"has_search_bar": True}}, "", rng) is None
    assert listed_action({}, "", rng) is None


@pytest.mark.parametrize(
    ("tag", "least"),
    [("SimpleSokoban", 0.8), ("SafeFrozenLake", 1), ("Bandit", 1), ("Countdown", 1), ("WebShop", 0.5)],
)
def test_solvers_play_well(tag, least):
    ended, _ = play([tag], "solver", counts=[8])
    assert np.mean([each.tally.success for each in ended]) >= least


def test_a_type_without_a_solver_names_those_that_have_one():
    with pytest.raises(
        RolloutError, match=r"'metamathqa' has no solver: .* bandit, countdown, frozen_lake, sokoban, webs"
    ):
        make_policy("solver", find_tag("MetaMathQA", {}))


def test_an_unknown_policy_gets_the_nearest_name():
    with pytest.raises(RolloutError, match=r"there is no policy 'randm': did you mean 'random'\?"):
        make_policy("randm", find_tag("MetaMathQA", {}))
