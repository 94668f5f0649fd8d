"""Social outcomes: the formulas, by hand, and the same figures however a game is played."""

import json
import math

import pytest

from abreast import EmptyEntity, Environment, Gridworld, MovingAgent
from abreast.games import find_game
from abreast.training.social import RewardTimes, social_outcomes, with_social_outcomes
from abreast.worlds import ActionSpec, OneHotObservationSpec
from abreast.worlds.playable import Late, Played
from matrix_game import build

OUTCOMES = ["efficiency", "equality", "sustainability", "peace"]


def test_the_formulas():
    found = social_outcomes(10, [6.0, 2.0], [3.0, 8.0], timed_out=5)
    assert found == {
        "efficiency": 0.8,
        "equality": 1 - (4 + 4) / (2 * 2 * 8),
        "sustainability": 5.5,
        "peace": (20 - 5) / 10,
    }
    assert social_outcomes(4, [1.0, 1.0, 1.0], [1.0] * 3)["equality"] == 1.0
    assert social_outcomes(4, [3.0, 0.0, 0.0], [1.0, math.nan, math.nan]) == {
        "efficiency": 0.75,
        "equality": pytest.approx(1 / 3),  # all to one of three
        "sustainability": 1.0,  # of those who got anything
        "peace": 3.0,
    }


@pytest.mark.parametrize("rewards", [[0.0, 0.0], [-3.0, 1.0], [0.1 + 0.2, -0.3]])  # 0.1 + 0.2 - 0.3 is above 0
def test_equality_is_not_defined_for_a_group_that_got_nothing(rewards):
    found = social_outcomes(5, rewards, [math.nan, math.nan])
    assert math.isnan(found["equality"])
    assert math.isnan(found["sustainability"])


def test_what_comes_late_belongs_to_the_step_before():
    times = RewardTimes(2)
    for first, second in [(0.0, 1.0), (1.0, -1.0), (-2.0, 0.0)]:
        times.note(0, [4, 5], [first, 0.0])
        times.note(1, [4, 5], [second, 1.0])
    times.note_late([Late(0, 4, 2.5), Late(1, 5, -1.5), Late(1, 6, 1.0)])  # in lane 6 nothing was done
    assert times.means(2)[0] == [2.5, 1.0]
    assert math.isnan(times.means(2)[1][0])
    assert times.means(2)[1][1] == 1.5
    assert all(math.isnan(each) for lane in times.means(3) for each in lane)  # a lane that was not seen


def test_a_games_own_figures_stay_and_one_agent_has_no_group():
    own = Played(2, [1.0, 1.0], {"peace": 7.0, "timed_out": 2})
    (found,) = with_social_outcomes([own], [[1.0, 2.0]])
    assert found.metrics == {"peace": 7.0, "timed_out": 2, "efficiency": 1.0, "equality": 1.0, "sustainability": 1.5}
    alone = Played(2, [1.0], {"lives": 3})
    assert with_social_outcomes([alone], [[1.0]]) == [alone]


# ---- in a stranger's game


class Paid(MovingAgent):
    """Is paid in turns 2 and 4, agent 1 also by agent 0 in turn 3."""

    def act(self, world, action):
        self.turn = getattr(self, "turn", 0) + 1
        first, second = world.pair
        if self is first and self.turn == 3:
            second.give(1.0)
        return 1.0 if self is first and self.turn in (2, 4) else 0.0

    def reset(self):
        super().reset()
        self.turn = 0


class PaidEnv(Environment):
    defaults = {"experiment": {"num_agents": 2, "max_turns": 4, "epochs": 4}, "model": {"algorithm": "random"}}

    @classmethod
    def make_world(cls, config):
        return Gridworld(3, 3, 1, EmptyEntity())

    def setup_agents(self):
        for number in range(2):
            view, actions = OneHotObservationSpec(["Paid"], vision_radius=1), ActionSpec(["up", "down"])
            self.agents.append(Paid(view, actions, self.make_model(view, 2, number)))

    def populate_environment(self):
        self.world.pair = tuple(self.agents)
        self.world.scatter(self.agents, onto=EmptyEntity.kind)

    def metrics(self):
        return {"timed_out": 2.0}


def test_a_strangers_game_has_them_by_hand():
    (first, *_) = PaidEnv.make().run_experiment(animate=False, logging=False).epochs
    assert first["metrics"] == {
        "timed_out": 2.0,
        "efficiency": 3 / 4,
        "equality": pytest.approx(1 - 2 / 12),
        "sustainability": (3 + 3) / 2,  # turns 2 and 4; turn 3
        "peace": (8 - 2) / 4,
    }


def test_a_figure_that_is_not_defined_is_null_in_the_file(tmp_path):
    class Unpaid(PaidEnv):
        @classmethod
        def make_world(cls, config):
            world = super().make_world(config)
            world.pair = (None, None)
            return world

        def populate_environment(self):
            self.world.scatter(self.agents, onto=EmptyEntity.kind)

    Unpaid.make().run_experiment(animate=False, output_dir=tmp_path / "run")
    for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines():
        metrics = json.loads(line, parse_constant=pytest.fail)["metrics"]
        assert metrics == {"timed_out": 2.0, "efficiency": 0.0, "equality": None, "sustainability": None, "peace": 1.5}


# ---- the same in all schedules


def outcomes(epochs):
    assert all(name in record["metrics"] for record in epochs for name in OUTCOMES)
    return json.dumps([[record["metrics"], record["reward_per_agent"]] for record in epochs])


def played(name, *overrides, parallel=None):
    game = find_game(name)
    config = ["experiment.epochs=4", "experiment.max_turns=12", "model.algorithm=random", *overrides]
    env = game.build(game.configure(None, config))
    run = env.run_experiment if parallel is None else env.run_experiment_mp
    return outcomes(run(animate=False, logging=False).epochs)


@pytest.mark.parametrize("name", ["cleanup", "prisoners", "coins"])
def test_sequential_is_lockstep_is_other_actors(name):
    parallel = ["multiprocessing.enabled=true", "multiprocessing.schedule=lockstep", "multiprocessing.workers=inline"]
    assert played(name) == played(name, *parallel, parallel=True)
    lanes = [*parallel, "multiprocessing.num_envs=4"]
    actors = ["multiprocessing.num_actors=2", "multiprocessing.num_envs=4"]
    processes = [
        "multiprocessing.enabled=true",
        "multiprocessing.schedule=lockstep",
        "multiprocessing.workers=processes",
    ]
    assert played(name, *lanes, parallel=True) == played(name, *processes, *actors, parallel=True)


@pytest.mark.parametrize("name", ["coins", "harvest", "staghunt"])
def test_a_pass_on_a_device_as_a_whole_is_one_turn_by_turn(name, monkeypatch):
    lanes = ["multiprocessing.enabled=true", "multiprocessing.num_envs=4", "multiprocessing.workers=inline"]
    shared = [
        *lanes,
        "multiprocessing.schedule=lockstep",
        "world.batched=true",
        "model.algorithm=dqn",
        "model.epsilon=0",
    ]
    shared += [
        "model.epsilon_min=0",
        "model.hidden_size=8",
        "experiment.train_interval=100",
        "multiprocessing.device=cpu",
    ]
    whole = played(name, *shared, parallel=True)
    monkeypatch.setattr("abreast.training.batched.why_not_whole", lambda models: "not now")
    assert played(name, *shared, parallel=True) == whole


def test_a_game_that_is_no_gridworld_has_them():
    for record in build({"epochs": 2, "max_turns": 5}).run_experiment(animate=False, logging=False).epochs:
        assert record["metrics"]["efficiency"] == pytest.approx(record["reward"] / 5)
        assert record["metrics"]["peace"] == 2.0
        assert 1 <= record["metrics"]["sustainability"] <= 5
