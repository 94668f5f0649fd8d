"""Published states: whole, by version, never older than the newest."""

import numpy as np
import pytest
import torch

from abreast.errors import WorkerError
from abreast.processes.memory import SharedBlock
from abreast.state import State
from abreast.training import create_shared_models, publish_model
from abreast.training.published import Published, adopt_published, restore_published
from fakes import live, make_model


def place_for(state, **options):
    place = Published("p.", state, **options)
    return place.attach(SharedBlock(place.layout()))


def test_facts_and_arrays_come_back_whole():
    state = State(
        {"updates": 7, "streams": {"big": 2**100}, "text": "√"},
        {"weights": np.arange(5, dtype=np.float32), "flags": np.array([[True, False]]), "none": np.zeros(0)},
    )
    place = place_for(state)
    place.publish(0, state)
    version, found = place.read(whole=True)
    assert version == 0 and found.facts == state.facts
    assert all(np.array_equal(found.arrays[name], array) for name, array in state.arrays.items())


def test_an_older_version_is_refused():
    """A learner thread that was replaced may go on for a while; what it publishes then is not taken."""
    state = State({}, {"weights": np.zeros(4)})
    place = place_for(state)
    place.publish(3, state)
    for version in (2, 3):
        with pytest.raises(WorkerError, match=f"version {version} was not published"):
            place.publish(version, state)
    place.publish(4, state)
    assert place.version == 4


def test_those_who_act_read_no_more_than_they_need():
    state = State({}, {"weights": np.zeros(4), "moments": np.zeros(1000)})
    place = place_for(state, chooses_with=["weights"])
    place.publish(0, state)
    assert list(place.read()[1].arrays) == ["weights"]
    assert list(place.read(whole=True)[1].arrays) == ["weights", "moments"]


def test_a_state_that_grows_fits_while_there_is_room_and_is_refused_after_that():
    place = place_for(State({}, {"own": np.zeros(1000, np.uint8)}))
    place.publish(0, State({}, {"own": np.ones(900_000, np.uint8)}))
    assert place.read(whole=True)[1].arrays["own"].sum() == 900_000
    with pytest.raises(
        WorkerError, match=r"the attributes of a model, 100,000,000 bytes, have outgrown the .* grow without"
    ):
        place.publish(1, State({}, {"own": np.zeros(100_000_000, np.uint8)}))
    assert place.version == 0


def test_facts_of_thousands_of_lanes_fit_and_those_that_do_not_are_named_as_facts():
    state = State({"rows_learned_from": [0] * 10_000}, {"weights": np.zeros(4)})
    place = place_for(state, chooses_with=["weights"])
    place.publish(0, State({"rows_learned_from": [10**9] * 10_000}, state.arrays))
    assert place.read()[1].facts["rows_learned_from"][-1] == 10**9
    with pytest.raises(WorkerError, match=r"the facts of a model, .* bytes, have outgrown the .* keep what grows in"):
        place.publish(1, State({"rows_learned_from": [10**9] * 100_000}, state.arrays))


@pytest.mark.parametrize("mode", ["snapshot", "double_buffer"])
@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
def test_a_model_goes_on_elsewhere_from_what_is_published(name, mode):
    model, other, actor = make_model(name), make_model(name, seed=1), make_model(name, seed=2)
    live(model, epochs=3)
    model.train_step()
    (place,) = create_shared_models([model], mode)
    place.attach(SharedBlock(place.layout()))
    publish_model(model, place, 0, updates=1)
    adopt_published(actor, place, 0)
    actor.start_epoch_action(epoch=0)
    assert torch.equal(actor.policy_block.values, model.online_block.values)
    other.memory.set_state(model.memory.state())
    _, facts = restore_published(other, place)
    assert facts.facts == {"updates": 1}
    assert [model.train_step() for _ in range(2)] == [other.train_step() for _ in range(2)]
    assert torch.equal(model.online_block.values, other.online_block.values)
