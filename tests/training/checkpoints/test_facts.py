"""Facts of a checkpoint that are none, or contradict each other, though every checksum is right."""

import pytest

from abreast.errors import CheckpointError
from abreast.state import State
from abreast.training.checkpoints.facts import MANIFEST, PASS, check_manifest, check_run, reward_of

PLAYED = {
    "number": 4, "epoch": 8, "played": [[6, [1.0, 0.5], {}], [6, [0.0, 2], {"gold": None}]], "epsilons": [0.5, 0.4],
    "updates": 1, "written": [[12], [12]], "collect_s": 0.1,
}  # fmt: skip
MADE = {
    "experiment": "TreasurehuntEnv", "schedule": "pipelined", "config": "", "devices": ["cpu", "cpu"], "epochs": 10,
    "first_epoch": 0, "recorded": 8, "rounds": 4, "resumable": True, "reason": None, "reward": 1.5,
}  # fmt: skip
RUN = {
    "record.count": 8, "record.first_epoch": 0, "record.agent_steps": 96, "record.updates_before": 0,
    "record.seconds": 0.5, "record.elapsed_s": 1, "loop.epochs_played": 10, "loop.passes": 5, "loop.unfinished": [PLAYED],
}  # fmt: skip
ODD = [None, True, -1, 2**62, 10**400, 0.5, 1e300, "x", [], {}, [[]], {"a": 1}]


def check(**changed):
    check_manifest(MADE, "it")
    check_run(State({**RUN, **changed}), MADE, agents=2, interval=2, where="it")


def test_facts_that_are_right_are_taken():
    check()


@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_a_fact_of_the_manifest_of_another_type_is_named(name):
    refused = 0
    for odd in ODD:
        try:
            check_manifest({**MADE, name: odd}, "it")
        except CheckpointError as error:
            refused += 1
            assert str(error).startswith(f"it cannot be used: its fact {name} is ")
    assert refused >= 9
    with pytest.raises(CheckpointError, match=f"its fact {name} is missing"):
        check_manifest({key: value for key, value in MADE.items() if key != name}, "it")


@pytest.mark.parametrize("name", sorted(RUN))
def test_a_fact_of_the_run_of_another_type_is_refused(name):
    harmless = {"record.agent_steps", "record.updates_before", "record.seconds", "record.elapsed_s"}
    for odd in [None, True, -1, 2**62, 10**400, "x", {}, [[]], {"a": 1}]:
        with pytest.raises(CheckpointError, match=r"^it "):
            check(**{name: odd})
    if name not in harmless:
        with pytest.raises(CheckpointError, match="contradicts itself"):
            check(**{name: [] if name == "loop.unfinished" else RUN[name] + 1})


@pytest.mark.parametrize("name", sorted(PASS))
def test_a_pass_under_way_that_cannot_be_is_refused(name):
    for odd in [None, True, -1, 2**62, 10**400, "x", {}, [[]], [None], [[[]]], [1, "a"]]:
        with pytest.raises(CheckpointError, match=r"^it "):
            check(**{"loop.unfinished": [{**PLAYED, name: odd}]})


@pytest.mark.parametrize("changed", [{"number": 3}, {"epoch": 7}, {"updates": 10**6}, {"more": 1}, {"epsilons": [0.5]}])
def test_a_pass_under_way_that_contradicts_the_others_is_refused(changed):
    with pytest.raises(CheckpointError, match=r"^it (contradicts itself|cannot be used)"):
        check(**{"loop.unfinished": [{**PLAYED, **changed}]})


@pytest.mark.parametrize("odd", [None, True, "x", [], 10**400, {}])
def test_a_reward_that_is_no_number_is_none(odd):
    assert reward_of({"reward": odd}) is None and reward_of({}) is None
    assert reward_of({"reward": 2}) == 2.0
