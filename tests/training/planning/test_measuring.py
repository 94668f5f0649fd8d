"""The calibration: it finds figures, leaves no trace, and survives whatever users' code does."""

import random
import threading
import time

import numpy as np
import pytest
import torch

from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld
from abreast.models import DQN
from abreast.processes import forked
from abreast.state import join
from abreast.training.actors.base import actor_state, models_of
from abreast.training.planning import measuring
from abreast.training.planning.measuring import DRAWS, NotMeasured, measure
from fakes import small_game

pytestmark = pytest.mark.skipif(not forked.CAN_FORK, reason="a process cannot be copied here")


def ready(*settings):
    env = small_game("model.algorithm=dqn", "multiprocessing.num_envs=2", "experiment.epochs=8", *settings)
    env.make_lanes()
    return env


def all_of(env):
    """All that a run depends on."""
    parts = {f"model{number}": model.learning_state() for number, model in enumerate(models_of(env.game))}
    facts, arrays, _ = join(actor=actor_state(env.game), **parts)
    rows = [model.memory.written.tolist() for model in models_of(env.game)]
    shared = random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002
    return facts, {name: array.tobytes() for name, array in arrays.items()}, rows, shared, torch.get_num_threads()


@pytest.mark.parametrize("algorithm", ["iqn", "dqn", "ppo", "random"])
def test_everything_is_measured_and_nothing_changed(algorithm, monkeypatch):
    monkeypatch.setattr(measuring, "_waits", lambda: 0)  # a busy machine may let a thread wait for a page
    env = ready(f"model.algorithm={algorithm}")
    before, threads = all_of(env), threading.active_count()
    found = measure(env)
    assert all_of(env) == before and threading.active_count() == threads
    game = found.game
    assert (game.lanes, game.turns, game.wait, game.why_one_actor) == (2, 10.0, 0.0, None)
    assert game.world > 0 and game.choose > 0 and game.remember > 0 and game.tell > 0
    assert len(found.models) == 2 and found.message > 0 and found.seconds > 0 and found.capacity >= 0.1
    assert algorithm == "random" or found.models[0].round(4) > found.models[0].publish > 0


def test_each_kind_of_model_is_measured_once(monkeypatch):
    measured, timed = [], measuring._time_learning

    def note(model, config):
        measured.append((type(model).__name__, model.config.hidden_size))
        return timed(model, config)

    monkeypatch.setattr(measuring, "_time_learning", note)
    agents = "model.per_agent={1: {hidden_size: 32}, 2: {algorithm: ppo}}"
    for seconds, kinds in ((100.0, [("DQN", 16), ("DQN", 32), ("PPO", 16)]), (0.0, [("DQN", 16)])):
        # when these seconds are over, a kind that was not measured counts as much as those before it
        monkeypatch.setattr(measuring, "MODELS_S", seconds)
        measured.clear()
        found = measure(ready("experiment.num_agents=5", agents)).models
        assert measured == kinds and found[0] is found[3] is found[4]
        assert (found[1].publish == found[0].publish) == (seconds == 0.0)


def test_an_algorithm_that_learns_from_a_row_once_does_so_in_its_first_update():
    times = measure(ready("model.algorithm=ppo", "experiment.max_turns=60")).models[0]
    assert times.first_update > 3 * times.update


def test_an_update_of_many_rows_is_measured_with_few_and_told_for_those_of_a_pass(monkeypatch):
    made = []
    make_up = measuring._make_up_rows
    monkeypatch.setattr(measuring, "_make_up_rows", lambda model, rows: (made.append(rows), make_up(model, rows)))
    settings = ("model.algorithm=ppo", "experiment.max_turns=5000", "model.buffer_capacity=20000")
    (times, _) = measure(ready(*settings, "experiment.num_agents=2")).models
    assert max(made) <= measuring.FEW_ROWS and times.rows == 2 * 5000  # in two lanes
    half = measuring.ModelTimes(3.0, 1.0, 0.5, rows=10.0).for_rows(5.0)
    assert (half.first_update, half.update, half.publish, half.rows) == (2.0, 1.0, 0.5, 5.0)


def test_a_game_that_waits_is_told_from_one_that_computes(monkeypatch):
    monkeypatch.setattr(TreasurehuntWorld, "transition", lambda self: time.sleep(0.02))
    game = measure(ready()).game
    assert game.wait > 0.03 > game.world


def test_a_slow_game_is_measured_by_one_turn_of_one_lane(monkeypatch):
    monkeypatch.setattr(TreasurehuntWorld, "transition", lambda self: time.sleep(0.3))
    game = measure(ready("multiprocessing.num_envs=8")).game
    assert game.lanes == 1 and game.wait > 0.25 and game.turns == 10.0


def raises(self):
    raise ZeroDivisionError("the world is broken")


def hangs(self):
    time.sleep(60)


@pytest.mark.parametrize(
    ("transition", "why"),
    [(raises, "the world is broken"), (hangs, "longer than 0.5 s"), (lambda self: forked.os._exit(3), "exit code 3")],
)
def test_a_game_that_cannot_be_measured_says_why(transition, why, monkeypatch):
    monkeypatch.setattr(measuring, "PLAY_LIMIT_S", 0.5)
    monkeypatch.setattr(TreasurehuntWorld, "transition", transition)
    env = ready()
    before = all_of(env)
    with pytest.raises(NotMeasured, match=why):
        measure(env)
    assert all_of(env) == before


@pytest.mark.parametrize(
    "draw", [random.random, np.random.rand, lambda: torch.rand(1)], ids=["random", "numpy", "torch"]
)
def test_worlds_that_draw_from_shared_generators_are_found(draw, monkeypatch):
    monkeypatch.setattr(TreasurehuntWorld, "transition", lambda self: draw() and None)
    env = ready()
    before = all_of(env)
    assert measure(env).game.why_one_actor == DRAWS
    assert all_of(env) == before


class Counts(TreasurehuntEnv):
    """Counts turns of all its lanes in its class, and holds what it is given."""

    turns = [0]  # noqa: RUF012 (that is what it does wrong)

    def after_turn(self):
        self.turns[0] += 1
        print("a turn")


def test_what_users_code_counts_and_prints_stays_in_the_copy(capfd):
    config = ready("multiprocessing.num_envs=1").config
    env = Counts(TreasurehuntWorld(config), config)
    found = measure(env).game
    assert Counts.turns == [0] and "turns belongs to a class" in (found.why_one_actor or "")
    assert capfd.readouterr() == ("", "")


def test_a_game_that_holds_what_cannot_be_copied_is_not_played(monkeypatch):
    config = ready("multiprocessing.num_envs=1").config
    env = Counts(TreasurehuntWorld(config), config)
    env.connection = threading.Lock()
    with pytest.raises(NotMeasured, match=r"cannot be copied \(env.connection\)"):
        measure(env)


class Users(DQN):
    """A user's: it may be anything, so it learns in the copy alone."""

    learned = 0

    def train_step(self):
        self.learned += 1
        return super().train_step()


class Fails(DQN):
    def train_step(self):
        raise ArithmeticError("too hard")


def with_models(kind):
    env = ready("multiprocessing.num_envs=1")
    for number, agent in enumerate(env.agents):
        agent.model = kind(agent.observation_spec, 4, env.config.model, env.agent_seed(number))
    return env


def test_users_models_are_measured_in_the_copy():
    env = with_models(Users)
    found = measure(env)
    assert [agent.model.learned for agent in env.agents] == [0, 0]
    assert found.models[0].update > 0 and found.models[0].choose is None


def test_a_users_model_that_fails_says_why():
    with pytest.raises(NotMeasured, match="too hard"):
        measure(with_models(Fails))


def test_a_calibration_that_fails_says_why(monkeypatch):
    def fail(model, config):
        raise MemoryError("no room")

    monkeypatch.setattr(measuring, "_time_learning", fail)
    with pytest.raises(NotMeasured, match="MemoryError: no room"):
        measure(ready())


def test_where_processes_cannot_be_copied_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(measuring, "CAN_FORK", False)
    with pytest.raises(NotMeasured, match="cannot be copied"):
        measure(ready())
