"""Environments with continuous actions: what they are given, what is learned, who is refused. (Identity: promises/.)"""

import numpy as np
import pytest

from abreast import BaseModel, checking
from abreast.errors import ConfigError, GameError, ModelError, ModelFileError
from abreast.games import find_game
from abreast.training import Experiment
from abreast.training.evaluate import evaluate
from fakes import outcome
from integrations.adapted import build, rows

AIM = "gymnasium:box_envs:Aim"


def test_what_is_chosen_is_scaled_to_the_box_in_its_shape_and_type():
    """The environment itself asserts that it is in the space."""
    experiment = build("gymnasium:box_envs:AimInTwo", "experiment.epochs=3")
    experiment.run_experiment(animate=False, logging=False)
    given = np.array(experiment.copies(1)[0].env.given)
    chosen = rows(experiment, 0).actions
    space = experiment.copies(1)[0].env.action_space
    assert given.shape[1:] == (2, 2) and given.dtype == np.float64 and chosen.dtype == np.float32
    expected = space.low + (np.clip(chosen, -1, 1).reshape(-1, 2, 2) + 1) / 2 * (space.high - space.low)
    np.testing.assert_allclose(given[-len(chosen) :], expected, atol=1e-6)
    assert np.abs(chosen).max() > 1, "PPO remembers what it drew, not what was carried out"


LEARNED = {
    "sac": ["experiment.epochs=30", "model.batch_size=32"],
    "ppo": ["experiment.epochs=160", "multiprocessing.num_envs=4", "model.batch_size=16", "model.learning_rate=0.003"],
}


@pytest.mark.parametrize("name", LEARNED)
def test_what_is_wanted_is_learned(name):
    experiment = build(AIM, f"model.algorithm={name}", "model.gamma=0.0", "model.hidden_size=32", *LEARNED[name])
    experiment.run_experiment(animate=False, logging=False)
    fines = [-sum(rewards) / 16 for rewards in evaluate(experiment, 10, greedy=True).rewards]
    assert np.mean(fines) < 0.1  # by chance, 0.6


@pytest.mark.parametrize("network", ["own_networks:TwoLayers", "lstm"])
def test_networks_of_all_kinds_learn_alike_in_parallel(network):
    settings = ["model.algorithm=sac", f"model.network={network}", "experiment.epochs=4", "model.gradient_steps=3"]
    settings += ["multiprocessing.workers=threads", "multiprocessing.schedule=lockstep"]
    one, other = build(AIM, *settings), build(AIM, *settings)
    assert outcome(one, one.run_experiment) == outcome(other, other.run_experiment_mp)


def test_settings_follow_from_the_environment():
    game = find_game(AIM)
    sac = game.configure(None, ["model.algorithm=sac"]).model
    assert (sac.train_freq, sac.gradient_steps, sac.batch_size, sac.target_interval) == (1, 1, 256, None)
    assert game.configure(None, ["model.algorithm=sac", "model.gradient_steps=7"]).model.gradient_steps == 7


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "Unbounded",
            r"continuous without bounds \(Box\(-inf, inf, \(1,\), float32\)\).* give the Box a finite low and high",
        ),
        ("WholeNumbers", "whole numbers in a Box"),
        ("Mixed", "continuous within others"),
        ("Masked", "is given an action_mask, but its actions are continuous: leave it out"),
    ],
)
def test_what_cannot_be_chosen_is_refused(name, told):
    with pytest.raises(GameError, match=told):
        build(f"gymnasium:box_envs:{name}")


def test_an_algorithm_for_numbered_actions_is_refused():
    with pytest.raises(
        ConfigError, match=r"model.algorithm is iqn, .* a vector of floats \(a Box of 1\): use ppo or sac\.$"
    ):
        build(AIM, "model.algorithm=iqn")


class Follows(BaseModel):
    """A user's model."""

    ACTIONS = frozenset({"continuous"})

    def take_action(self, state, lane=0):
        return [0.8 * float(state[0])]

    def train_step(self):
        return None


class Stumbles(Follows):
    def take_action(self, state, lane=0):
        return np.nan


class OnlyNumbers(Follows):
    ACTIONS = frozenset({"discrete"})


def build_own(kind, monkeypatch):
    monkeypatch.setattr(kind, "__module__", __name__)
    return build(AIM, f"model.algorithm={__name__}:{kind.__qualname__}")


def test_a_users_model_chooses_vectors(monkeypatch):
    experiment = build_own(Follows, monkeypatch)
    record = experiment.run_experiment(animate=False, logging=False).epochs[-1]
    assert record["reward"] > -1e-4
    assert rows(experiment, 0).actions.shape == (96, 1)
    with pytest.raises(ModelError, match=r"Stumbles.take_action returned nan: expected a vector of 1 finite numbers"):
        build_own(Stumbles, monkeypatch).run_experiment(animate=False, logging=False)
    with pytest.raises(ConfigError, match="or let the class say ACTIONS"):
        build_own(OnlyNumbers, monkeypatch)


def test_an_agent_of_other_bounds_is_not_taken_for_this_one(tmp_path):
    one, other = (build(AIM, f"world.high={high}") for high in (10.0, 2.0))
    models = [experiment.game.players[0].model for experiment in (one, other)]
    models[0].save(tmp_path / "agent.safetensors")
    with pytest.raises(ModelFileError, match=r"chooses floats between \[\[0.0\], \[10.0\]\], but this one"):
        models[1].load(tmp_path / "agent.safetensors")


def test_rows_that_hold_no_action_are_found():
    experiment = build(AIM, "experiment.epochs=1")
    experiment.run_experiment(animate=False, logging=False, debug=True)
    memory = experiment.game.players[0].model.memory
    assert memory.find_fault(1) is None
    memory.ring.fields["actions"][0, 5] = np.inf
    assert memory.find_fault(1) == "turn 5 of an episode in lane 0 (row 5): the action is not finite"


def test_the_check_of_an_environment_plays_it(monkeypatch):
    monkeypatch.setattr(checking, "elsewhere", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(Experiment, "run_experiment_mp", Experiment.run_experiment)
    verdicts = list(find_game("pettingzoo:box_envs:Steering").check(["model.algorithm=sac"]))
    assert {verdict.outcome for verdict in verdicts if verdict.check != "film"} == {"ok"}, verdicts
