"""The rules of stag hunt, one by one, and what holds whatever happens."""

import pytest

from abreast.errors import ConfigError, WorldError
from abreast.games import find_game
from abreast.games.staghunt.agents import StaghuntAgent
from abreast.games.staghunt.entities import Animal, Hare, Stag
from abreast.games.staghunt.env import KINDS, StaghuntEnv
from abreast.games.staghunt.world import StaghuntWorld
from abreast.worlds import EmptyEntity

TOP = 1
PRICES = ("world.stag_value=8.0", "world.hare_value=3.0", "world.stag_penalty=0.5")


def build(*overrides: str) -> StaghuntEnv:
    game = find_game("staghunt")
    env = game.build(game.configure(None, ["model.algorithm=random", *overrides]))
    assert isinstance(env, StaghuntEnv)
    return env


def forest(*places: tuple[int, int], settings: tuple[str, ...] = ()) -> StaghuntEnv:
    """A forest without animals, with agents at these places (row, column)."""
    env = build(f"experiment.num_agents={len(places)}", "world.stags=0", "world.hares=0", *PRICES, *settings)
    for agent in env.agents:
        env.world.remove(agent.location)
    for agent, place in zip(env.agents, places, strict=True):
        env.world.add((*place, TOP), agent)
    return env


def step(env: StaghuntEnv, number: int, action: str) -> float:
    """Agent `number` takes its turn with a chosen action; returns what it remembers as the reward."""
    agent = env.agents[number]
    agent.perform(env.world, agent.pov(env.world), agent.action_spec.actions.index(action))
    return rewards(agent)[-1]


def rewards(agent: object) -> list[float]:
    assert isinstance(agent, StaghuntAgent)
    return agent.model.memory.trajectory(lane=0, start=0).rewards.tolist()


def count(world: StaghuntWorld, animal: type[Animal]) -> int:
    return sum(isinstance(entity, animal) for entity in world.map.flat)


# ---- hares


def test_a_hare_is_caught_alone_by_walking_onto_it() -> None:
    env = forest((4, 4))
    env.world.add((4, 5, TOP), Hare(3.0, wander_prob=0.0))
    assert step(env, 0, "right") == 3.0
    assert env.agents[0].location == (4, 5, TOP)
    assert count(env.world, Hare) == 0


def test_nobody_shares_a_hare() -> None:
    env = forest((4, 4), (4, 6))
    env.world.add((4, 5, TOP), Hare(3.0, wander_prob=0.0))
    step(env, 0, "right")
    assert step(env, 1, "stay") == 0.0


# ---- stags


def test_attacking_alone_costs_and_the_stag_stays() -> None:
    env = forest((4, 4), (8, 8))
    stag = Stag(wander_prob=0.0)
    env.world.add((4, 5, TOP), stag)
    assert step(env, 0, "right") == -0.5
    assert env.world.observe((4, 5, TOP)) is stag
    assert env.agents[0].location == (4, 4, TOP)
    assert step(env, 1, "stay") == 0.0


def test_standing_beside_a_stag_is_no_attack() -> None:
    env = forest((4, 4), (4, 6))
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    assert [step(env, 0, "stay"), step(env, 1, "stay")] == [0.0, 0.0]
    assert count(env.world, Stag) == 1


@pytest.mark.parametrize("second", [(3, 5), (5, 5), (4, 6)])
def test_two_beside_it_catch_it_and_each_gets_the_full_value(second: tuple[int, int]) -> None:
    env = forest((4, 4), second)
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    assert step(env, 0, "right") == 8.0
    assert isinstance(env.world.observe((4, 5, TOP)), EmptyEntity)
    assert env.agents[0].location == (4, 4, TOP)
    assert step(env, 1, "stay") == 8.0


@pytest.mark.parametrize("second", [(3, 4), (3, 6), (5, 6), (4, 7)])
def test_diagonal_or_farther_is_not_beside(second: tuple[int, int]) -> None:
    env = forest((4, 4), second)
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    assert step(env, 0, "right") == -0.5
    assert step(env, 1, "stay") == 0.0


@pytest.mark.parametrize(("hunters", "caught"), [(1, False), (2, False), (3, True), (4, True)])
def test_hunters_needed(hunters: int, caught: bool) -> None:
    around = ((4, 4), (3, 5), (5, 5), (4, 6))[:hunters]
    env = forest(*around, settings=("world.hunters_needed=3",))
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    gains = [step(env, 0, "right"), *(step(env, number, "stay") for number in range(1, hunters))]
    assert gains == ([8.0] * hunters if caught else [-0.5] + [0.0] * (hunters - 1))
    assert count(env.world, Stag) == (0 if caught else 1)


def test_a_hunter_further_away_gets_nothing() -> None:
    env = forest((4, 4), (4, 6), (8, 8))
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    step(env, 0, "right")
    assert step(env, 2, "stay") == 0.0


def test_a_shared_reward_counts_once_with_the_next_own_step() -> None:
    env = forest((4, 4), (4, 6))
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    step(env, 0, "right")
    assert (env.agents[1].score, env.world.total_reward) == (0.0, 8.0)
    assert [step(env, 1, "stay"), step(env, 1, "stay")] == [8.0, 0.0]
    assert [agent.score for agent in env.agents] == [8.0, 8.0]
    assert env.world.total_reward == 16.0


def test_a_shared_reward_adds_to_what_the_step_itself_brings() -> None:
    env = forest((4, 4), (4, 6))
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    env.world.add((4, 7, TOP), Hare(3.0, wander_prob=0.0))
    step(env, 0, "right")
    assert step(env, 1, "right") == 8.0 + 3.0


def test_a_reward_still_pending_ends_with_the_epoch() -> None:
    env = forest((4, 4), (4, 6))
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    step(env, 0, "right")
    env.reset()
    assert step(env, 1, "stay") == 0.0


def test_scores_memories_and_total_agree() -> None:
    env = build("world.height=6", "world.width=6", "world.stags=2", "world.hares=2", *PRICES)
    for _ in range(200):
        env.take_turn()
    assert any(8.0 in rewards(agent) for agent in env.agents)
    assert [agent.score for agent in env.agents] == [sum(rewards(agent)) for agent in env.agents]
    assert env.world.total_reward == sum(agent.score for agent in env.agents)


# ---- walking


@pytest.mark.parametrize(
    ("action", "place"), [("up", (3, 4)), ("down", (5, 4)), ("left", (4, 3)), ("right", (4, 5)), ("stay", (4, 4))]
)
def test_actions(action: str, place: tuple[int, int]) -> None:
    env = forest((4, 4))
    assert step(env, 0, action) == 0.0
    assert env.agents[0].location == (*place, TOP)


def test_trees_and_others_stand_in_the_way_and_cost_nothing() -> None:
    env = forest((1, 1), (1, 2))
    assert [step(env, 0, action) for action in ("up", "left", "right")] == [0.0, 0.0, 0.0]
    assert env.agents[0].location == (1, 1, TOP)


def test_hunters_see_animals_and_each_other() -> None:
    env = forest((4, 4), (4, 6))
    env.world.add((4, 5, TOP), Stag(wander_prob=0.0))
    env.world.add((5, 4, TOP), Hare(3.0, wander_prob=0.0))
    radius = env.config.model.agent_vision_radius
    seen = env.agents[0].pov(env.world)
    assert seen[radius, radius + 1, KINDS.index("Stag")] == 1
    assert seen[radius, radius + 2, KINDS.index("StaghuntAgent")] == 1
    assert seen[radius + 1, radius, KINDS.index("Hare")] == 1


# ---- animals by themselves


@pytest.mark.parametrize("make", [lambda chance: Hare(3.0, chance), Stag])
def test_animals_wander_one_cell_at_a_time_in_all_directions(make: type[Stag]) -> None:
    env = forest((1, 1))
    reached = set()
    for _ in range(40):
        animal = make(1.0)
        env.world.add((5, 5, TOP), animal)
        animal.transition(env.world)
        reached.add(animal.location)
        env.world.remove(animal.location)
    assert reached == {(4, 5, TOP), (6, 5, TOP), (5, 4, TOP), (5, 6, TOP)}


@pytest.mark.parametrize(("chance", "low", "high"), [("0.0", 0, 0), ("0.25", 60, 140), ("1.0", 400, 400)])
def test_wander_prob(chance: str, low: int, high: int) -> None:
    env = build("world.stags=1", "world.hares=0", f"world.wander_prob={chance}", "experiment.num_agents=1")
    [stag] = env.world.get_entities_of_kind(Stag.kind)
    moves = 0
    for _ in range(400):
        before = stag.location
        env.world.transition()
        moves += stag.location != before
    assert low <= moves <= high


def test_animals_tread_on_nobody() -> None:
    env = forest((4, 5))
    hemmed_in = Stag(wander_prob=1.0)
    others = [Hare(3.0, 0.0), Hare(3.0, 0.0), Stag(0.0)]
    env.world.add((5, 5, TOP), hemmed_in)
    for place, other in zip([(6, 5), (5, 4), (5, 6)], others, strict=True):
        env.world.add((*place, TOP), other)
    for _ in range(20):
        hemmed_in.transition(env.world)
    assert hemmed_in.location == (5, 5, TOP)
    assert all(env.world.observe(other.location) is other for other in others)


@pytest.mark.parametrize(("animal", "number"), [(Stag, 2), (Hare, 4)])
def test_what_was_caught_comes_back(animal: type[Animal], number: int) -> None:
    env = build("world.stags=2", "world.hares=4", "world.respawn_prob=0.2", "experiment.num_agents=1")
    for entity in env.world.get_entities_of_kind(animal.kind):
        env.world.remove(entity.location)
    counts = []
    for _ in range(100):
        env.world.transition()
        counts.append(count(env.world, animal))
    assert counts[0] < number
    assert counts == sorted(counts)
    assert counts[-1] == number


def test_nothing_comes_back_without_a_chance_to() -> None:
    env = build("world.respawn_prob=0.0", "experiment.num_agents=1")
    for entity in env.world.get_entities_of_kind(Hare.kind):
        env.world.remove(entity.location)
    for _ in range(50):
        env.world.transition()
    assert count(env.world, Hare) == 0


# ---- the forest


def test_a_new_epoch_has_all_animals() -> None:
    env = build("world.respawn_prob=0.0", "world.height=7", "world.width=7")
    for _ in range(100):
        env.take_turn()
    assert count(env.world, Hare) < 4
    env.reset()
    assert (count(env.world, Stag), count(env.world, Hare)) == (2, 4)


@pytest.mark.parametrize("overrides", [("world.hares=20",), ("world.stags=20",), ("experiment.num_agents=20",)])
def test_too_many_for_the_forest(overrides: tuple[str, ...]) -> None:
    with pytest.raises(WorldError, match="free cells"):
        build("world.height=6", "world.width=6", *overrides)


@pytest.mark.parametrize(
    "override",
    [
        "height=0",
        "width=2",
        "stags=-1",
        "hares=-1",
        "hunters_needed=0",
        "hunters_needed=5",
        "stag_penalty=-1.0",
        "wander_prob=1.5",
        "respawn_prob=-0.1",
    ],
)
def test_settings_out_of_range(override: str) -> None:
    with pytest.raises(ConfigError, match=override.split("=")[0]):
        build(f"world.{override}")


# ---- whatever happens


@pytest.mark.parametrize("turn_order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("respawn_prob", ["0.1", "1.0"])
def test_invariants_in_a_full_forest(respawn_prob: str, turn_order: str) -> None:
    env = build(
        "world.height=6",
        "world.width=5",
        "world.stags=3",
        "world.hares=4",
        "world.wander_prob=0.5",
        f"world.respawn_prob={respawn_prob}",
        "experiment.num_agents=5",
        f"experiment.turn_order={turn_order}",
    )  # 12 cells for 12
    world = env.world
    for _ in range(2):
        for _ in range(150):
            env.take_turn()
            shown = [world.kind_names[number - 1] for number in world.kinds.flat]
            assert shown == [entity.kind for entity in world.map.flat]
            on_map = [entity for entity in world.map.flat if isinstance(entity, StaghuntAgent)]
            assert sorted(map(id, on_map)) == sorted(map(id, env.agents))
            assert all(world.observe(agent.location) is agent for agent in env.agents)
            assert count(world, Stag) <= 3
            assert count(world, Hare) <= 4
        assert any(reward > 0 for agent in env.agents for reward in rewards(agent))
        env.reset()
