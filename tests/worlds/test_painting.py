"""Pictures for people: what is seen can be told apart, and is as it was; what agents see is left as it is."""

import hashlib
from itertools import combinations, pairwise

import numpy as np
import pytest

from abreast import EmptyEntity, Entity, Gridworld, Wall
from abreast.worlds import RGBObservationSpec, pixel_art
from abreast.worlds.painting import GROUND, LARGEST_SIDE, WALL, WIDTH, Scene, ScenePainter, tile_for

KINDS = [type(f"Thing{number}", (Entity,), {}) for number in range(20)]


class Berry(Entity):
    sprite = pixel_art({"r": "#c1121f"}, ".r", "rr")


class Hedgewall(Entity):
    """A wall of a user's own."""


class Lamp(Entity):
    """Looks otherwise in every turn."""

    has_transitions = True
    sprite = pixel_art({"a": "#101010"}, "a")

    def transition(self, world):
        self.sprite = pixel_art({"a": "#f0f0f0"}, "a")


def world_with(*entities, layers=1, width=None):
    world = Gridworld(1, width or len(entities), layers, EmptyEntity())
    for column, entity in enumerate(entities):
        world.add((0, column, layers - 1), entity)
    return world


def tiles(world, agents=()):
    """The picture of a world of one row, cell by cell."""
    picture = np.asarray(ScenePainter(world.kind_names).paint(Scene.of(world, agents, world.changing)))
    return np.split(picture, world.width, axis=1)


def colours(tile):
    return {"#" + bytes(pixel).hex() for pixel in tile.reshape(-1, 3)}


def outlines(tile):
    """Which pixels are not ground: the shape, whatever its colour."""
    return np.any(tile[2:-2, 2:-2] != np.array(tuple(bytes.fromhex(GROUND[1:]))), axis=-1)


def test_kinds_without_sprites_differ_from_each_other_and_the_nearest_ones_in_shape_and_colour():
    drawn = tiles(world_with(*(kind() for kind in KINDS)))
    assert all(not np.array_equal(one, other) for one, other in combinations(drawn, 2))
    for one, other in pairwise(drawn):
        assert not np.array_equal(outlines(one), outlines(other)) and colours(one) != colours(other)


def test_kinds_look_the_same_wherever_they_stand():
    first, second = world_with(*(kind() for kind in KINDS[:3])), world_with(*(kind() for kind in KINDS[:3]))
    second.add((0, 0, 0), KINDS[2]())
    assert np.array_equal(tiles(second)[0], tiles(first)[2])


def test_walls_and_empty_cells_are_plain():
    empty, wall, ours = tiles(world_with(EmptyEntity(), Hedgewall(), Wall()))
    assert colours(wall) == {WALL} and len(colours(empty)) == 2 and not outlines(empty).any()
    assert not np.array_equal(wall, ours)


def test_agents_are_discs_with_their_number_and_a_sprite_of_ones_own_wins():
    agents = [KINDS[0](), KINDS[0](), Berry()]
    one, two, berry, plain = tiles(world_with(*agents, Berry()), agents)
    assert not np.array_equal(one, two) and np.array_equal(outlines(one)[:, 0], outlines(two)[:, 0])
    assert "#c1121f" in colours(berry) & colours(plain) and not np.array_equal(berry, plain)
    half = len(plain) // 2
    assert colours(plain[half:]) == {"#c1121f"} and np.array_equal(berry[:half], plain[:half])  # the number is below


def test_the_lowest_of_several_layers_is_a_pale_tile():
    world = world_with(EmptyEntity(), KINDS[0](), layers=2)
    world.fill(0, KINDS[1])
    ground, thing = tiles(world)
    assert GROUND not in colours(ground) and not np.array_equal(ground, thing)


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (10, 10), (7, 40), (40, 40), (40, 5), (300, 200), (2000, 30)])
def test_maps_are_wide_enough_and_not_too_large(size):
    tile = tile_for(*size)
    assert tile >= 1 and (max(size) * tile <= LARGEST_SIDE or tile == 1)
    assert size[1] * tile >= WIDTH or (max(size) * (tile + 8) > LARGEST_SIDE or tile == 96)
    assert tile % 8 == 0 or max(size) > LARGEST_SIDE / 8  # sprites of 8×8 are enlarged by a whole number


def test_a_scene_is_painted_as_it_was():
    agent, lamp = Berry(), Lamp()
    world = world_with(agent, lamp, EmptyEntity())
    scene, before = Scene.of(world, [agent], world.changing), tiles(world, [agent])
    world.transition()
    agent.sprite = pixel_art({"b": "#0000ff"}, "b")
    world.move(agent, (0, 2, 0))
    painted = np.asarray(ScenePainter(world.kind_names).paint(scene))
    assert np.array_equal(painted, np.concatenate(before, axis=1))
    assert not np.array_equal(painted, np.concatenate(tiles(world, [agent]), axis=1))


class Painted(Entity):
    colour = "#1d4ed8"


def test_a_colour_of_its_own_is_that_of_the_shape_the_wall_and_the_disc():
    def has(tile):
        return (tile == (0x1D, 0x4E, 0xD8)).all(axis=2).any()

    wall, agent, plain = type("Hedgewall", (Painted,), {})(), type("Blue", (Painted,), {})(), KINDS[0]()
    assert [bool(has(tile)) for tile in tiles(world_with(Painted(), wall, agent, plain), [agent])] == [True] * 3 + [
        False
    ]
    turned = Painted()
    world = world_with(turned)
    scene = Scene.of(world, [], [turned])
    turned.colour = "#b91c1c"  # seen as it was
    assert has(np.asarray(ScenePainter(world.kind_names).paint(scene)))


def test_a_legend_has_each_kind_once_in_order_without_agents_and_empty_cells():
    agent = KINDS[3]()
    world = world_with(KINDS[0](), agent, KINDS[1](), KINDS[0](), EmptyEntity())
    _, legend = ScenePainter(world.kind_names).paint_all([Scene.of(world, [agent])])
    assert [name for _, name in legend] == ["Thing0", "Thing1"]


def test_what_agents_see_in_pixels_is_as_it_always_was():
    world = Gridworld(4, 5, 2, EmptyEntity())
    world.fill(0, KINDS[7])
    for column, entity in enumerate([KINDS[0](), Berry(), Wall(), KINDS[1](), Hedgewall()]):
        world.add((column % 4, column, 1), entity)
    seen = [RGBObservationSpec(vision_radius=2, tile=5), RGBObservationSpec(env_dims=(4, 5))]
    data = b"".join(spec.observe(world, (1, 1, 1)).tobytes() for spec in seen)
    assert hashlib.sha256(data).hexdigest() == DIGEST


DIGEST = "edf500542eef0fd164aef19d822b136fb1da84ff1958a8f2d41cfab4c1038234"
"""Of the first version: observations are results."""
