"""The grid of kinds stays in step with the entities, and only what changes is visited."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.errors import WorldError
from abreast.state import State
from abreast.worlds import EmptyEntity, Entity, Gridworld, Wall
from abreast.worlds.cells import CellPool
from abreast.worlds.gridworld import OUTSIDE


class Stone(Entity):
    passable = True


class Clock(Entity):
    has_transitions = True
    ticks = 0

    def transition(self, world):
        self.ticks += 1


class Bomb(Entity):
    """Removes its right neighbour when it transitions."""

    has_transitions = True

    def transition(self, world):
        row, column, layer = self.location
        world.remove((row, column + 1, layer))


def new_world(height=4, width=5, layers=2):
    return Gridworld(height, width, layers, EmptyEntity(), seed=1)


def assert_in_step(world):
    """`kinds`, the pools and the list of live entities say what the entities say."""
    names = dict(enumerate(world.kind_names, start=1))
    live = []
    for location in np.ndindex(world.map.shape):
        entity = world.map[location]
        assert entity.location == location
        assert names[world.kinds[location]] == entity.kind
        live += [entity] if entity.has_transitions else []
        for kind in world.kind_names:
            if (world.kind_number(kind), location[2]) in world._pools:
                assert (location in world.cells_of(kind, location[2])) == (entity.kind == kind)
    assert sorted(map(id, live)) == sorted(map(id, world._live.values()))


def test_a_new_world_is_full_of_copies_of_the_default_entity():
    world = new_world()
    assert world.map.shape == (4, 5, 2)
    assert len({id(entity) for entity in world.map.flat}) == 40
    assert_in_step(world)


def test_move_takes_the_place_of_a_passable_entity_and_leaves_a_default_one():
    world, stone, clock = new_world(), Stone(), Clock()
    world.add((1, 1, 0), clock)
    world.add((1, 2, 0), stone)
    assert world.move(clock, (1, 2, 0))
    assert world.observe((1, 2, 0)) is clock
    assert world.observe((1, 1, 0)).kind == "EmptyEntity"
    assert_in_step(world)


@pytest.mark.parametrize("target", [(0, 0, 0), (-1, 1, 0), (1, 5, 0), (1, 1, 2)])
def test_move_is_refused_by_walls_and_beyond_the_edge(target):
    world, stone = new_world(), Stone()
    world.add((0, 0, 0), Wall())
    world.add((1, 1, 0), stone)
    assert not world.move(stone, target)
    assert world.observe((1, 1, 0)) is stone
    assert_in_step(world)


def test_moving_onto_the_own_cell_keeps_the_entity():
    world, stone = new_world(), Stone()
    world.add((1, 1, 0), stone)
    assert world.move(stone, (1, 1, 0))
    assert world.observe((1, 1, 0)) is stone


def test_adding_beyond_the_edge_is_an_error_and_changes_nothing():
    world = new_world()
    with pytest.raises(WorldError, match=r"location \(9, 0, 0\) is outside the 4x5x2 world"):
        world.add((9, 0, 0), Stone())
    assert_in_step(world)


def test_the_map_cannot_be_written_behind_the_worlds_back():
    with pytest.raises(ValueError, match="read-only"):
        new_world().map[0, 0, 0] = Stone()


@pytest.mark.parametrize("sizes", [(0, 5, 1), (5, -1, 1), (5, 5, 0)])
def test_sizes_below_one_are_refused(sizes):
    with pytest.raises(WorldError, match="expected at least 1"):
        Gridworld(*sizes, EmptyEntity())


def test_only_entities_with_transitions_are_visited():
    world, clocks = new_world(20, 20), [Clock() for _ in range(3)]
    for index, clock in enumerate(clocks):
        world.add((index, index, 0), clock)
    world.remove((2, 2, 0))
    visited = []
    Stone.transition = lambda self, world: visited.append(self)
    try:
        world.add((5, 5, 0), Stone())
        world.transition()
    finally:
        del Stone.transition
    assert [clock.ticks for clock in clocks] == [1, 1, 0]
    assert visited == []


def test_an_entity_removed_during_the_turn_does_not_transition_any_more():
    world, clock = new_world(), Clock()
    world.add((1, 1, 0), Bomb())
    world.add((1, 2, 0), clock)
    world.transition()
    assert clock.ticks == 0
    assert_in_step(world)


def test_windows_show_what_is_beyond_the_edge_and_follow_changes():
    world = new_world()
    window = world.window((0, 0, 0), 2)
    assert window.shape == (5, 5, 2)
    assert (window[:2] == OUTSIDE).all() and (window[:, :2] == OUTSIDE).all()
    world.add((0, 1, 0), Stone())
    assert world.window((0, 0, 0), 2)[2, 3, 0] == world.kind_number("Stone")
    assert world.window((0, 1, 0), 3)[3, 3, 0] == world.kind_number("Stone")
    assert_in_step(world)


def test_scatter_puts_every_entity_on_a_different_free_cell_and_refuses_too_many():
    world = new_world(3, 3, 1)
    stones = [Stone() for _ in range(9)]
    world.scatter(stones, onto="EmptyEntity", layer=0)
    assert len({stone.location for stone in stones}) == 9
    with pytest.raises(WorldError, match=r"1 entities \(1 Stone\) need 1 free cells, but the 3x3 world has 0"):
        world.scatter([Stone()], onto="EmptyEntity", layer=0)


def test_spawn_has_the_chance_it_says():
    world = new_world(50, 50, 1)
    world.spawn(Stone, onto="EmptyEntity", probability=0.2, layer=0)
    count = len(world.get_entities_of_kind("Stone"))
    assert abs(count - 500) < 5 * 20  # five standard deviations
    assert_in_step(world)


def test_every_empty_cell_is_spawned_on_when_the_chance_is_one():
    world = new_world(3, 4, 2)
    world.spawn(Stone, onto="EmptyEntity", probability=1.0, layer=1)
    assert {entity.kind for entity in world.map[:, :, 1].flat} == {"Stone"}
    assert {entity.kind for entity in world.map[:, :, 0].flat} == {"EmptyEntity"}


def test_enclose_and_fill():
    world = new_world(4, 5, 2)
    world.fill(0, Stone)
    world.enclose(1, Wall)
    walls = world.kinds[:, :, 1] == world.kind_number("Wall")
    assert walls.sum() == 2 * 5 + 2 * 2
    assert not walls[1:-1, 1:-1].any()
    assert (world.kinds[:, :, 0] == world.kind_number("Stone")).all()


@given(
    st.lists(st.tuples(st.sampled_from("armsc"), st.integers(0, 3), st.integers(0, 4), st.integers(0, 1)), max_size=60)
)
def test_any_history_of_changes_keeps_everything_in_step(changes):
    world = new_world()
    for kind in ("EmptyEntity", "Stone"):
        for layer in (0, 1):
            world.cells_of(kind, layer)
    placed = []
    for change, row, column, layer in changes:
        location = (row, column, layer)
        if change == "a":
            placed.append(Stone() if row % 2 else Clock())
            world.add(location, placed[-1])
        elif change == "r":
            world.remove(location)
        elif change == "m" and placed and world.observe(placed[-1].location) is placed[-1]:
            world.move(placed[-1], location)
        elif change == "s":
            world.spawn(Stone, onto="EmptyEntity", probability=0.1, layer=layer)
        elif change == "c":
            world.create_world()
            placed.clear()
    assert_in_step(world)


def test_cell_pools_draw_without_repeating_and_without_favour():
    pool, rng = CellPool(), np.random.default_rng(0)
    cells = [(row, column, 0) for row in range(2) for column in range(3)]
    for cell in cells:
        pool.add(cell)
    counts = dict.fromkeys(cells, 0)
    for _ in range(6000):
        drawn = pool.draw(rng, 2)
        assert len(set(drawn)) == 2
        for cell in drawn:
            counts[cell] += 1
    assert all(abs(count - 2000) < 200 for count in counts.values())
    pool.discard((0, 0, 0))
    pool.discard((9, 9, 9))
    assert set(pool) == set(cells) - {(0, 0, 0)}


def test_an_entity_placed_again_is_read_again():
    world, clock = new_world(), Clock()
    world.add((1, 1, 0), clock)
    clock.has_transitions = False
    world.add((1, 1, 0), clock)
    world.transition()
    assert clock.ticks == 0
    assert_in_step(world)


# ---- state


class Growing(Gridworld):
    """Asks in `transition`, and nowhere else, for the cells of a kind that is put on the map in another order."""

    def epoch(self):
        self.create_world()
        for column in reversed(range(self.width)):
            for row in range(self.height):
                self.add((row, column, 0), Wall())
        drawn = []
        for _ in range(3):
            self.spawn(EmptyEntity, onto="Wall", probability=0.2)
            drawn.append(self.kinds.tolist())
        return drawn


def growing():
    world = Growing(5, 5, 1, EmptyEntity(), seed=3)
    world.kind_number("only here")
    return world


def test_a_world_goes_on_from_its_state_as_if_nothing_had_happened():
    """The finding: a pool made in the first epoch has another order in the second, which a new world did not know."""
    world, restored, without = growing(), Growing(5, 5, 1, EmptyEntity()), growing()
    world.epoch()
    state = json.loads(json.dumps(world.state().facts))
    restored.set_state(State(state))
    without.set_state(State({"stream": state["stream"]}))
    drawn = world.epoch()
    assert restored.epoch() == drawn and restored.kind_names == world.kind_names
    assert without.epoch() != drawn


def test_a_state_renumbers_what_lies_on_the_map():
    world, other = Gridworld(2, 2, 1, EmptyEntity()), Gridworld(2, 2, 1, EmptyEntity())
    world.kind_number("Soil")
    world.add((0, 0, 0), Wall())
    other.add((1, 1, 0), Wall())
    other.cells_of("EmptyEntity")
    other.window((0, 0, 0), 1)
    other.set_state(world.state())
    assert other.kind_names == world.kind_names and other.kinds[1, 1, 0] == world.kinds[0, 0, 0]
    assert other.window((0, 0, 0), 1)[0, 0, 0] == 0 and [
        each.location for each in other.get_entities_of_kind("Wall")
    ] == [(1, 1, 0)]


def test_layouts_are_counted():
    world = Gridworld(2, 2, 1, EmptyEntity())
    world.create_world()
    assert world.times_laid_out == 2


def test_all_layers_of_a_cell_are_seen_from_any_of_them_the_lowest_first():
    world = Gridworld(3, 4, 2, EmptyEntity())
    below, above = Entity(), Entity()
    world.add((1, 2, 0), below)
    world.add((1, 2, 1), above)
    assert world.observe_all_layers((1, 2, 1)) == [below, above] == world.observe_all_layers((1, 2, 0))
