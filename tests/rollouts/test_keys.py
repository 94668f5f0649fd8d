"""Keys of other projects in `env_config`."""

import numpy as np
import pytest

from abreast.rollouts.ragen import Refused, own_keys

KEYS = {
    "theirs": "ours",
    "gone": Refused("it does not exist here; leave it out.", (None, 0)),
    "lost": Refused("set other."),
}


@pytest.mark.parametrize("values", [{"ours": 1, "other": None}, {}, None, 3, ["theirs"]], ids=str)
def test_what_has_no_such_key_is_left_as_it_is(values):
    assert own_keys(values, KEYS) is values


def test_other_names_become_our_own():
    assert own_keys({"theirs": 1, "more": 2}, KEYS) == {"ours": 1, "more": 2}


def test_an_empty_value_under_another_name_counts_as_not_given():
    assert own_keys({"theirs": None, "ours": 1}, KEYS) == {"ours": 1}


def test_both_names_at_once_are_refused():
    with pytest.raises(ValueError, match="theirs is another name of ours, and both are given: leave one"):
        own_keys({"theirs": 1, "ours": 1}, KEYS)


def test_a_refused_key_says_why_and_all_of_them_are_told():
    with pytest.raises(ValueError, match=r"gone is 3: it does not exist here; leave it out\. lost is 'x': set other\."):
        own_keys({"gone": 3, "fine": 1, "lost": "x"}, KEYS)


def test_a_value_that_changes_nothing_is_left_out():
    assert own_keys({"gone": 0, "lost": None, "fine": 1}, KEYS) == {"fine": 1}


@pytest.mark.parametrize("value", [np.array([0, 0]), np.zeros(1), object()], ids=["array", "one number", "object"])
def test_values_that_cannot_be_compared_are_refused_too(value):
    with pytest.raises(ValueError, match="gone is"):
        own_keys({"gone": value}, KEYS)
