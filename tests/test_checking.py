"""What all checks share."""

import os
import random
import warnings

import numpy as np
import pytest

from abreast.checking import (
    Check,
    Fault,
    Verdict,
    compare_states,
    each_warning_once,
    elsewhere,
    judge,
    new_global_states,
)
from abreast.streams import changed_streams


class Trial:
    """Notes what is done with it."""

    def __init__(self):
        self.closed = 0

    def close(self):
        self.closed += 1


def refuse(trial):
    raise Fault("it is wrong: repair it.")


def divide(trial):
    raise SystemExit(3)


def test_each_check_has_a_verdict_and_what_follows_from_a_fault_is_skipped():
    checks = [
        Check("one", "is right", lambda trial: None),
        Check("two", "is right", lambda trial: "almost right", ["one"]),
        Check("three", "is right", refuse),
        Check("four", "is right", refuse, ["one", "three"]),
        Check("five", "is right", divide),
    ]
    trial = Trial()
    assert list(judge(checks, trial, told=lambda error: f"raised {error!r}")) == [
        Verdict("one", "ok", "is right"),
        Verdict("two", "ok", "almost right"),
        Verdict("three", "wrong", "it is wrong: repair it."),
        Verdict("four", "skipped", "not checked: repair 'three' first"),
        Verdict("five", "wrong", "raised SystemExit(3)"),
    ]
    assert trial.closed == 4


def test_global_random_states_are_compared_and_restored():
    random.seed(1)
    expected = random.random()
    random.seed(1)
    with new_global_states() as before:
        assert changed_streams(before) == []
        random.random()
        np.random.rand()  # noqa: NPY002
        with pytest.raises(
            Fault, match=r"^it changed the state of the module random and numpy.random, which .*: do not\.$"
        ):
            compare_states(before, "it", "do not.")
    assert random.random() == expected


def hash_and_pid(text):
    return hash(text), os.getpid()


def test_another_process_has_other_hashes():
    here, there = hash_and_pid("a text"), elsewhere(hash_and_pid, "a text")
    assert here[0] != there[0] and here[1] != there[1]


def test_what_fails_in_another_process_is_told():
    with pytest.raises(Fault, match="in another process it failed: ZeroDivisionError"):
        elsewhere(divmod, 1, 0)


def test_a_warning_of_another_library_is_shown_once(recwarn):
    with each_warning_once():
        for number in (1, 2, 1, 2):
            with warnings.catch_warnings():  # as libraries do, after which Python forgets what it has shown
                warnings.simplefilter("always")
                warnings.warn(f"old physics {number}", stacklevel=1)
    assert [str(each.message) for each in recwarn] == ["old physics 1", "old physics 2"]
