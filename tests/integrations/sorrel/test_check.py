"""`abreast check sorrel:…`: the checks of all games, with models of ours; sound environments pass, and faults are named."""

import pytest

from abreast import checking
from abreast.integrations.sorrel import find
from abreast.training import Experiment


@pytest.fixture
def at_home(monkeypatch):
    """Other processes are not the point, and take their time."""
    monkeypatch.setattr(checking, "elsewhere", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(Experiment, "run_experiment_mp", Experiment.run_experiment)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("LastingEnv", marks=pytest.mark.chaos),
        "tag",
        "LockedEnv",
        pytest.param("SharingEnv", marks=pytest.mark.chaos),
    ],
)
def test_sound_environments_pass(name, at_home):
    """Its own models are not played with."""
    verdicts = list(find(f"sorrel_standin:{name}").check())
    assert {each.outcome for each in verdicts} == {"ok"}, verdicts


@pytest.mark.chaos
def test_one_passes_in_other_processes_too():
    verdicts = list(find("sorrel_standin:ForageEnv").check())
    assert {each.outcome for each in verdicts} == {"ok"}, verdicts


@pytest.mark.parametrize(
    ("name", "check", "words"),
    [
        ("HiddenEnv", "seed", "keep what changes in attributes of self, not of a class or a module"),
        ("UnseededEnv", "seed", "draw from random, numpy.random or torch, which are seeded for each lane"),
        ("LockingEnv", "state", "LockingEnv.lock (lock) cannot be kept in a file"),
    ],
)
def test_faults_are_named(name, check, words, at_home):
    wrong = next(each for each in find(f"sorrel_standin:{name}").check() if each.outcome == "wrong")
    assert wrong.check == check and words in wrong.remark
