"""The rules of tag, one by one, and what holds whatever happens."""

import numpy as np
import pytest

from abreast.errors import ConfigError, WorldError
from abreast.games import find_game
from abreast.games.tag.agents import TagAgent
from abreast.games.tag.entities import Crate, Role
from abreast.games.tag.env import KINDS, TagEnv
from abreast.worlds import Gridworld

TOP = 1


def build(*overrides: str) -> TagEnv:
    game = find_game("tag")
    env = game.build(game.configure(None, ["model.algorithm=random", *overrides]))
    assert isinstance(env, TagEnv)
    return env


def yard(*players: tuple[int, int, Role], settings: tuple[str, ...] = ()) -> TagEnv:
    """A yard without crates, with these players in these places (row, column, role)."""
    env = build(f"experiment.num_agents={len(players)}", "world.obstacles=0", *settings)
    for agent in env.agents:
        env.world.remove(agent.location)
    for agent, (row, column, role) in zip(env.agents, players, strict=True):
        agent.take_role(role)
        env.world.add((row, column, TOP), agent)
    return env


def step(env: TagEnv, number: int, action: str) -> float:
    """Agent `number` takes its turn with a chosen action; returns what it remembers as the reward."""
    agent = env.agents[number]
    agent.perform(env.world, agent.pov(env.world), agent.action_spec.actions.index(action))
    return rewards(agent)[-1]


def rewards(agent: TagAgent) -> list[float]:
    return agent.model.memory.trajectory(lane=0, start=0).rewards.tolist()


def kind_at(world: Gridworld, row: int, column: int) -> str:
    """What observations show there."""
    return world.kind_names[world.kinds[row, column, TOP] - 1]


def check_invariants(env: TagEnv, taggers: int) -> None:
    world = env.world
    shown = [world.kind_names[number - 1] for number in world.kinds.flat]
    assert shown == [entity.kind for entity in world.map.flat]
    on_map = [entity for entity in world.map.flat if isinstance(entity, TagAgent)]
    assert sorted(map(id, on_map)) == sorted(map(id, env.agents))
    assert all(world.observe(agent.location) is agent for agent in env.agents)
    assert sum(agent.role is Role.TAGGER for agent in env.agents) == taggers
    assert all(agent.kind == agent.role.value for agent in env.agents)


# ---- passing the tag on


def test_tagging_swaps_roles_and_nobody_moves() -> None:
    env = yard((4, 4, Role.TAGGER), (4, 5, Role.RUNNER))
    step(env, 0, "right")
    assert [agent.role for agent in env.agents] == [Role.SAFE, Role.TAGGER]
    assert [agent.location for agent in env.agents] == [(4, 4, TOP), (4, 5, TOP)]


def test_everybody_sees_the_new_roles() -> None:
    env = yard((4, 4, Role.TAGGER), (4, 5, Role.RUNNER), (5, 4, Role.RUNNER))
    step(env, 0, "right")
    assert (kind_at(env.world, 4, 4), kind_at(env.world, 4, 5)) == ("SafeRunner", "Tagger")
    radius = env.config.model.agent_vision_radius
    seen = env.agents[2].pov(env.world)
    assert seen[radius - 1, radius + 1, KINDS.index("Tagger")] == 1
    assert seen[radius - 1, radius, KINDS.index("SafeRunner")] == 1
    assert seen[radius, radius, KINDS.index("Runner")] == 1


def test_a_role_can_be_told_from_symbol_and_picture() -> None:
    env = yard((4, 4, Role.TAGGER), (4, 5, Role.RUNNER))
    looks = {}
    for role in Role:
        env.agents[0].become(role, env.world)
        looks[env.agents[0].symbol] = env.agents[0].sprite
    pictures = [sprite.tobytes() for sprite in looks.values() if isinstance(sprite, np.ndarray)]
    assert len(set(pictures)) == len(looks) == len(Role)


@pytest.mark.parametrize("own", [Role.RUNNER, Role.SAFE])
def test_only_who_is_it_can_tag(own: Role) -> None:
    env = yard((4, 4, own), (4, 5, Role.RUNNER))
    env.agents[0].safe_turns_left = 5
    assert step(env, 0, "right") == 0.0
    assert env.agents[1].role is Role.RUNNER


@pytest.mark.parametrize("other", [Role.TAGGER, Role.SAFE])
def test_only_runners_can_be_tagged(other: Role) -> None:
    env = yard((4, 4, Role.TAGGER), (4, 5, other), (8, 8, Role.RUNNER), settings=("world.it_cost=0.0",))
    assert step(env, 0, "right") == 0.0
    assert [agent.role for agent in env.agents[:2]] == [Role.TAGGER, other]


@pytest.mark.parametrize("safe_turns", [0, 1, 3])
@pytest.mark.parametrize("tagger", [0, 1])
def test_safety_lasts_for_that_many_tries_whatever_the_order(tagger: int, safe_turns: int) -> None:
    roles = [Role.RUNNER, Role.RUNNER]
    roles[tagger] = Role.TAGGER
    env = yard((4, 4, roles[0]), (4, 5, roles[1]), settings=(f"world.safe_turns={safe_turns}",))
    other = 1 - tagger
    towards = ["right", "left"]
    step(env, tagger, towards[tagger])
    order = [0, 1] * (safe_turns + 2)
    tries = 0
    for number in order[tagger + 1 :]:
        if number == tagger:
            step(env, number, "stay")
            continue
        assert env.agents[other].role is Role.TAGGER
        step(env, other, towards[other])
        if env.agents[tagger].role is Role.TAGGER:
            break
        tries += 1
    assert tries == safe_turns


def test_a_player_is_seen_as_runner_again_when_no_longer_safe() -> None:
    env = yard((4, 4, Role.TAGGER), (4, 5, Role.RUNNER), settings=("world.safe_turns=2",))
    step(env, 0, "right")
    shown = []
    for _ in range(2):
        step(env, 0, "stay")
        shown.append(kind_at(env.world, 4, 4))
    assert shown == ["SafeRunner", "Runner"]


# ---- walking


@pytest.mark.parametrize(
    ("action", "place"), [("up", (3, 4)), ("down", (5, 4)), ("left", (4, 3)), ("right", (4, 5)), ("stay", (4, 4))]
)
def test_actions(action: str, place: tuple[int, int]) -> None:
    env = yard((4, 4, Role.RUNNER), (8, 8, Role.TAGGER))
    assert step(env, 0, action) == 0.0
    assert env.agents[0].location == (*place, TOP)


def test_walls_and_crates_stand_in_the_way_and_cost_nothing() -> None:
    env = yard((1, 1, Role.RUNNER), (8, 8, Role.TAGGER))
    env.world.add((1, 2, TOP), Crate())
    assert [step(env, 0, action) for action in ("up", "left", "right")] == [0.0, 0.0, 0.0]
    assert env.agents[0].location == (1, 1, TOP)


# ---- rewards

PRICES = ("world.tag_reward=3.0", "world.tag_penalty=7.0", "world.it_cost=0.25")


def test_being_it_costs_each_turn() -> None:
    env = yard((4, 4, Role.TAGGER), (8, 8, Role.RUNNER), settings=PRICES)
    assert [step(env, 0, "stay"), step(env, 0, "up")] == [-0.25, -0.25]
    assert step(env, 1, "stay") == 0.0


def test_each_agent_remembers_its_own_side_of_a_tag_once() -> None:
    env = yard((4, 4, Role.TAGGER), (4, 5, Role.RUNNER), settings=PRICES)
    assert step(env, 0, "right") == 3.0 - 0.25
    assert (env.agents[1].score, env.world.total_reward) == (0.0, 2.75)
    assert step(env, 1, "stay") == -7.0 - 0.25
    assert step(env, 1, "stay") == -0.25
    assert [agent.score for agent in env.agents] == [2.75, -7.5]
    assert env.world.total_reward == 2.75 - 7.5


def test_a_penalty_still_pending_ends_with_the_epoch() -> None:
    env = yard((4, 4, Role.TAGGER), (4, 5, Role.RUNNER), settings=PRICES)
    step(env, 0, "right")
    env.reset()
    env.agents[1].become(Role.RUNNER, env.world)
    assert step(env, 1, "stay") == 0.0


def test_scores_memories_and_total_agree() -> None:
    env = build("experiment.num_agents=6", "world.height=6", "world.width=6", "world.obstacles=0", *PRICES)
    for _ in range(150):
        env.take_turn()
    assert any(3.0 - 0.25 in rewards(agent) for agent in env.agents)
    assert [agent.score for agent in env.agents] == [sum(rewards(agent)) for agent in env.agents]
    assert env.world.total_reward == sum(agent.score for agent in env.agents)


# ---- the yard


def test_who_is_it_changes_between_epochs() -> None:
    env = build("experiment.num_agents=3")
    chosen = set()
    for _ in range(30):
        env.reset()
        chosen |= {number for number, agent in enumerate(env.agents) if agent.role is Role.TAGGER}
    assert chosen == {0, 1, 2}


@pytest.mark.parametrize("obstacles", [0, 7])
def test_number_of_obstacles(obstacles: int) -> None:
    env = build(f"world.obstacles={obstacles}")
    assert len(env.world.get_entities_of_kind(Crate.kind)) == obstacles


@pytest.mark.parametrize("taggers", [3, 4])
def test_somebody_must_be_left_to_tag(taggers: int) -> None:
    with pytest.raises(ConfigError, match=rf"world\.taggers is {taggers}, but experiment\.num_agents is 3"):
        build("experiment.num_agents=3", f"world.taggers={taggers}")


def test_too_many_for_the_yard() -> None:
    with pytest.raises(WorldError, match="free cells"):
        build("world.height=4", "world.width=4", "world.obstacles=1", "experiment.num_agents=4")


@pytest.mark.parametrize(
    "override", ["height=2", "width=0", "obstacles=-1", "taggers=0", "safe_turns=-1", "tag_penalty=-1.0"]
)
def test_settings_out_of_range(override: str) -> None:
    with pytest.raises(ConfigError, match=override.split("=")[0]):
        build(f"world.{override}")


# ---- whatever happens


@pytest.mark.parametrize("turn_order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("taggers", [1, 3])
def test_invariants(taggers: int, turn_order: str) -> None:
    env = build(
        "experiment.num_agents=6",
        f"experiment.turn_order={turn_order}",
        "world.height=7",
        "world.width=8",
        f"world.taggers={taggers}",
    )
    roles_seen = set()
    for _ in range(2):
        for _ in range(150):
            env.take_turn()
            check_invariants(env, taggers)
            roles_seen |= {agent.role for agent in env.agents}
        env.reset()
        check_invariants(env, taggers)
    assert roles_seen == set(Role)
