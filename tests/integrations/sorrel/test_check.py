"""`abreast check sorrel:…`: a sound environment passes, and every fault is found and named."""

import pytest

from abreast.integrations.sorrel import find


def verdicts(name):
    return {each.check: each for each in find(f"sorrel_standin:{name}").check()}


@pytest.mark.parametrize("name", ["ForageEnv", "PolicyEnv"])
def test_sound_environments_pass(name):
    found = verdicts(name)
    assert [each.outcome for each in found.values()] == ["ok"] * 3, found


def test_a_loop_of_its_own_is_not_compared():
    assert "its own run_experiment is not used" in verdicts("tag")["training"].remark


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("SharingEnv", "seed", "agents 0 and 1 have one and the same model"),
        ("ClockEnv", "seed", "built and played twice under the same seed, it differs in "),
        ("HiddenEnv", "seed", "keep what changes in attributes of self, not of a class or a module"),
        ("UnwritableEnv", "state", "Unwritable.stream"),
        ("LoopEnv", "training", "in a run of abreast's and in its own loop (run_experiment), "),
    ],
)
def test_faults_are_named(name, check, words):
    wrong = next(each for each in find(f"sorrel_standin:{name}").check() if each.outcome == "wrong")
    assert wrong.check == check and words in wrong.remark
