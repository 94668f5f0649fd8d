"""Texts as actions, and back."""

import enum

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text

from abreast.errors import RolloutError
from abreast.rollouts.adapters.actions import Actions, action_space_of, names_of

NAMES = {1: "Left", 3: "Turn right"}


@pytest.mark.parametrize(
    ("given", "action"),
    [
        ("1", 1), (" 3 ", 3), ("+2", 2), ("02", 2), ("left", 1), (" TURN RIGHT", 3), (2, 2), (np.int64(3), 3),
        ("0", None), ("4", None), ("-1", None), ("1.0", None), ("1 2", None), ("", None), ("lef", None), ("٣", 3),
        ("9" * 5000, None), ("1" + " " * 5000, None), (7, None), (None, None), ([1], None), (1.5, None),
    ],
)  # fmt: skip
def test_discrete_actions_have_numbers_and_names(given, action):
    assert Actions(Discrete(3, start=1), NAMES).read(given) == action


@pytest.mark.parametrize("given", ["1 0 2", "1,0,2", "[1, 0, 2]", "(1,0,2)", " 1  0;2 ", np.array([1, 0, 2])])
def test_actions_of_several_parts_are_written_with_blanks_or_commas(given):
    found = Actions(MultiDiscrete([2, 1, 3])).read(given)
    assert found.tolist() == [1, 0, 2] and found in MultiDiscrete([2, 1, 3])


@pytest.mark.parametrize("given", ["1 0", "1 0 3", "1 0 2 0", "102", "1 -1 2", "a 0 2", "", "[" * 900, f"{2**60} 0 2"])
def test_a_part_too_many_or_out_of_range_is_no_action(given):
    assert Actions(MultiDiscrete([2, 1, 3], dtype=np.int8)).read(given) is None


def test_parts_may_begin_at_other_numbers_and_stand_in_rows():
    space = MultiDiscrete(np.array([[2, 2], [2, 2]]), start=np.array([[1, 1], [5, 5]]))
    actions = Actions(space)
    assert actions.read("[[1, 2], [5, 6]]").tolist() == [[1, 2], [5, 6]] and actions.read("0 2 5 6") is None
    assert actions.write(np.array([[1, 2], [5, 6]])) == "1 2 5 6"
    assert len(actions.listed()) == 16 and actions.listed()[0] == "1 1 5 5"


def test_texts_are_passed_on():
    assert Actions(Text(3)).read("anything at all") == "anything at all" and Actions(Text(3)).read(3) is None


@pytest.mark.parametrize("space", [Discrete(5, start=-2), MultiDiscrete([2, 3]), MultiDiscrete([9] * 5)])
def test_what_is_written_can_be_read(space):
    actions = Actions(space, {-1: "back"})
    for _ in range(20):
        action = space.sample()
        assert np.array_equal(actions.read(actions.write(action)), action)


def test_all_actions_are_listed_unless_they_are_many():
    assert Actions(Discrete(3, start=1), NAMES).listed() == ["Left", "2", "Turn right"]
    assert Actions(Discrete(3, start=1), NAMES).listed(only_named=True) == ["Left", "Turn right"]
    assert Actions(Discrete(3)).listed(np.array([0, 1, 1], dtype=np.int8)) == ["1", "2"]
    assert Actions(Discrete(3)).listed([0, 0, 0]) == ["0", "1", "2"], "such a mask says nothing"
    assert Actions(Discrete(65)).listed() is None and Actions(MultiDiscrete([9, 9])).listed() is None
    assert Actions(Text(3)).listed() is None


@pytest.mark.parametrize("space", [Box(0, 1, (2,)), Dict({"a": Discrete(2)})])
def test_other_spaces_are_refused_by_name(space):
    with pytest.raises(
        RolloutError, match=f"its action space is {type(space).__name__}.*Discrete, MultiDiscrete and Text only"
    ):
        Actions(space)


class Moves(enum.IntEnum):
    left = 0
    right = 1
    done = 6


def with_(**attributes):
    return type("Some", (), attributes)()


@pytest.mark.parametrize(
    ("env", "names"),
    [
        (with_(get_action_meanings=lambda self: ["A", "B"]), {0: "A", 1: "B"}),
        (with_(actions=Moves), {0: "left", 1: "right"}),
        (with_(ACTION_LOOKUP={0: "Up", 1: "Down"}), {0: "Up", 1: "Down"}),
        (with_(unwrapped=with_(ACTION_LOOKUP={1: "Down"})), {1: "Down"}),
        (with_(ACTION_LOOKUP={0: "Up", 1: "up "}), {}),
        (with_(ACTION_LOOKUP={0: 7}), {}),
        (with_(actions=["a", "b"]), {}),
        (with_(), {}),
    ],
)
def test_names_that_an_environment_gives_are_used(env, names):
    assert names_of(env, Discrete(2)) == names


def test_spaces_of_the_old_gym_are_understood():
    old = with_(action_space=type("Discrete", (), {"n": 4})())
    assert action_space_of(old) == Discrete(4)
    assert action_space_of(with_(ACTION_SPACE=Discrete(4, start=1))) == Discrete(4, start=1)
    assert action_space_of(with_(action_space=type("MultiDiscrete", (), {"nvec": [2, 3]})())) == MultiDiscrete([2, 3])
    assert action_space_of(with_()) is None
