"""Spaces as arrays and numbers."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces.utils import flatten

from abreast.errors import GameError
from abreast.integrations.adapted.actions import actions_of
from abreast.integrations.adapted.views import view_of
from zoo_envs import Corridor

SAMPLED = {
    "vector": spaces.Box(-5.0, 5.0, (3,), np.float64),
    "discrete": spaces.Discrete(6),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-binary": spaces.MultiBinary(4),
    "tuple": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2, 2))]),
    "dict": spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Dict({"deep": spaces.MultiBinary(3)})}),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_observations_are_flattened_as_gymnasium_does(name):
    space, view = SAMPLED[name], view_of(SAMPLED[name])
    space.seed(1)
    for _ in range(20):
        given = space.sample()
        seen = view.read(given)
        assert seen.shape == view.observation.input_size and seen.dtype == view.observation.dtype
        assert np.allclose(seen, flatten(space, given), atol=1e-6)


def test_an_observation_is_a_copy():
    given = np.zeros(3, np.float32)
    seen = view_of(spaces.Box(-1.0, 1.0, (3,))).read(given)
    given[:] = 1
    assert not seen.any()


PICTURES = {
    "colours": (spaces.Box(0, 255, (20, 30, 3), np.uint8), (20, 30, 3), 1 / 255),
    "grey": (spaces.Box(0, 255, (20, 30), np.uint8), (20, 30, 1), 1 / 255),
    "channels first": (spaces.Box(0, 255, (3, 20, 30), np.uint8), (20, 30, 3), 1 / 255),
    "channels first, of floats": (spaces.Box(0, 1, (3, 20, 30), np.float32), (20, 30, 3), 1.0),
    "a stack of grey ones, first": (spaces.Box(0, 255, (2, 20, 30), np.uint8), (20, 30, 2), 1 / 255),
    "planes of a board": (spaces.Box(0, 1, (8, 8, 20), np.int8), (8, 8, 20), 1.0),
    "a board": (spaces.Box(0, 1, (6, 7, 2), np.int8), (6, 7, 2), 1.0),
    "a small picture": (spaces.Box(0, 255, (7, 7, 3), np.uint8), (7, 7, 3), 1 / 255),
    "codes of a small grid": (spaces.Box(0, 10, (7, 7, 3), np.uint8), (7, 7, 3), 1 / 10),
    "memory": (spaces.Box(0, 255, (128,), np.uint8), (128,), 1 / 255),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_keep_their_shape_and_their_bytes(name):
    space, shape, scale = PICTURES[name]
    view, given = view_of(space), space.sample()
    assert view.observation.input_size == shape and view.observation.scale == pytest.approx(scale)
    assert view.observation.dtype == space.dtype
    expected = given.transpose(1, 2, 0) if "first" in name else given.reshape(shape)
    assert np.array_equal(view.read(given), expected)


def test_a_stack_of_pictures_is_one_with_more_channels():
    space = spaces.Box(0, 255, (4, 20, 30, 3), np.uint8)  # as gymnasium.wrappers.FrameStackObservation has it
    view, given = view_of(space), space.sample()
    seen = view.read(given)
    assert seen.shape == view.observation.input_size == (20, 30, 12)
    assert all(np.array_equal(seen[:, :, 3 * frame : 3 * frame + 3], given[frame]) for frame in range(4))


def test_numbers_beside_a_picture_become_planes_and_text_is_left_out():
    import minigrid  # noqa: F401 (it registers its environments)

    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    view, (given, _) = view_of(env.observation_space), env.reset(seed=0)
    seen = view.read(given)
    assert seen.shape == (7, 7, 3 + 4) and seen.dtype == np.uint8 and view.left_out == ["['mission']"]
    assert np.array_equal(seen[:, :, :3], given["image"])
    planes = seen[:, :, 3:] * view.observation.scale
    assert (planes[:, :, given["direction"]] == 1).all() and planes.sum() == 49


def test_a_picture_that_goes_into_a_row_is_told_of_once(caplog):
    picture, speed = spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Box(-1.0, 1.0, (2,))
    for _ in range(2):
        assert view_of(spaces.Dict({"camera": picture, "speed": speed})).observation.input_size == (8 * 8 * 3 + 2,)
    assert caplog.text.count("the picture ['camera'] of an observation goes into one row") == 1


def test_large_bounds_are_brought_to_one_and_none_are_left_alone():
    low = np.array([-50.0, -1.0, -np.inf, -1e6], np.float64)
    seen = view_of(spaces.Box(low, -low, dtype=np.float64)).read(np.array([25.0, 0.5, 3.0, 7.0]))
    assert seen.tolist() == [0.5, 0.5, 3.0, 7.0]


def test_all_parts_of_a_nested_observation_are_seen():
    env = Corridor()
    env.reset(seed=0)
    view = view_of(env.observation_space)
    flags, pair, place = [1, 0], [0.5, -1.0, 0, 1, 0, 0, 1], [0.0] * 5
    place[env.place] = 1.0
    assert view.read(env.seen()).tolist() == [*flags, *pair, *place]  # in the order of the space, which sorts its keys


WRONG = {
    "shape": (spaces.Box(-1.0, 1.0, (3,)), np.zeros(4), r"an array of shape \(4,\), but its space says \(3,\)"),
    "type": (spaces.Box(-1.0, 1.0, (3,)), "text", "expected an array"),
    "none": (spaces.Box(-1.0, 1.0, (3,)), None, "its space says"),
    "range": (spaces.Discrete(3), 3, r"3: its space says Discrete\(3\), in whole numbers"),
    "fraction": (spaces.Discrete(3), 1.7, r"1.7: its space says Discrete\(3\), in whole numbers"),
    "fractions": (
        spaces.MultiDiscrete([3, 3]),
        np.array([1.0, 0.5]),
        r"0.5\]\)?: its space says MultiDiscrete\(\[3 3\]\), in whole numbers",
    ),
    "other order": (spaces.MultiDiscrete([[2, 2], [2, 2]]), np.zeros(4, int), "its space says MultiDiscrete"),
    "no flags": (spaces.MultiBinary(2), np.array([0, 5]), r"its space says MultiBinary\(2\)"),
    "brightness from 0 to 1": (spaces.Box(0, 255, (2,), np.uint8), np.array([0.2, 0.9]), "which cannot be uint8"),
    "no bytes": (spaces.Box(0, 255, (2,), np.uint8), np.array([300, -1]), "which cannot be uint8"),
    "no bytes in a list": (spaces.Box(0, 255, (2,), np.uint8), [300, 1], "expected an array"),
    "infinite": (spaces.Box(-np.inf, np.inf, (2,)), np.array([1.0, np.inf]), "inf, which is no number to learn from"),
    "mask alone": (
        spaces.Dict({"board": spaces.Discrete(2), "action_mask": spaces.MultiBinary(2)}),
        {"board": 1},
        "expected a dictionary with `action_mask`",
    ),
    "key": (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 1}, r"lacks \['a'\]"),
    "mask": (
        spaces.Dict({"observation": spaces.Discrete(2), "action_mask": spaces.MultiBinary(2)}),
        {"observation": 1},
        "expected a dictionary with `observation` and `action_mask`",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_its_space_is_refused(name):
    space, given, told = WRONG[name]
    with pytest.raises(GameError, match=told):
        view_of(space).read(given)


def test_numbers_that_a_square_of_32_bits_cannot_hold_are_numbers():
    assert view_of(spaces.Box(-np.inf, np.inf, (2,))).read([1e30, 1.0])[0] == np.float32(1e30)


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Text(5), "text alone"),
        (spaces.Sequence(spaces.Discrete(2)), "of the space Sequence"),
        (spaces.Dict({"action_mask": spaces.MultiBinary(2)}), "an action_mask alone"),
    ],
)
def test_observations_that_cannot_be_seen_are_refused(space, told):
    with pytest.raises(GameError, match=told):
        view_of(space)


def test_every_action_has_a_number():
    plain, shifted = actions_of(spaces.Discrete(3)), actions_of(spaces.Discrete(3, start=-1))
    assert plain.is_plain and [shifted.of(action) for action in range(3)] == [-1, 0, 1]
    pairs = actions_of(spaces.MultiDiscrete([2, 3], start=[0, 5]))
    assert [pairs.of(action).tolist() for action in range(pairs.number)] == [
        [first, second] for first in range(2) for second in range(5, 8)
    ]
    many = actions_of(spaces.MultiDiscrete([2, 40, 50], start=[0, 1, 0]))
    assert many.number == 4000 and many.of(3999).tolist() == [1, 40, 49] and many.of(50).tolist() == [0, 2, 0]
    many.of(50)[:] = 9  # the environment may write into its action
    assert many.of(50).tolist() == [0, 2, 0]
    nested = spaces.Dict({"go": spaces.Discrete(2), "with": spaces.Tuple([spaces.MultiBinary(1), spaces.Discrete(2)])})
    found = actions_of(nested)
    assert found.number == 8 and all(nested.contains(found.of(action)) for action in range(8))
    assert len({repr(found.of(action)) for action in range(8)}) == 8


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Box(-np.inf, 1.0, (2,)), r"continuous without bounds .*TransformAction"),
        (spaces.Box(0, 9, (2,), np.int64), "whole numbers in a Box"),
        (spaces.Box(-1.0, 1.0, (0,)), "expected 1 to 1,048,576 numbers"),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Box(-1.0, 1.0, (2,))]),
            "continuous within others .* floats of one Box",
        ),
        (spaces.MultiDiscrete([200] * 3), "8,000,000 in number, and at most 1,048,576 are supported"),
        (spaces.MultiBinary(40), "at most 1,048,576"),
        (spaces.Discrete(10_000_000), "10,000,000 in number"),
        (spaces.Text(3), "not numbered"),
    ],
)
def test_actions_that_cannot_be_numbered_are_refused(space, told):
    with pytest.raises(GameError, match=told):
        actions_of(space)
