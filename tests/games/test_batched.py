"""Batched worlds have the rules of their object worlds: with equal random numbers and actions they are equal, cell for cell.

The object worlds here are the real ones, save for where their random numbers come from.
"""

from functools import cache, partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from abreast.errors import WorldError
from abreast.games import find_game
from abreast.games.coins.env import CoinsEnv
from abreast.games.coins.world import CoinsWorld
from abreast.games.harvest.env import HarvestEnv
from abreast.games.harvest.world import HarvestWorld
from abreast.games.staghunt.batched import WAYS, BatchedStaghunt
from abreast.games.staghunt.entities import Hare, Stag
from abreast.games.staghunt.env import StaghuntEnv
from abreast.games.staghunt.world import StaghuntWorld
from abreast.games.treasurehunt.agents import TreasurehuntAgent
from abreast.games.treasurehunt.batched import BatchedTreasurehunt
from abreast.games.treasurehunt.env import TreasurehuntEnv
from abreast.games.treasurehunt.world import TreasurehuntWorld
from abreast.worlds import OneHotObservationSpec, RGBObservationSpec, Wall
from abreast.worlds.batched import Chance

LANES = 3
TOP = 1


# ---- object worlds whose random numbers are given


def way(draws, name, place, chance, ways):
    """In which way something happens with a chance, or None: the rule of `Chance`, one thing at a time."""
    first, second = draws[name][place], draws[f"{name}_way"][place]
    root = np.sqrt(chance)
    if first >= np.float32(root):
        return None
    return next((number for number in range(ways) if second < np.float32(root * (number + 1) / ways)), None)


class Scripted:
    """A world that puts things into the cells with the highest of the numbers drawn; it is its own source of others."""

    draws = None
    """Of its lane, by name; None while the environment is built."""

    def scatter(self, entities, onto, layer=-1):
        if self.draws is None:
            super().scatter(entities, onto, layer)
            return
        free = self.cells_of(onto, layer)
        best = sorted(free, key=lambda cell: -self.draws["places"][cell[:2]]) if entities else ()
        for location, entity in zip(best, entities, strict=False):
            self._place(location, entity)

    def play(self, draws):
        """Draw from these from now on."""
        self.draws, self.rng = draws, self


class ScriptedTreasurehunt(Scripted, TreasurehuntWorld):
    def spawn(self, make, onto, probability, layer=-1):
        for cell in list(self.cells_of(onto, layer)):
            self._way = way(self.draws, "spawn", cell[:2], probability, len(self._items))
            if self._way is not None:
                self._place(cell, make())

    def integers(self, count):
        assert count == len(self._items)
        return self._way


class ScriptedStaghunt(Scripted, StaghuntWorld):
    """Gives each animal the number it has in the batched world."""

    def lay_out(self):
        self._numbers, self._next = {}, list(range(self.settings.stags + self.settings.hares))
        super().lay_out()

    def scatter(self, entities, onto, layer=-1):
        super().scatter(entities, onto, layer)
        for entity in entities:
            if isinstance(entity, Stag | Hare):
                self._numbers[entity] = self._next.pop(0)

    def transition(self):
        self._wandering = [self._numbers[animal] for animal in self._live.values()]
        super().transition()

    def random(self):
        """Asked by every animal in turn: whether it wanders."""
        self._way = way(self.draws, "wander", self._wandering.pop(0), self.settings.wander_prob, WAYS)
        return 1.0 if self._way is None else 0.0

    def integers(self, count):
        return self._way * count // WAYS

    def _replace(self, make, missing):
        numbers = list(range(self.settings.stags + self.settings.hares))
        stags = self.settings.stags
        here = {self._numbers[animal] for animal in self._live.values()}
        self._gone = [
            number for number in numbers if number not in here and (number < stags) == (make == self._new_stag)
        ]
        super()._replace(make, missing)

    def binomial(self, missing, probability):
        assert missing == len(self._gone)
        self._next = [number for number in self._gone if way(self.draws, "return", number, probability, 1) is not None]
        return len(self._next)


class ScriptedCoins(Scripted, CoinsWorld):
    def integers(self, count):
        return int(self.draws["colour"] * count)


class ScriptedHarvest(Scripted, HarvestWorld):
    def happens(self, chances):
        return np.maximum(self.draws["grow"], self.draws["grow_too"]) < np.sqrt(chances).astype(np.float32)


class Pair:
    """A game in some lanes, twice: object worlds and the batched one."""

    def __init__(self, game, settings, radii, lanes=LANES, device="cpu"):
        environment, world = {
            "treasurehunt": (TreasurehuntEnv, ScriptedTreasurehunt),
            "staghunt": (StaghuntEnv, ScriptedStaghunt),
            "coins": (CoinsEnv, ScriptedCoins),
            "harvest": (HarvestEnv, ScriptedHarvest),
        }[game]
        config = {"experiment": {"num_agents": len(radii)}, "model": {"algorithm": "random"}, "world": settings}
        self.envs = [environment(world(config), config) for _ in range(lanes)]
        for env in self.envs:
            for agent, radius in zip(env.agents, radii, strict=True):
                seen = agent.observation_spec
                size = (
                    {"env_dims": (env.world.height, env.world.width)} if radius is None else {"vision_radius": radius}
                )
                agent.observation_spec = OneHotObservationSpec(
                    seen.entity_list, outside=seen.outside, blank=seen.blank, **size
                )
        env = self.envs[0]
        views = [agent.observation_spec for agent in env.agents]
        self.batched = environment.batched_world(lanes, views, env.config.world, device)
        self.generator = torch.Generator().manual_seed(0)

    def draw(self, shapes):
        drawn = {name: torch.rand(len(self.envs), *shape, generator=self.generator) for name, shape in shapes.items()}
        for lane, env in enumerate(self.envs):
            env.world.play({name: each[lane].numpy() for name, each in drawn.items()})
        return drawn

    def reset(self):
        self.batched.reset(self.draw(self.batched.reset_draws()))
        for env in self.envs:
            env.reset()

    def transition(self):
        self.batched.transition(self.draw(self.batched.turn_draws()))
        for env in self.envs:
            env.world.transition()

    def act(self, number):
        """The same random actions in both; returns the rewards of both, with what was given before."""
        actions = torch.randint(len(self.batched.ACTIONS), (len(self.envs),), generator=self.generator)
        given_L = self.batched.given_LN[:, number]
        rewards = self.batched.act(number, actions) + given_L
        given_L.zero_()
        expected = [
            env.agents[number].act_for_reward(env.world, action)
            for env, action in zip(self.envs, actions.tolist(), strict=True)
        ]
        return rewards.tolist(), np.float32(expected).tolist()

    def check(self):
        """Everything is the same in both."""
        rows, columns = self.batched.rows_LN.tolist(), self.batched.columns_LN.tolist()
        names = np.array(["beyond the edge", *self.batched.kinds])
        for lane, env in enumerate(self.envs):
            kinds = np.array(["beyond the edge", *env.world.kind_names])[env.world.kinds[:, :, TOP]]
            assert names[self.batched.cells_LHW[lane].numpy()].tolist() == kinds.tolist()
            assert list(zip(rows[lane], columns[lane], strict=True)) == [agent.location[:2] for agent in env.agents]
            given = np.float32([agent._pending_reward for agent in env.agents])
            assert self.batched.given_LN[lane].tolist() == given.tolist()

    def check_view(self, number):
        seen = self.batched.view(number)
        assert seen.dtype == torch.uint8
        expected = [env.agents[number].pov(env.world) for env in self.envs]
        assert np.array_equal(seen.numpy(), np.stack(expected))


# ---- equal, cell for cell

ALL_ITEMS = {"gem_value": 10.0, "food_value": 5.5, "bone_value": -10.0}
CROWDED = {"height": 6, "width": 6, "wander_prob": 1.0, "respawn_prob": 0.7}
GAMES = {
    "items of all kinds, several radii": ("treasurehunt", {**ALL_ITEMS, "spawn_prob": 0.1}, [2, 0, 4, 1]),
    "gems only, one agent, the whole map": ("treasurehunt", {"height": 5, "width": 7, "spawn_prob": 0.3}, [None]),
    "no room, every cell an item": (
        "treasurehunt",
        {"height": 4, "width": 4, "spawn_prob": 1.0, **ALL_ITEMS},
        [1, 12, 3],
    ),
    "nothing spawns": ("treasurehunt", {"height": 3, "width": 3, "spawn_prob": 0.0}, [1]),
    "stags and hares": (
        "staghunt",
        {"height": 7, "width": 6, "wander_prob": 0.5, "respawn_prob": 0.3},
        [3, 0, 2, None],
    ),
    "everybody moves": ("staghunt", {**CROWDED, "stags": 3, "hares": 4}, [2, 2, 2]),
    "a full map": ("staghunt", {**CROWDED, "height": 5, "stags": 4, "hares": 5, "hunters_needed": 1}, [1, 1, 1]),
    "three of many": ("staghunt", {**CROWDED, "stags": 3, "hares": 0, "hunters_needed": 3, "stag_value": 0.1}, [1] * 7),
    "four of many": ("staghunt", {**CROWDED, "height": 5, "stags": 1, "hares": 1, "hunters_needed": 4}, [1] * 8),
    "one hare": ("staghunt", {"height": 4, "width": 4, "stags": 0, "hares": 1, "respawn_prob": 1.0}, [2, 2]),
    "no animals": ("staghunt", {"height": 4, "width": 4, "stags": 0, "hares": 0}, [1, 2]),
    "two colours": ("coins", {"height": 5, "width": 6, "coin_penalty": 2.5}, [2, None]),
    "a room for two and a coin": ("coins", {"height": 3, "width": 5}, [1, 3]),
    "a room without a place for coins": ("coins", {"height": 3, "width": 4}, [1, 1]),
    "one agent, two colours": ("coins", {"height": 4, "width": 4}, [2]),
    "three agents, two colours": ("coins", {"height": 4, "width": 4}, [2, 1, 3]),
    "apples beside apples": ("harvest", {"height": 7, "width": 6, "apples": 5, "regrow_prob": 0.02}, [3, None, 1]),
    "apples everywhere": ("harvest", {"height": 5, "width": 5, "apples": 7, "regrow_prob": 1.0}, [1, 2]),
    "no apples": ("harvest", {"height": 4, "width": 4, "apples": 0, "regrow_prob": 1.0}, [1]),
    "all come back at once": ("staghunt", {**CROWDED, "wander_prob": 0.0, "respawn_prob": 1.0, "hares": 6}, [2, 3]),
}


@pytest.mark.parametrize("game", GAMES)
def test_a_batched_world_has_the_rules_of_its_object_world(game):
    pair = Pair(*GAMES[game])
    for _ in range(2):
        pair.reset()
        pair.check()
        for _ in range(30):
            pair.transition()
            pair.check()
            for number in range(pair.batched.agents):
                pair.check_view(number)
                rewards, expected = pair.act(number)
                assert rewards == expected
                pair.check()
        for name, values in pair.batched.metrics().items():
            assert np.array_equal(
                values.numpy(), np.float32([env.metrics()[name] for env in pair.envs]), equal_nan=True
            )


@pytest.mark.parametrize(("game", "needed"), [("three of many", 3), ("four of many", 4), ("a full map", 1)])
def test_what_is_compared_happens(game, needed):
    """Stags are caught by several, and attacked in vain, or the comparison above would say nothing of it."""
    pair = Pair(*GAMES[game])
    settings, earned, given = pair.envs[0].config.world, set(), 0
    pair.reset()

    def have_happened():
        attacked = needed == 1 or (given and -settings.stag_penalty in earned)
        return np.float32(settings.stag_value).item() in earned and attacked

    for _ in range(150):
        pair.transition()
        for number in range(pair.batched.agents):
            earned |= set(pair.act(number)[0])
            given += int((pair.batched.given_LN > 0).sum())
        if have_happened():
            break
    assert have_happened()


# ---- random numbers


@pytest.mark.parametrize(("chance", "ways"), [(0.02, 3), (0.5, 12), (1e-4, 2), (0.0, 3), (1.0, 1)])
def test_a_chance_is_what_it_says_and_all_ways_are_equally_likely(chance, ways):
    happening = Chance("it", chance, ways, "cpu")
    generator = torch.Generator().manual_seed(1)
    count = 2_000_000
    drawn = {name: torch.rand(*shape, generator=generator) for name, shape in happening.draws(count).items()}
    found = torch.bincount(happening(drawn), minlength=ways + 1)
    expected = np.array([chance / ways] * ways + [1 - chance]) * count
    assert np.all(np.abs(found.numpy() - expected) <= 5 * np.sqrt(expected * (1 - expected / count)))


def test_one_number_would_be_too_coarse_for_a_small_chance():
    happening = Chance("it", 1e-9, 1, "cpu")
    step = 2.0**-24
    hit, missed = torch.tensor([400 * step]), torch.tensor([0.0])
    assert happening({"it": missed, "it_way": hit}).item() == 0
    assert happening({"it": missed, "it_way": 2 * hit}).item() == 1  # a single 0 would be 60 times too likely


def test_every_free_cell_is_drawn_equally_often_and_none_twice():
    lanes, settings = 20_000, {"height": 4, "width": 5}
    views = [
        OneHotObservationSpec(["Wall", "Gem", "TreasurehuntAgent"], vision_radius=1, blank=["EmptyEntity", "Sand"])
    ] * 2
    batched = BatchedTreasurehunt(lanes, views, TreasurehuntEnv.world_section(**settings), "cpu")
    batched.reset({"places": torch.rand(lanes, 4, 5, generator=torch.Generator().manual_seed(2))})
    cells = batched.rows_LN * 5 + batched.columns_LN
    found = torch.bincount(cells[:, 0] * 20 + cells[:, 1], minlength=400).view(20, 20)
    inside = [5 * row + column for row in (1, 2) for column in (1, 2, 3)]
    pairs = found[inside][:, inside]
    assert pairs.sum() == lanes
    assert pairs.diag().sum() == 0
    expected = lanes / 30
    assert (pairs[~torch.eye(6, dtype=torch.bool)] - expected).abs().max() < 5 * expected**0.5


# ---- fit for a CUDA graph


def tensors(world):
    return {name: value.data_ptr() for name, value in vars(world).items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize(
    "game", ["items of all kinds, several radii", "stags and hares", "two colours", "apples beside apples"]
)
def test_state_stays_where_it_is_and_begins_anew(game):
    pair = Pair(*GAMES[game])
    pair.reset()
    before = tensors(pair.batched)
    assert {"flat", "cells_LHW", "places_NL", "given_LN"} <= before.keys()
    for _ in range(3):
        pair.transition()
        for number in range(pair.batched.agents):
            pair.act(number)
    pair.batched.given_LN.fill_(1.0)
    pair.reset()
    assert tensors(pair.batched) == before
    assert not pair.batched.given_LN.any()


class Kernels(TorchDispatchMode):
    """Counts calls that compute something."""

    VIEWS = ("view", "unsqueeze", "select.", "slice", "transpose", "alias", "expand", "unbind", "permute")

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func).removeprefix("aten.")
        if not name.startswith(self.VIEWS):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@cache
def turn_on_no_device(game):
    """A turn with tensors that have no values; returns the kernels of its parts."""
    name, settings, radii = GAMES[game]
    batched = Pair(name, settings, radii, lanes=1, device="meta").batched
    draws = {
        name: torch.empty(1, *shape, device="meta")
        for name, shape in (batched.reset_draws() | batched.turn_draws()).items()
    }
    parts = {
        "reset": partial(batched.reset, draws),
        "transition": partial(batched.transition, draws),
        "view": partial(batched.view, 0),
        "act": partial(batched.act, 0, torch.empty(1, dtype=torch.int64, device="meta")),
    }
    called = {}
    for part, carry_out in parts.items():
        with Kernels() as kernels:
            carry_out()
        called[part] = kernels.names
    return called


@pytest.mark.parametrize("game", GAMES)
def test_nothing_is_asked_on_the_host(game):
    turn_on_no_device(game)  # where there are no values, asking for one raises


@pytest.mark.parametrize(
    ("game", "most"),
    [
        ("items of all kinds, several radii", {"transition": 6, "view": 3, "act": 8}),
        ("stags and hares", {"transition": 41 + 7 * 6, "view": 3, "act": 16}),
        ("two colours", {"transition": 18, "view": 3, "act": 15}),
        ("apples beside apples", {"transition": 9, "view": 3, "act": 8}),
    ],
)
def test_a_turn_is_few_kernels(game, most):
    called = turn_on_no_device(game)
    for part, count in most.items():
        assert len(called[part]) <= count, called[part]


# ---- pictures


@pytest.mark.parametrize(
    "game", ["items of all kinds, several radii", "stags and hares", "two colours", "apples beside apples"]
)
def test_a_lane_can_be_shown(game):
    pair = Pair(*GAMES[game])
    pair.reset()
    shown = Pair(*GAMES[game], lanes=1).envs[0]
    for _ in range(5):
        pair.batched.show(1, shown.world, shown.agents)
        pair.transition()
        for number in range(pair.batched.agents):
            before = pair.envs[1].agents[number].location
            pair.act(number)
            pair.batched.show(1, shown.world, shown.agents)
            same, other = pair.envs[1], shown
            assert [each.kind for each in same.world.map.flat] == [each.kind for each in other.world.map.flat]
            assert [each.location for each in same.agents] == [each.location for each in other.agents]
            assert all(other.world.observe(agent.location) is agent for agent in other.agents)
            if same.agents[number].location != before:
                assert other.agents[number].facing == same.agents[number].facing


# ---- for which games


def build(name, *overrides):
    game = find_game(name)
    return game.build(game.configure(None, ["model.algorithm=random", *overrides]))


class OwnEnv(TreasurehuntEnv):
    pass


class OwnWorld(TreasurehuntWorld):
    pass


class OwnAgent(TreasurehuntAgent):
    pass


class OwnView(OneHotObservationSpec):
    pass


@pytest.mark.parametrize(("name", "world"), [("treasurehunt", BatchedTreasurehunt), ("staghunt", BatchedStaghunt)])
def test_it_stands_for_its_own_game(name, world):
    env = build(name)
    assert type(env).batched_world is world
    assert world.why_not(env) is None
    env.reset()
    env.take_turn()
    assert world.why_not(env) is None


def test_it_stands_for_no_game_that_may_have_other_rules():
    why_not = BatchedTreasurehunt.why_not
    env = build("treasurehunt")
    assert why_not(OwnEnv(TreasurehuntWorld(env.config), env.config)).startswith("OwnEnv does not itself say")
    own = TreasurehuntEnv(OwnWorld(env.config), env.config)
    assert why_not(own) == "OwnWorld is not TreasurehuntWorld, whose rules BatchedTreasurehunt was written for"
    assert why_not(build("staghunt")).startswith("StaghuntEnv does not itself say")
    env.agents[1].__class__ = OwnAgent
    assert why_not(env).startswith("OwnAgent is not TreasurehuntAgent")
    for view in (OwnView(["Wall"], vision_radius=1), RGBObservationSpec(vision_radius=1)):
        env = build("treasurehunt")
        env.agents[1].observation_spec = view
        assert why_not(env).startswith(f"{type(view).__name__} is not OneHotObservationSpec")


def test_it_does_not_stand_for_a_game_that_was_changed_after_it_was_built():
    env = build("treasurehunt")
    env.agents[0].observation_spec.is_masked = True
    assert "not all actions of agent 0 are legal" in BatchedTreasurehunt.why_not(env)
    for name, value in (("value", 5.0), ("passable", True), ("kind", "Ghost")):
        env = build("treasurehunt")
        setattr(env.agents[1], name, value)
        assert BatchedTreasurehunt.why_not(env).startswith(f"agent 1 has a {name} of its own")
    env = build("staghunt")
    env.agents[0].settings = env.config.world.with_derived(hunters_needed=1)
    assert BatchedStaghunt.why_not(env) == "agent 0 has other settings than the environment"
    env = build("treasurehunt")
    env.world.default_entity = Wall()
    assert "what is left in a cell is Wall" in BatchedTreasurehunt.why_not(env)
    other = build("treasurehunt", "world.spawn_prob=0.5")
    assert "other settings" in BatchedTreasurehunt.why_not(TreasurehuntEnv(other.world, build("treasurehunt").config))


def test_a_map_without_room_is_refused():
    with pytest.raises(WorldError, match="9 agents and other things need 9 free cells, but the 4x4 world has 4"):
        BatchedStaghunt(
            2,
            [agent.observation_spec for agent in build("staghunt", "experiment.num_agents=3").agents],
            StaghuntEnv.world_section(height=4, width=4),
            "cpu",
        )
