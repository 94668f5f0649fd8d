"""What a slot writes down of a turn, and how it is told to be out of step."""

import numpy as np
import pytest

from abreast.rollouts.episodes.episode import TurnResult
from abreast.rollouts.episodes.slot import HERE, Slot
from abreast.rollouts.registry import find_tag

INPUT = {"env_id": 0, "actions": ["Left", "fly"], "llm_response": "Left"}


def write(slot, result, inputs):
    if inputs is None:
        slot.write_start(result)
    else:
        slot.write_turn(result, inputs, 0.1)


@pytest.fixture
def slot():
    slot = Slot(3, 1, find_tag("frozen_lake", {})._replace(budget=4))
    slot.begin(seed=9)
    write(slot, TurnResult("first", seconds=0.5), None)
    return slot


def test_a_start_is_the_first_entry_of_the_history(slot):
    assert slot.history == [{"state": "first", "actions_left": 4}]
    assert slot.tally.executed == 0 and not slot.terminated


def test_a_turn_completes_the_last_entry_and_adds_another(slot):
    write(slot, TurnResult("second", 1.5, {"x": 1}, ["Left"], [1], dropped=["fly"], seconds=0.2), INPUT)
    assert slot.history == [
        {
            "state": "first", "actions_left": 4, "penalty": -0.1, "actions": ["Left"], "reward": 1.5, "info": {"x": 1},
            "llm_response": "Left", "llm_raw_response": "",
            "invalid": ["'fly' was not executed: it is no action of this environment."],
        },
        {"state": "second", "actions_left": 3},
    ]  # fmt: skip
    assert slot.cache["penalty"] == -0.1 and slot.executed == [[1]]
    assert (slot.tally.reward, slot.tally.given, slot.tally.invalid, slot.tally.seconds) == (1.5, 2, 1, [0.2])
    assert slot.tally.executed == 1


def test_a_turn_says_what_was_invalid_and_why(slot):
    write(slot, TurnResult("s", executed=[1], names=["Left"], refused=["Left"]), {**INPUT, "format_is_valid": False})
    assert slot.history[0]["invalid"] == [
        "'Left' was executed, and the environment calls it invalid.",
        "the answer does not have the form that is asked for.",
    ]
    write(slot, TurnResult("s"), {"actions": []})
    assert slot.history[1]["invalid"] == ["no action was given."]
    write(slot, TurnResult("s", executed=[1], names=["Left"]), {"actions": ["Left"]})
    assert "invalid" not in slot.history[2]


@pytest.mark.parametrize(
    ("result", "terminated", "truncated"),
    [
        (TurnResult("s", executed=[1], names=["Left"]), False, False),
        (TurnResult("s", executed=[1], names=["Left"], done=True, info={"success": True}), True, False),
        (TurnResult("s", executed=[1], names=["Left"], done=True, info={"success": False}), True, True),
        (TurnResult("s", executed=[1] * 4, names=["Left"] * 4, info={"success": True}), True, True),
        (TurnResult("", failure="it broke"), True, True),
    ],
)
def test_how_an_episode_ends(slot, result, terminated, truncated):
    write(slot, result, INPUT)
    assert (slot.terminated, slot.truncated) == (terminated, truncated)
    assert slot.tally.success == (terminated and not truncated)


def test_a_failure_keeps_what_was_shown_last(slot):
    write(slot, TurnResult("", failure="it broke"), INPUT)
    assert slot.history[0]["info"] == {"success": False, "error": "it broke"}
    assert slot.history[1] == {"state": "first", "actions_left": 3}
    assert slot.cache["penalty"] == 0, "a failure is not the player's fault"


def test_images_have_places_in_the_text(slot):
    write(slot, TurnResult([np.zeros((2, 2, 3), np.uint8)] * 2, executed=[1]), INPUT)
    assert slot.history[1]["state"] == "<images>\n<images>" and len(slot.history[1]["images"]) == 2


def test_a_new_episode_or_a_move_leaves_the_environment_out_of_step(slot):
    slot.started, slot.built_in = slot.serial, 1
    slot.begin(seed=10)
    assert slot.started != slot.serial and slot.built_in == 1 and slot.history == []
    slot.started = slot.serial
    slot.move(2)
    assert (slot.worker, slot.built_in, slot.started) == (2, 0, 0)
    slot.move(HERE)
    assert slot.worker == HERE


def test_a_slot_that_takes_over_an_environment_leaves_the_old_episode_as_it_was(slot):
    before, slot.here = dict(slot.cache), object()
    new = Slot(3, None, slot.tag, is_single=True)
    new.takes_over(slot)
    new.begin(seed=1)
    assert slot.cache == before and slot.here is None and new.here is not None
    assert new.started != new.serial, "its environment is not yet in this episode"
