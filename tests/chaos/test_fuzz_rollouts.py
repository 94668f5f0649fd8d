"""Damaged inputs of rollouts: 10,000 with ABREAST_CHAOS=1, 60 otherwise; one test for each fault found so."""

import os
import sys

import pytest
import yaml

from abreast.cli.app import run
from chaos import fuzz_rollouts as fuzzing
from chaos.fuzz_rollouts import IN_MAIN, fuzz_rollouts

COUNT = 10_000 if os.environ.get("ABREAST_CHAOS") == "1" else 60
pytestmark = pytest.mark.timeout(7_200 if COUNT > 60 else 240)


def test_damaged_inputs_are_refused_or_used_without_a_stack_a_hang_or_a_write_elsewhere():
    fuzz_rollouts(seed=int(os.environ.get("SEED", "7")), count=COUNT)


@pytest.mark.parametrize("villain", ["raises", "hangs", "writes"])
def test_what_goes_wrong_is_found(villain, monkeypatch, tmp_path):
    def raises(samples, place, rng):
        raise KeyError("x")

    def hangs(samples, place, rng):
        while True:
            pass

    def writes(samples, place, rng):
        (tmp_path / "elsewhere").write_text("")

    monkeypatch.setattr(fuzzing, "KINDS", [locals()[villain]])
    monkeypatch.setattr(fuzzing, "LIMIT_S", 1)
    with pytest.raises(AssertionError, match=f"input 0 of seed 1: {villain}"):
        fuzz_rollouts(seed=1, count=1)


def test_a_resumed_run_whose_config_has_lost_its_tag_is_resumed_with_the_one_that_ships(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert run(["rollout", "FrozenLake", IN_MAIN, "--episodes", "2", "--output", "run"]) == 0
    given = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    (tmp_path / "run/config.yaml").write_text(yaml.safe_dump({**given, "custom_envs": {}}))
    assert run(["rollout", "--resume", "run", "--episodes", "4"]) == 0
    assert (tmp_path / "run/trajectories.jsonl").read_text().count("\n") == 4
