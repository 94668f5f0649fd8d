"""Anything that keeps the protocol Playable trains. (In every schedule and wherever it lives: promises/.)"""

import json

import numpy as np
import pytest

import matrix_game
from abreast.errors import ConfigError
from abreast.training import Experiment
from fakes import timeless


def result(run_name, **settings):
    experiment = matrix_game.build(**settings)
    epochs = timeless(getattr(experiment, run_name)(animate=False, logging=False).epochs)
    weights = [player.model.online_block.values.detach().numpy().tobytes() for player in experiment.game.players]
    rows = [player.model.memory.trajectory(0, 0).rewards.tolist() for player in experiment.game.players]
    return epochs, weights, rows


def test_a_reward_that_comes_late_is_in_the_last_row_and_the_score():
    epochs, _, (rewards, _) = result("run_experiment")
    assert rewards[7] % 1 == 0.5 and all(reward % 1 == 0 for reward in rewards[:7])
    assert epochs[0]["reward_per_agent"][0] == pytest.approx(sum(rewards[:8]))


def test_it_learns_to_defect():
    experiment = matrix_game.build({"epochs": 120}, {"gamma": 0.0}, num_envs=4)
    for player in experiment.game.players:
        player.model.epsilon_decay = lambda rate, model=player.model: setattr(model, "epsilon", model.epsilon * 0.96)
    epochs = experiment.run_experiment(animate=False, logging=False).epochs
    early, late = (np.mean([epoch["reward"] for epoch in part]) for part in (epochs[:20], epochs[-20:]))
    assert late < early, "two learners of their own interest do not end with mutual defection"


def test_a_game_without_pictures_leaves_no_film(tmp_path):
    matrix_game.build().run_experiment(output_dir=tmp_path / "run")
    assert not (tmp_path / "run" / "replays").exists()
    assert (tmp_path / "run" / "checkpoints" / "final" / "agent_1.safetensors").exists()


def test_without_a_factory_one_actor_plays_all_lanes_and_the_run_says_so(tmp_path):
    experiment = matrix_game.build(num_envs=2, num_actors=2, schedule="lockstep", workers="threads")
    experiment.factory = None
    epochs = timeless(experiment.run_experiment_mp(animate=False, output_dir=tmp_path / "run").epochs)
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert (plan["num_actors"], plan["lanes"]) == (1, 2)
    assert "several actors: PrisonersDilemma has no factory" in plan["reasons"][1]
    assert epochs == result("run_experiment", num_envs=2, num_actors=2)[0]


def test_a_game_that_is_no_playable_is_refused():
    with pytest.raises(ConfigError, match=r"object is no Playable: derive it from abreast\.worlds\.playable"):
        Experiment(object(), matrix_game.build().config)
