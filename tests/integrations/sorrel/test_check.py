"""`abreast check sorrel:…`: a sound environment passes, and every fault is found and named."""

import pytest

from abreast.integrations.sorrel import find


def verdicts(name):
    return {each.check: each for each in find(f"sorrel_standin:{name}").check()}


def faults(name):
    return {check: each.remark for check, each in verdicts(name).items() if each.outcome == "wrong"}


@pytest.mark.parametrize("name", ["ForageEnv", "PolicyEnv"])
def test_sound_environments_pass(name):
    found = verdicts(name)
    assert [each.outcome for each in found.values()] == ["ok"] * 6, found


def test_a_loop_of_its_own_is_not_compared():
    assert "its own run_experiment is not used" in verdicts("tag")["training"].remark


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("ClockEnv", "building", "built again under the same seed, model0._modules, model0.local"),
        ("SharingEnv", "models", "agents 0 and 1 have one and the same model"),
        ("HiddenEnv", "seed", "was played twice from the same state of the generators; afterwards, model0.memory"),
        ("UnwritableEnv", "state", "Unwritable.stream"),
        ("LoopEnv", "training", "in a run of abreast's and in its own loop (run_experiment), "),
    ],
)
def test_faults_are_named(name, check, words):
    found = faults(name)
    assert words in found[check]
    assert next(iter(found)) == check
