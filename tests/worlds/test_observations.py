"""What agents see."""

import numpy as np
import pytest

from abreast.errors import ConfigError, WorldError
from abreast.worlds import (
    ActionSpec,
    AsciiObservationSpec,
    EmptyEntity,
    Entity,
    Gridworld,
    OneHotObservationSpec,
    RGBObservationSpec,
    Wall,
    draw_world,
    pixel_art,
)


class Gem(Entity):
    symbol = "*"
    sprite = pixel_art({"a": "#ff0000"}, "a.", ".a")


class Ground(Entity):
    symbol = "."
    sprite = pixel_art({"a": "#0000ff"}, "aa", "aa")


def two_layers():
    world = Gridworld(3, 4, 2, EmptyEntity())
    world.fill(0, Ground)
    world.add((0, 1, 1), Gem())
    return world


KINDS = ["EmptyEntity", "Ground", "Gem", "Wall"]


def test_one_hot_sums_layers_and_shows_walls_beyond_the_edge():
    seen = OneHotObservationSpec(KINDS, vision_radius=1).observe(two_layers(), (0, 0, 1))
    assert seen.shape == (3, 3, 4) and seen.dtype == np.uint8
    assert seen[1, 1].tolist() == [1, 1, 0, 0]  # empty above ground
    assert seen[1, 2].tolist() == [0, 1, 1, 0]  # gem above ground
    assert seen[0, 0].tolist() == [0, 0, 0, 1]  # beyond the edge, once for both layers


def test_blank_kinds_have_no_plane_unless_listed():
    world = two_layers()
    seen = OneHotObservationSpec(["Gem", "Wall"], vision_radius=1, blank=["EmptyEntity", "Ground"]).observe(
        world, (0, 0, 1)
    )
    assert seen[1, 1].tolist() == [0, 0] and seen[1, 2].tolist() == [1, 0] and seen[0, 0].tolist() == [0, 1]
    seen = OneHotObservationSpec(["Gem", "Ground"], vision_radius=1, outside="Ground").observe(world, (0, 0, 1))
    assert seen[1, 1].tolist() == [0, 1], "empty cells are blank by default; the ground is listed"
    listed = OneHotObservationSpec(KINDS, vision_radius=1, blank=KINDS).observe(world, (0, 0, 1))
    assert np.array_equal(listed, OneHotObservationSpec(KINDS, vision_radius=1).observe(world, (0, 0, 1)))


def test_full_one_hot_view_is_the_whole_map_from_everywhere():
    spec, world = OneHotObservationSpec(KINDS, env_dims=(3, 4)), two_layers()
    seen = spec.observe(world, (2, 3, 1))
    assert seen.shape == spec.input_size == (3, 4, 4)
    assert np.array_equal(seen, spec.observe(world, (0, 0, 1)))
    assert np.argwhere(seen[:, :, 2]).tolist() == [[0, 1]]


def test_observations_are_copies_that_later_turns_do_not_change():
    spec, world = OneHotObservationSpec(KINDS, vision_radius=1), two_layers()
    before = spec.observe(world, (0, 0, 1))
    kept = before.copy()
    world.remove((0, 1, 1))
    assert np.array_equal(before, kept)
    assert not np.array_equal(spec.observe(world, (0, 0, 1)), kept)


def test_a_kind_missing_from_the_entity_list_is_named():
    with pytest.raises(ConfigError, match="the world holds 'Gem', which the observation's entity_list leaves out"):
        OneHotObservationSpec(["EmptyEntity", "Ground"], vision_radius=1).observe(two_layers(), (0, 0, 1))


def test_a_misspelt_kind_is_answered_with_the_right_spelling_of_it():
    expected = "the observation's entity_list has 'Gme', which the world does not hold: did you mean 'Gem'?"
    with pytest.raises(ConfigError) as caught:
        OneHotObservationSpec(["EmptyEntity", "Ground", "Gme"], vision_radius=1).observe(two_layers(), (0, 0, 1))
    assert str(caught.value) == expected


@pytest.mark.parametrize("arguments", [{}, {"vision_radius": 1, "env_dims": (3, 3)}, {"vision_radius": -1}])
def test_a_view_is_either_partial_or_full(arguments):
    with pytest.raises(ConfigError):
        OneHotObservationSpec(KINDS, **arguments)


def test_a_full_view_refuses_a_world_of_another_size():
    with pytest.raises(WorldError, match=r"the full view is of \(9, 9\), but the world is \(3, 4\)"):
        AsciiObservationSpec(env_dims=(9, 9)).observe(two_layers(), (0, 0, 0))


def test_rgb_puts_sprites_over_each_other_and_black_beyond_the_edge():
    spec = RGBObservationSpec(vision_radius=1, tile=2)
    seen = spec.observe(two_layers(), (0, 0, 1))
    assert seen.shape == spec.input_size == (6, 6, 3) and seen.dtype == np.uint8
    gem = seen[2:4, 4:6]
    assert gem[0, 0].tolist() == [255, 0, 0] and gem[0, 1].tolist() == [0, 0, 255]
    assert seen[:2].max() == 0 and seen[:, :2].max() == 0


def test_full_rgb_view_equals_the_picture_of_the_world():
    world = two_layers()
    assert np.array_equal(RGBObservationSpec(env_dims=(3, 4), tile=4).observe(world, (1, 1, 0)), draw_world(world, 4))


def test_kinds_without_a_sprite_get_a_colour_of_their_own():
    world = Gridworld(1, 2, 1, EmptyEntity())
    for column, name in enumerate(("Here", "There")):
        world.add((0, column, 0), type(name, (Entity,), {})())
    picture = draw_world(world, 1)
    assert picture[0, 0].tolist() != picture[0, 1].tolist() and picture.min() > 0


def test_ascii_shows_the_topmost_symbol():
    spec = AsciiObservationSpec(env_dims=(3, 4))
    world = two_layers()
    world.add((2, 3, 1), Wall())
    assert spec.to_text(spec.observe(world, (0, 0, 0))) == ".*..\n....\n...#"
    partial = AsciiObservationSpec(vision_radius=1)
    assert partial.to_text(partial.observe(world, (0, 0, 0))) == "   \n .*\n .."


def test_symbols_and_kinds_are_inherited_as_one_would_expect():
    class BrickWall(Wall):
        pass

    class Heron(Entity):
        pass

    assert (BrickWall.kind, BrickWall.symbol) == ("BrickWall", "#")
    assert (Heron.kind, Heron.symbol) == ("Heron", "H")


def test_pixel_art_must_be_square():
    with pytest.raises(WorldError, match="row 1 of a 2x2 sprite is 3 pixels wide"):
        pixel_art({"a": "#000000"}, "aa", "aaa")


def test_a_missing_sprite_file_is_named():
    class Lost(Entity):
        sprite = "nowhere.png"

    world = Gridworld(1, 1, 1, Lost())
    with pytest.raises(WorldError, match=r"cannot read the sprite nowhere.png"):
        draw_world(world)


def test_actions_have_names_and_no_name_twice():
    spec = ActionSpec(["up", "down"])
    assert (spec.n_actions, spec.get_readable_action(1)) == (2, "down")
    for wrong in ([], ["up", "up"]):
        with pytest.raises(ConfigError):
            ActionSpec(wrong)
