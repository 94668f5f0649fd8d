"""The policies random and solver."""

import asyncio
import random

import numpy as np
import pytest

from abreast.errors import RolloutError
from abreast.rollouts.drivers.policies.base import Asked
from abreast.rollouts.drivers.policies.local import RandomPolicy, SolverPolicy, listed_action
from abreast.rollouts.registry import find_tag


def actions(policy, numbers, turns=20):
    tag = find_tag("FrozenLake", {})

    async def ask_all():
        asked = [
            Asked(number, 1, tag, {"history": [{"state": "", "info": {}}] * (turn + 1)}, list)
            for turn in range(turns)
            for number in numbers
        ]
        return [(await policy(each)).given for each in asked]

    return asyncio.run(ask_all())


def test_random_actions_depend_on_the_seed_the_episode_and_the_turn_alone():
    before = random.getstate(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    assert actions(RandomPolicy(1), [0]) == actions(RandomPolicy(1), [0, 7])[::2]
    assert actions(RandomPolicy(1), [0]) != actions(RandomPolicy(2), [0])
    assert actions(RandomPolicy(1), [0]) != actions(RandomPolicy(1), [1])
    assert len({str(given) for given in actions(RandomPolicy(1), [0])}) == 4
    assert before == (random.getstate(), np.random.get_state()[1].tobytes())  # noqa: NPY002


def test_listed_actions_are_chosen_from_and_placeholders_filled_with_words():
    rng = np.random.default_rng(0)
    info = {"available_actions": ["search[<words>]"], "instruction": "red shoes 42"}
    searches = {listed_action(info, "", rng) for _ in range(100)}
    assert {"search[red]", "search[shoes red]"} <= searches
    assert all(set(search[7:-1].split()) <= {"red", "shoes"} for search in searches)
    assert listed_action({"available_actions": ["click[< prev]", "click[next >]"]}, "", rng).startswith("click[")
    assert listed_action({"available_actions": {"has_search_bar": True}}, "", rng) is None
    assert listed_action({}, "", rng) is None


def test_a_type_without_a_solver_names_those_that_have_one():
    with pytest.raises(
        RolloutError, match=r"'metamathqa' has no solver: .* bandit, countdown, frozen_lake, sokoban, webs"
    ):
        SolverPolicy(find_tag("MetaMathQA", {}))
