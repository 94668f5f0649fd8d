"""Published states: whole, by version, never older than the newest."""

import numpy as np
import pytest
import torch

from abreast.errors import WorkerError
from abreast.processes.memory import SharedBlock
from abreast.state import Opaque, State
from abreast.training import create_shared_models, publish_model
from abreast.training.published import Published, adopt_published, restore_published
from fakes import live, make_model


def place_for(state, **options):
    place = Published("p.", state, **options)
    return place.attach(SharedBlock(place.layout()))


def test_facts_arrays_and_opaque_bytes_come_back_whole():
    state = State(
        {"updates": 7, "streams": {"big": 2**100}, "text": "√"},
        {"weights": np.arange(5, dtype=np.float32), "flags": np.array([[True, False]]), "none": np.zeros(0)},
        {"model": Opaque("pickle", b"12345")},
    )
    place = place_for(state)
    place.publish(0, state)
    version, found = place.read_whole()
    assert version == 0 and found.facts == state.facts and found.opaque == state.opaque
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
    assert list(place.read_whole()[1].arrays) == ["weights", "moments"]


def test_a_state_that_grows_fits_while_there_is_room_and_is_refused_after_that():
    place = place_for(State({}, {}, {"model": Opaque("pickle", b"x" * 1000)}))
    place.publish(0, State({}, {}, {"model": Opaque("pickle", b"y" * 900_000)}))
    assert place.read_whole()[1].opaque["model"].data == b"y" * 900_000
    with pytest.raises(WorkerError, match="has outgrown its shared memory"):
        place.publish(1, State({}, {}, {"model": Opaque("pickle", b"z" * 100_000_000)}))
    assert place.version == 0


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
