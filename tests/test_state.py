"""States: joined, taken apart, fitted; and every part continues from its state as if nothing had happened."""

import json

import numpy as np
import pytest

from abreast.errors import StateError
from abreast.replay import Buffer
from abreast.state import State, fit, join, part_of
from fakes import live, make_model


def test_parts_are_found_again_under_their_names():
    one = State({"a": 1}, {"x": np.ones(2)})
    two = State({"a": 2})
    whole = join(one=one, two=two)
    assert whole.facts == {"one.a": 1, "two.a": 2}
    assert part_of(whole, "one").facts == one.facts and part_of(whole, "two").facts == two.facts


def test_a_state_that_does_not_fit_changes_nothing():
    places = {"a": np.zeros(2), "b": np.zeros(3)}
    for wrong in ({"a": np.ones(2)}, {"a": np.ones(2), "b": np.ones(4)}, {"a": np.ones(2), "b": np.ones(3, int)}):
        with pytest.raises(
            StateError, match=r"the thing does not fit: b is .*, expected \(\(3,\), dtype\('float64'\)\)"
        ):
            fit(places, State({}, wrong), "the thing")
        assert not places["a"].any()
    fit(places, State({}, {"a": np.ones(2), "b": np.ones(3), "more": np.ones(1)}), "the thing")
    assert places["a"].all() and places["b"].all()


def kept(state):
    """As it comes back from a file."""
    return State(json.loads(json.dumps(state.facts)), {name: array.copy() for name, array in state.arrays.items()})


@pytest.mark.parametrize("name", ["random", "iqn", "dqn", "ppo"])
def test_a_fresh_model_goes_on_from_the_state_of_another(name):
    model, other = make_model(name), make_model(name, seed=5)
    live(model, epochs=3)
    model.train_step()
    other.memory.set_state(kept(model.memory.state()))
    other.set_learning_state(kept(model.learning_state()))
    other.set_acting_state(kept(model.acting_state()))
    for each in (model, other):
        live(each, epochs=2, seed=9)
    assert live(model, seed=3) == live(other, seed=3)
    assert [model.train_step() for _ in range(3)] == [other.train_step() for _ in range(3)]
    assert model.memory.state().facts == other.memory.state().facts


def test_a_fresh_buffer_goes_on_from_the_state_of_another():
    one, two = (Buffer(16, (1,), n_frames=2, lanes=2, seed=seed) for seed in (0, 1))
    for number in range(40):
        one.add(np.array([number % 200]), number % 3, float(number), number % 7 == 0, lane=number % 2)
    two.set_state(kept(one.state()))
    for each in (one, two):
        each.add(np.array([201]), 0, 1.0, False, lane=1)
    for mine, theirs in zip(one.sample(40), two.sample(40), strict=True):
        assert np.array_equal(mine, theirs)
