"""Cleanup, rule by rule."""

import numpy as np
import pytest

from abreast.errors import ConfigError, WorldError
from abreast.games import find_game
from abreast.games.cleanup.agents import ACTIONS, FACING_KINDS, FROZEN_KIND, CleanupAgent
from abreast.games.cleanup.entities import Apple, Beam, CleanBeam, Dirt, Grass, Orchard, Water, ZapBeam
from abreast.games.cleanup.env import CleanupEnv
from abreast.games.cleanup.world import AIR, GROUND, TOP
from abreast.worlds import Wall, draw_world

Cells = set[tuple[int, int]]


def build(*overrides: str) -> CleanupEnv:
    game = find_game("cleanup")
    env = game.build(game.configure(None, ["model.algorithm=random", *overrides]))
    assert isinstance(env, CleanupEnv)
    return env


def build_still(*overrides: str) -> CleanupEnv:
    """A clean valley in which nothing happens by itself: river in columns 1-3, meadow 4-7, orchard 8-11, rows 1-9."""
    return build("world.dirt_at_start=0", "world.dirt_prob=0", "world.apple_prob=0", *overrides)


def agent_at(env: CleanupEnv, number: int, row: int, column: int, facing: str = "down") -> CleanupAgent:
    """Agent `number`, put at a place and looking in a direction."""
    agent = env.agents[number]
    assert isinstance(agent, CleanupAgent)
    agent.face(facing)
    assert env.world.move(agent, (row, column, TOP))
    return agent


def do(env: CleanupEnv, agent: CleanupAgent, action: str) -> float:
    """One step of an agent; returns its reward."""
    before = agent.score
    agent.perform(env.world, agent.pov(env.world), ACTIONS.index(action))
    return agent.score - before


def make_dirty(env: CleanupEnv, count: int) -> None:
    for row, column, _ in env.world.cells_of(Water.kind, GROUND).draw(env.world.rng, count):
        env.world.add((row, column, GROUND), Dirt())


def cells_of(env: CleanupEnv, kind: str) -> Cells:
    return {entity.location[:2] for entity in env.world.get_entities_of_kind(kind)}


# ---- the map


def test_river_meadow_and_orchard_lie_side_by_side_inside_walls() -> None:
    size = ("world.height=4", "world.width=8", "world.river_width=2", "world.orchard_width=3")
    env = build_still(*size, "experiment.num_agents=2")
    inside = [[type(env.world.observe((row, column, GROUND))) for column in range(1, 7)] for row in (1, 2)]
    assert inside == [[Water, Water, Grass, Orchard, Orchard, Orchard]] * 2
    edge = {(row, column) for row in range(4) for column in range(8) if row in (0, 3) or column in (0, 7)}
    assert cells_of(env, Wall.kind) == edge


def test_agents_start_on_different_meadow_cells() -> None:
    env = build("experiment.num_agents=36")  # exactly as many as there are
    assert {agent.location[:2] for agent in env.agents} == cells_of(env, Grass.kind)
    assert {agent.location[2] for agent in env.agents} == {TOP}


def test_more_agents_than_meadow_is_refused() -> None:
    with pytest.raises(WorldError, match=r"experiment\.num_agents is 37, but the meadow .* has 36 cells"):
        build("experiment.num_agents=37")


@pytest.mark.parametrize(("share", "dirty"), [(0.0, 0), (0.2, 5), (1.0, 27)])
def test_dirt_at_start_is_a_share_of_the_river(share: float, dirty: int) -> None:
    env = build(f"world.dirt_at_start={share}")
    assert len(cells_of(env, Dirt.kind)) == dirty
    assert len(cells_of(env, Water.kind)) == 27 - dirty
    assert env.world.dirty_share == dirty / 27


@pytest.mark.parametrize(
    "override", ["height=2", "river_width=0", "orchard_width=-1", "beam_length=0", "freeze_turns=0"]
)
def test_sizes_that_make_no_sense_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match=rf"world\.{override.split('=')[0]} is"):
        build(f"world.{override}")


@pytest.mark.parametrize(
    "override",
    ["dirt_prob=1.1", "dirt_threshold=0", "apple_prob=-0.1", "dirt_at_start=2", "zap_cost=-1", "hit_penalty=-1"],
)
def test_rates_and_costs_out_of_range_are_refused(override: str) -> None:
    with pytest.raises(ConfigError, match=rf"world\.{override.split('=')[0]} is"):
        build(f"world.{override}")


def test_a_map_without_meadow_is_refused_and_one_column_is_enough() -> None:
    with pytest.raises(ConfigError, match=r"world\.river_width is 9 and world\.orchard_width is 4.*Raise width to 16"):
        build("world.river_width=9", "world.width=15")
    assert build("world.river_width=9", "world.width=16").world.river_size == 81


# ---- dirt and apples


def test_dirt_gathers_in_the_river_only() -> None:
    env = build("world.dirt_at_start=0", "world.dirt_prob=1")
    env.world.transition()
    assert cells_of(env, Dirt.kind) == {(row, column) for row in range(1, 10) for column in range(1, 4)}


@pytest.mark.parametrize(("dirty", "chance"), [(0, 0.5), (5, 0.25), (9, 0.05), (10, 0.0), (11, 0.0), (27, 0.0)])
def test_growth_falls_linearly_and_stops_at_the_threshold(dirty: int, chance: float) -> None:
    still = ("world.dirt_at_start=0", "world.dirt_prob=0")
    env = build(*still, "world.apple_prob=0.5", f"world.dirt_threshold={10 / 27}")
    make_dirty(env, dirty)
    assert env.world.growth_chance == pytest.approx(chance)


def test_a_clean_river_fills_the_orchard_and_nothing_else() -> None:
    env = build("world.dirt_at_start=0", "world.dirt_prob=0", "world.apple_prob=1")
    env.world.transition()
    assert cells_of(env, Apple.kind) == cells_of(env, Orchard.kind)


def test_no_apple_grows_beside_a_river_at_the_threshold() -> None:
    env = build("world.dirt_at_start=1", "world.dirt_prob=0", "world.apple_prob=1", "world.dirt_threshold=1")
    for _ in range(20):
        env.world.transition()
    assert not cells_of(env, Apple.kind)


def test_apples_grow_at_the_rate_asked_for() -> None:
    env = build("world.dirt_at_start=0", "world.dirt_prob=0", "world.apple_prob=0.1", "world.height=102")
    env.world.transition()
    assert len(cells_of(env, Apple.kind)) == pytest.approx(40, abs=24)  # of 400 cells; 24 is four deviations


def test_no_apple_grows_where_an_agent_stands() -> None:
    env = build("world.dirt_at_start=0", "world.dirt_prob=0", "world.apple_prob=1")
    agent = agent_at(env, 0, 4, 9)
    env.world.transition()
    assert env.world.observe(agent.location) is agent
    assert cells_of(env, Apple.kind) == cells_of(env, Orchard.kind) - {(4, 9)}


def test_eating_pays_once_and_the_apple_is_gone() -> None:
    env = build_still("world.apple_value=2.5")
    agent = agent_at(env, 0, 4, 8)
    env.world.add((4, 9, TOP), Apple(env.world.settings.apple_value))
    assert do(env, agent, "right") == 2.5
    assert agent.location == (4, 9, TOP)
    assert do(env, agent, "left") == 0.0
    assert do(env, agent, "right") == 0.0


def test_agents_walk_on_the_river_and_leave_it_as_it_was() -> None:
    env = build_still()
    env.world.add((4, 3, GROUND), Dirt())
    agent = agent_at(env, 0, 4, 4)
    assert [do(env, agent, "left") for _ in range(4)] == [0.0] * 4  # the last one into the wall
    assert agent.location == (4, 1, TOP)
    assert cells_of(env, Dirt.kind) == {(4, 3)}


# ---- beams


@pytest.mark.parametrize(
    ("place", "facing", "reached"),
    [
        ((5, 4), "left", {(5, 3), (5, 2), (5, 1)}),
        ((5, 2), "up", {(4, 2), (3, 2), (2, 2)}),
        ((5, 2), "down", {(6, 2), (7, 2), (8, 2)}),
        ((5, 1), "right", {(5, 2), (5, 3)}),  # the third cell is meadow
        ((2, 2), "up", {(1, 2)}),  # then the wall
        ((5, 1), "left", set()),  # nothing but wall
    ],
)
def test_a_clean_beam_cleans_what_it_crosses_and_no_more(place: tuple[int, int], facing: str, reached: Cells) -> None:
    env = build("world.dirt_at_start=1", "world.dirt_prob=0")
    agent = agent_at(env, 0, *place, facing)
    before = cells_of(env, Dirt.kind)
    assert do(env, agent, "clean") == 0.0
    assert before - cells_of(env, Dirt.kind) == reached
    assert cells_of(env, Water.kind) == reached


def test_beams_reach_as_far_as_the_setting_and_never_past_a_wall() -> None:
    env = build_still("world.beam_length=4")
    agent = agent_at(env, 0, 5, 5, "right")
    agent_at(env, 1, 5, 7)
    env.world.add((7, 7, TOP), Wall())
    do(env, agent, "clean")
    assert cells_of(env, CleanBeam.kind) == {(5, 6), (5, 7), (5, 8), (5, 9)}  # agents do not stop it
    agent_at(env, 0, 7, 5, "right")
    target = agent_at(env, 2, 7, 8)
    do(env, agent, "zap")
    assert cells_of(env, ZapBeam.kind) == {(7, 6)}
    assert target.turns_frozen == 0


@pytest.mark.parametrize("turn_order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("shooter", [0, 1])
def test_every_agent_sees_a_beam_whoever_acts_first(turn_order: str, shooter: int) -> None:
    env = build_still("experiment.num_agents=2", f"experiment.turn_order={turn_order}")
    agent = agent_at(env, shooter, 5, 5, "right")
    other = agent_at(env, 1 - shooter, 7, 5)
    plane = env.agents[0].observation_spec.entity_list.index(CleanBeam.kind)  # type: ignore[attr-defined]
    agent.get_action = lambda state: ACTIONS.index("clean") if env.turn == 1 else ACTIONS.index("up")  # type: ignore[method-assign]
    seen: list[int] = []

    def look(state: np.ndarray) -> int:
        seen.append(int(state[..., plane].sum()))
        return ACTIONS.index("down")

    other.get_action = look  # type: ignore[method-assign]
    for _ in range(3):
        env.take_turn()
    assert seen[1] == 3, "the turn after the shot"
    assert seen[2] == 0, "gone after that"


def test_beams_vanish_by_themselves_and_fade_before() -> None:
    env = build_still()
    do(env, agent_at(env, 0, 5, 5, "down"), "zap")
    beam = env.world.observe((6, 5, AIR))
    assert isinstance(beam, Beam)
    fresh = beam.sprite
    env.world.transition()
    assert cells_of(env, ZapBeam.kind) == {(6, 5), (7, 5), (8, 5)}
    assert beam.sprite is not fresh
    env.world.transition()
    assert not cells_of(env, ZapBeam.kind)


def test_beams_hinder_nobody_and_hide_nothing() -> None:
    env = build_still()
    env.world.add((6, 9, TOP), Apple(1.0))
    do(env, agent_at(env, 0, 5, 9, "down"), "zap")
    assert do(env, agent_at(env, 1, 6, 8), "right") == 1.0


# ---- zaps


def test_a_zap_freezes_for_so_many_actions_and_no_longer() -> None:
    env = build_still("world.freeze_turns=3")
    zapper, target = agent_at(env, 0, 5, 4, "right"), agent_at(env, 1, 5, 6, "up")
    do(env, zapper, "zap")
    start = target.location
    for action in ("right", "down", "zap"):
        assert target.kind == FROZEN_KIND
        do(env, target, action)
        assert target.location == start
    assert zapper.turns_frozen == 0
    assert target.kind == FACING_KINDS["up"], "awake, and still looking where it did"
    do(env, target, "right")
    assert target.location == (5, 7, TOP)


def test_the_zapper_pays_at_once_and_the_hit_agent_with_its_next_action_once() -> None:
    env = build_still("world.zap_cost=0.25", "world.hit_penalty=3", "world.freeze_turns=2")
    zapper, target = agent_at(env, 0, 5, 4, "right"), agent_at(env, 1, 5, 6)
    assert do(env, zapper, "zap") == -0.25
    assert [do(env, target, "up") for _ in range(3)] == [-3.0, 0.0, 0.0]
    assert do(env, zapper, "zap") == -0.25, "a miss costs the same"
    assert [do(env, target, "up") for _ in range(2)] == [0.0, 0.0]


def test_a_zap_hits_everyone_in_its_way_and_nobody_else() -> None:
    env = build_still()
    zapper = agent_at(env, 0, 5, 4, "right")
    hit, missed = [agent_at(env, 1, 5, 5), agent_at(env, 2, 5, 7)], [agent_at(env, 3, 5, 8), agent_at(env, 4, 6, 5)]
    do(env, zapper, "zap")
    assert [agent.turns_frozen for agent in (*hit, *missed, zapper)] == [5, 5, 0, 0, 0]


def test_a_frozen_agent_cannot_be_hit_again() -> None:
    env = build_still("world.freeze_turns=2", "world.hit_penalty=1")
    zapper, target = agent_at(env, 0, 5, 4, "right"), agent_at(env, 1, 5, 6)
    do(env, zapper, "zap")
    assert do(env, target, "up") == -1.0
    do(env, zapper, "zap")
    assert do(env, target, "up") == 0.0
    assert target.turns_frozen == 0


def test_a_new_epoch_thaws_everyone_and_forgives_what_is_due() -> None:
    env = build_still()
    agent_at(env, 0, 5, 4, "right"), agent_at(env, 1, 5, 6)
    do(env, env.agents[0], "zap")  # type: ignore[arg-type]
    env.reset()
    target = env.agents[1]
    assert isinstance(target, CleanupAgent)
    assert (target.turns_frozen, target.kind) == (0, FACING_KINDS["down"])
    assert do(env, target, "up") == 0.0
    assert_in_step(env)


def test_others_see_an_agent_turn_on_the_spot() -> None:
    env = build_still()
    agent = agent_at(env, 0, 1, 5)
    do(env, agent, "up")  # into the wall
    assert agent.location == (1, 5, TOP)
    assert env.world.kinds[1, 5, TOP] == env.world.kind_number(FACING_KINDS["up"])


# ---- whole episodes


def assert_in_step(env: CleanupEnv) -> None:
    world = env.world
    expected = np.vectorize(lambda entity: world.kind_number(entity.kind), otypes=[np.int16])(world.map)
    np.testing.assert_array_equal(world.kinds, expected)
    found = [entity for entity in world.map.flat if isinstance(entity, CleanupAgent)]
    assert sorted(map(id, found)) == sorted(map(id, env.agents))
    assert all(world.observe(agent.location) is agent for agent in env.agents)
    assert all(entity.location == location for location, entity in np.ndenumerate(world.map))


@pytest.mark.parametrize("turn_order", ["sequential", "simultaneous"])
def test_the_world_stays_in_step_with_its_entities(turn_order: str) -> None:
    env = build("experiment.num_agents=12", f"experiment.turn_order={turn_order}")
    frozen = 0
    for turn in range(400):
        if turn % 100 == 0:
            env.reset()
        env.take_turn()
        frozen += sum(agent.kind == FROZEN_KIND for agent in env.agents)
        if turn % 10 == 9:
            assert_in_step(env)
            assert len(cells_of(env, Water.kind)) + len(cells_of(env, Dirt.kind)) == env.world.river_size
            assert cells_of(env, Apple.kind) <= cells_of(env, Orchard.kind)
    assert frozen > 100, "the rules were put to the test"


def play(seed: int) -> tuple[list[np.ndarray], list[float]]:
    env = build(f"experiment.seed={seed}")
    env.reset()
    grids = []
    for _ in range(60):
        env.take_turn()
        grids.append(env.world.kinds.copy())
    return grids, [agent.score for agent in env.agents]


def test_the_same_seed_gives_the_same_episode_and_another_seed_another() -> None:
    (grids, scores), (grids_again, scores_again), (other_grids, _) = play(1), play(1), play(2)
    assert scores == scores_again
    np.testing.assert_array_equal(grids, grids_again)
    assert not np.array_equal(grids, other_grids)


def test_a_learning_run_goes_through() -> None:
    game = find_game("cleanup")
    settings = ["experiment.epochs=2", "experiment.max_turns=40", "experiment.num_agents=2", "model.batch_size=16"]
    result = game.build(game.configure(None, settings)).run_experiment(animate=False, logging=False)
    assert [epoch["epoch"] for epoch in result.epochs] == [0, 1]
    assert result.epochs[-1]["updates"] > 0


def test_every_kind_has_a_picture_of_its_own() -> None:
    env = build_still()
    agent = agent_at(env, 0, 5, 5, "right")
    pictures = [draw_world(env.world)]
    for change in (
        lambda: do(env, agent, "clean"),
        lambda: do(env, agent, "zap"),
        lambda: agent.hit(env.world),
        lambda: env.world.add((5, 2, GROUND), Dirt()),
        lambda: env.world.add((5, 9, TOP), Apple(1.0)),
    ):
        change()
        pictures.append(draw_world(env.world))
        assert not np.array_equal(pictures[-1], pictures[-2])
