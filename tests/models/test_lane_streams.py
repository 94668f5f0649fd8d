"""Choices follow from the seed, the pass and the lane; and lanes choose in groups that no other lane has a part in."""

import pickle

import numpy as np
import pytest

from abreast.errors import StateError
from abreast.models import algorithm
from abreast.models.lane_streams import LANES_TOGETHER, LaneStreams
from abreast.models.stacked import StackedChoice


def streams(seed=1):
    return LaneStreams(np.random.SeedSequence(seed))


def drawn(lanes, times=100, epoch=5, seed=1):
    """What each lane draws, so many times, in a pass."""
    source = streams(seed)
    source.begin(epoch)
    found = [source.draw(lanes) for _ in range(times)]
    return {lane: [row[index] for row in found] for index, lane in enumerate(lanes)}


def test_what_a_lane_draws_does_not_depend_on_the_lanes_beside_it():
    everywhere, alone = drawn([0, 1, 2, 3]), drawn([2])
    assert everywhere[2] == alone[2]
    assert len({str(each) for each in everywhere.values()}) == 4


def test_passes_and_seeds_have_streams_of_their_own():
    assert len({str(drawn([0], epoch=epoch, seed=seed)) for epoch in (0, 1, 16) for seed in (1, 2)}) == 6


def test_the_same_pass_begins_anew_with_the_same_numbers_whatever_was_drawn_before():
    source = streams()
    source.begin(3)
    first = source.draw([0, 4]), source.seed_of_pass()
    source.begin(4)
    assert (source.draw([0, 4]), source.seed_of_pass()) != first
    source.begin(3)
    assert (source.draw([0, 4]), source.seed_of_pass()) == first
    source.begin(3)
    assert pickle.loads(pickle.dumps(source)).draw([0, 4]) == first[0]


@pytest.mark.parametrize("key", [None, [1], [1, -1], [1, 2**64], ["a", 1], [1.0, 2]])
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(StateError, match="expected two whole numbers"):
        streams().set_key(key)


def test_rows_are_grouped_by_the_number_of_their_lane():
    together = streams().together
    assert together([0, 1, 2], [0, 1, 2]) == [[0, 1, 2]]
    assert together([], [0, 1]) == []
    lanes = list(range(4, 28))
    groups = together(list(range(len(lanes))), lanes)
    assert [{lanes[row] // LANES_TOGETHER for row in group} for group in groups] == [{0}, {1}, {2}, {3}]
    assert sorted(row for group in groups for row in group) == list(range(len(lanes)))


def test_lanes_of_two_actors_are_never_grouped():
    source = streams()
    source.lanes_per_actor = 6
    assert source.together(range(12), range(12)) == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
def test_no_product_has_rows_of_two_groups(name, monkeypatch):
    """Whatever the library makes of rows that come together: with another number of actors they would not."""
    kind, lanes = algorithm(name), 3 * LANES_TOGETHER
    settings = kind.Config.parse({"algorithm": name, "hidden_size": 8, "n_frames": 1, "epsilon": 0.0})
    seen = type("Seen", (), {"input_size": (lanes,), "dtype": np.uint8, "scale": 1.0})()
    model, asked = kind(seen, 3, settings, np.random.SeedSequence(0), lanes), []
    evaluate = model.evaluate
    monkeypatch.setattr(
        model, "evaluate", lambda frames: (asked.append(frames.argmax(dim=1).tolist()), evaluate(frames))[1]
    )
    model.start_epoch_action(epoch=0)
    model.take_actions(list(np.eye(lanes, dtype=np.uint8)), list(range(lanes)))
    assert [len({lane // LANES_TOGETHER for lane in rows}) for rows in asked] == [1, 1, 1]
    assert sorted(lane for rows in asked for lane in rows) == list(range(lanes))


@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
@pytest.mark.parametrize("count", [1, 2])
def test_rows_of_a_group_lie_as_they_would_without_the_others(name, count, monkeypatch):
    """How a product is rounded depends on where its operands lie, too: an actor with these lanes alone has them aligned."""
    kind, lanes = algorithm(name), 6
    settings = kind.Config.parse({"algorithm": name, "hidden_size": 8, "n_frames": 1, "epsilon": 0.0})
    seen = type("Seen", (), {"input_size": (5,), "dtype": np.uint8, "scale": 1.0})()
    models = [kind(seen, 3, settings, np.random.SeedSequence(number), lanes) for number in range(count)]
    places, evaluate = [], kind.evaluate

    def noted(self, frames):
        places.append((frames.data_ptr() % 64, frames.is_contiguous(), frames.shape[-2]))
        return evaluate(self, frames)

    monkeypatch.setattr(kind, "evaluate", noted)
    for model in models:
        model.streams.lanes_per_actor = 3
        model.start_epoch_action(epoch=0)
    states = list(np.arange(lanes * 5, dtype=np.uint8).reshape(lanes, 5))
    if count == 1:
        models[0].take_actions(states, list(range(lanes)))
    else:
        StackedChoice(models).take_actions([states, states], list(range(lanes)))
    assert places == [(0, True, 3), (0, True, 3)]


def test_vectors_follow_from_lane_and_epoch_and_from_nothing_else():
    def drawn(lanes, epoch=0, **how):
        streams = LaneStreams(np.random.SeedSequence(1))
        streams.begin(epoch)
        return np.stack([streams.vectors(lanes, 3, **how) for _ in range(400)], axis=1)

    both, alone, later = drawn([0, 5]), drawn([5]), drawn([5], epoch=1)
    assert both.shape == (2, 400, 3) and both.dtype == np.float32
    assert (both[1] == alone[0]).all() and not (both[0] == both[1]).any() and not (alone == later).any()
    assert abs(both.mean()) < 0.1 and abs(both.std() - 1.0) < 0.1
    uniform = drawn([0], is_normal=False)
    assert -1 <= uniform.min() < -0.9 and 0.9 < uniform.max() <= 1
