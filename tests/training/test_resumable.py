"""A game goes on from what a file holds of it as if nothing had happened, or says by name why it cannot."""

import itertools
import json
import re

import numpy as np
import pytest

from abreast import EmptyEntity, Gridworld
from abreast.errors import StateError
from abreast.state import State, join, part_of
from abreast.training.collect import collect_pass
from abreast.training.learners.base import train_round
from abreast.training.resumable import Resumability, check_state
from fakes import small_game
from strangers import games, models
from strangers.test_strangers import GAMES, MODELS, config, own_values, plain, with_model

COUNTS: list = []
CALLS = 0


def through_json(state):
    assert not state.opaque
    return State(
        json.loads(json.dumps(state.facts, allow_nan=False)), {name: a.copy() for name, a in state.arrays.items()}
    )


def play(env, passes, lanes=1):
    told = []
    for number in passes:
        played = collect_pass(env.game, number * lanes, lanes, env.config.experiment.seed)
        results = train_round(dict(enumerate(agent.model for agent in env.agents)), 2, env.config.experiment.seed)
        told.append((played, results))
    return told


def file_state(env):
    """All that a file holds of a run between two passes."""
    parts = {"game": env.game.file_state()}
    for number, agent in enumerate(env.agents):
        model = agent.model
        parts[f"learning{number}"] = model.learning_state()._replace(opaque={})
        parts[f"acting{number}"] = model.acting_file_state()
        parts[f"own{number}"] = model.own_attributes.kept_whole()
        parts[f"memory{number}"] = model.memory.state()
    return through_json(join(**parts))


def set_file_state(env, state):
    env.game.set_state(part_of(state, "game"))
    for number, agent in enumerate(env.agents):
        model = agent.model
        model.memory.set_state(part_of(state, f"memory{number}"))
        model.set_learning_state(part_of(state, f"learning{number}"))
        model.set_acting_state(part_of(state, f"acting{number}"))
        model.own_attributes.restore_whole(part_of(state, f"own{number}"))


class Spawns(Gridworld):
    """Grows apples where nothing ever asked for cells before, from the second turn on."""

    def transition(self):
        super().transition()
        self.spawn(games.Apple, onto="Soil", probability=0.3)


class Soil(EmptyEntity):
    kind = "Soil"


class Spawning(games.Walkers):
    things = ("Soil", "EmptyEntity", "Apple", "MovingAgent", "Wall")

    def populate_environment(self):
        for row, column in itertools.product(range(3), range(6)):
            self.world.add((row, column, 0), Soil())
        self.world.scatter(self.agents, onto="EmptyEntity")


class Refers(games.Moody):
    """Refers to parts of ours, has functions, modules and rules that enclose something."""

    def setup_agents(self):
        super().setup_agents()
        seen = []
        self.dice, self.everyone, self.module = self.world.rng, self.agents, np
        self.rule, self.walk = lambda: seen.append(1) or 0.01 * len(seen), games.WALK
        self.world.visits = {}  # of a world whose class is ours

    def after_turn(self):
        self.dice.random()
        self.world.visits[self.turn] = self.world.visits.get(self.turn, 0) + 1
        return [self.rule() + 0.1 * self.world.visits[self.turn]] * 2


STRANGERS = {
    **GAMES,
    **MODELS,
    "pools made late": lambda **more: Spawning(Spawns(6, 6, 1, EmptyEntity()), config(**more)),
    "encloses a list": lambda **more: games.Walkers(games.EnclosesAList(), config(**more)),
    "refers": lambda **more: Refers(plain(), config(**more)),
    "both sides": with_model(models.ClearsItsRows),
    "one generator": with_model(models.OneGenerator),
    "own epsilon": with_model(models.LowersItsEpsilon),
}
REFUSED = {"a Gymnasium environment": r"Pole\.env \(TimeLimit\) cannot be kept in a file"}


@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        *((name, 1) for name in STRANGERS),
        *((name, 2) for name in ("mutable attributes", "refers", "Noisy", "Reinforce")),
    ],
)
def test_strangers_go_on_as_if_nothing_had_happened_or_are_refused_by_name(name, lanes):
    make = STRANGERS[name]
    env, other = make(num_envs=lanes), make(num_envs=lanes)
    resumability = Resumability(env.game)
    if name in REFUSED:
        assert re.match(REFUSED[name], resumability.reason())
        with pytest.raises(StateError, match=REFUSED[name]):
            env.game.file_state()
        return
    assert resumability.reason() is None
    play(env, range(2), lanes)
    assert resumability.reason() is None
    set_file_state(other, file_state(env))
    assert play(other, range(2, 4), lanes) == play(env, range(2, 4), lanes)
    assert own_values(other) == own_values(env)
    assert json.dumps(file_state(env).facts) == json.dumps(file_state(other).facts)


def test_what_is_referred_to_is_this_sides_own_again():
    env, other = STRANGERS["refers"](), STRANGERS["refers"]()
    play(env, range(2))
    set_file_state(other, file_state(env))
    assert (
        other.dice is other.world.rng
        and other.everyone is other.agents
        and other.agents[0].neighbour is other.agents[1]
    )
    assert other.world.visits == env.world.visits and other.rule() == env.rule()


# ---- reasons


class Counting(games.Walkers):
    def populate_environment(self):
        super().populate_environment()
        COUNTS.append(1)


class Global(games.Walkers):
    def populate_environment(self):
        super().populate_environment()
        global CALLS  # noqa: PLW0603 (what this is about)
        CALLS += 1


class OnTheClass(games.Walkers):
    def populate_environment(self):
        super().populate_environment()
        type(self).played = getattr(type(self), "played", 0) + 1


class Generator(games.Walkers):
    def after_turn(self):
        self.steps = (number for number in range(9))


class KeepsItsMap(games.Walkers):
    def reset(self):
        self.turn, self.world.is_done = 0, False
        for agent in self.agents:
            agent.reset()


class Graph(models.KeepsGraphs):
    def train_step(self):
        return None


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Counting(plain(), config()), "the variable .*test_resumable.COUNTS of a module has changed"),
        (lambda: Global(plain(), config()), "the variable .*test_resumable.CALLS of a module has changed"),
        (lambda: OnTheClass(plain(), config()), "OnTheClass.played belongs to a class and has changed"),
        (lambda: games.Walkers(games.CountsOnTheClass(), config()), "CountsOnTheClass.steps belongs to a class"),
        (lambda: Generator(plain(), config()), r"Generator.steps \(generator\) cannot be kept in a file"),
        (lambda: KeepsItsMap(plain(), config()), "KeepsItsMap.reset leaves the map as it was"),
        (with_model(Graph), r"Graph.logs\[\d+\] \(Tensor\) cannot be kept .* the graph of its gradient"),
    ],
)
def test_what_a_checkpoint_would_lose_is_named(make, said):
    env = make()
    resumability = Resumability(env.game)
    assert resumability.reason() is None  # before it has happened, nothing is known
    collect_pass(env.game, 0)
    reason = resumability.reason()
    assert reason is not None and re.match(said, reason), reason
    assert reason.endswith(".") and "\n" not in reason
    OnTheClass.played = 0
    del OnTheClass.played


def test_of_games_of_ours_nothing_is_written_to_find_out(monkeypatch):
    env = small_game()
    resumability = Resumability(env.game)
    monkeypatch.setattr(type(env.game), "file_state", lambda self: pytest.fail("asked for its state"))
    assert resumability.reason() is None


class Plain:
    """A game that is no gridworld."""

    turns, players = 0, ()

    def __init__(self, state):
        self.state = lambda: state


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (State({"a": [1, {"b": None}]}, {"c": np.zeros(3)}), None),
        (State(opaque={"x": (1, b"")}), "Plain.state has opaque parts (x)"),
        (State({"a": float("nan")}), "Plain.state has the fact a, which does not fit into JSON"),
        (State({"a": {1, 2}}), "Plain.state has the fact a, which does not fit into JSON"),
        (State(arrays={"a": np.array([None])}), "Plain.state has the array a, which is not one of numbers"),
    ],
)
def test_a_game_that_is_no_gridworld_needs_a_state_that_fits_into_a_file(state, said):
    reason = Resumability(Plain(state)).reason()
    assert reason is None if said is None else reason.startswith(said)
    assert said is not None or check_state(state, "it") is None
