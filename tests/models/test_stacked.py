"""Choosing for several agents at once gives what each would choose alone."""

import numpy as np
import pytest
import torch
from torch import nn

from abreast.models import DQN, algorithm
from abreast.models.stacked import StackedChoice, can_be_stacked
from abreast.training.collect import _Chooser
from abreast.worlds.playable import Decision
from fakes import TinyObservation, make_model, outcome, small_game


def agents(name, **settings):
    models = [make_model(name, seed=seed, epsilon=0.3, **settings) for seed in range(4)]
    for model in models:
        model.start_epoch_action(epoch=0)
    return models


@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
def test_the_stack_evaluates_each_model_with_its_own_weights(name):
    models = agents(name)
    stack = StackedChoice(models)._all
    frames_NBD = torch.rand(4, 3, models[0].input_size)
    with torch.inference_mode():
        alone = torch.stack([model.evaluate(frames) for model, frames in zip(models, frames_NBD, strict=True)])
        torch.testing.assert_close(stack.evaluate(frames_NBD), alone)
    assert not torch.allclose(alone[0], alone[1])


@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
def test_actions_are_those_each_would_choose_alone(name):
    together, alone = agents(name), agents(name)
    stack = StackedChoice(together)
    rng = np.random.default_rng(0)
    for _ in range(20):
        states = rng.integers(0, 2, size=(4, 1, 4)).astype(np.uint8)
        expected = [model.take_actions(seen, [0]) for model, seen in zip(alone, states, strict=True)]
        assert stack.take_actions(states, [0]) == expected


def test_only_models_of_one_kind_and_shape_are_stacked():
    assert can_be_stacked(agents("dqn"))
    assert not can_be_stacked([make_model("dqn")])
    assert not can_be_stacked([make_model("dqn"), make_model("iqn")])
    assert not can_be_stacked([make_model("dqn"), make_model("dqn", hidden_size=8)])
    assert not can_be_stacked([make_model("dqn"), make_model("dqn", n_actions=4)])
    assert not can_be_stacked([make_model("random"), make_model("random")])


class WithOwnNetwork(DQN):
    def make_network(self):
        return nn.Sequential(nn.Linear(self.input_size, 5), nn.Tanh(), nn.Linear(5, self.n_actions))

    def initialise(self, network):
        pass


def test_networks_that_are_not_layers_of_ours_are_not_stacked():
    config = DQN.Config.parse({"hidden_size": 4})
    own = [WithOwnNetwork(TinyObservation(4), 3, config, np.random.SeedSequence(seed)) for seed in range(2)]
    assert not can_be_stacked(own)
    for network in ("cnn", "lstm", "own_networks:TwoLayers"):
        assert not can_be_stacked([make_model("dqn", (5, 5, 2), network=network, seed=seed) for seed in range(2)])


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_simultaneous_run_uses_it_and_stays_identical_in_parallel(lanes, monkeypatch):
    settings = ("experiment.turn_order=simultaneous", "experiment.epochs=12", f"multiprocessing.num_envs={lanes}")
    made = []
    original = StackedChoice.__init__
    monkeypatch.setattr(
        StackedChoice, "__init__", lambda self, models: (made.append(models), original(self, models))[1]
    )
    alone, env = small_game(*settings), small_game(*settings, "multiprocessing.schedule=lockstep")
    sequential = outcome(alone, alone.run_experiment)
    assert len(made) == 12 // lanes
    assert outcome(env, env.run_experiment_mp) == sequential


def test_the_noise_of_a_new_epoch_reaches_the_stack():
    models = agents("iqn")
    before = StackedChoice(models)._all
    for model in models:
        model.start_epoch_action(epoch=1)
    after = StackedChoice(models)._all
    frames = torch.rand(4, 2, models[0].input_size)
    with torch.inference_mode():
        assert not torch.equal(before.evaluate(frames), after.evaluate(frames))


@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
def test_which_agents_act_in_lanes_of_another_group_does_not_matter(name, monkeypatch):
    """Another actor may play those: what is chosen in one group of lanes is computed as if there were no others."""
    stacked, take = [], StackedChoice.take_actions
    monkeypatch.setattr(
        StackedChoice,
        "take_actions",
        lambda self, states, lanes: stacked.append(list(lanes)) or take(self, states, lanes),
    )
    rng = np.random.default_rng(0)
    states = rng.integers(0, 2, size=(2, 12, 4)).astype(np.uint8)
    kind = algorithm(name)
    config = kind.Config.parse({"algorithm": name, "hidden_size": 16, "n_frames": 1, "epsilon": 0.3})

    def chosen(lanes_of_each):
        models = [kind(TinyObservation(4), 3, config, np.random.SeedSequence(seed), 12) for seed in range(2)]
        for model in models:
            model.start_epoch_action(epoch=0)
        stacked.clear()
        decisions = [Decision(agent, lanes, [*states[agent, lanes]]) for agent, lanes in enumerate(lanes_of_each)]
        actions = _Chooser(models).choose(decisions)
        each = zip(lanes_of_each, actions, strict=True)
        return [dict(zip(lanes, own, strict=True)) for lanes, own in each], list(stacked)

    first, last = list(range(8)), [8, 9, 10, 11]
    both, calls = chosen([first + last, first + last[1:]])
    alone, calls_alone = chosen([first, first])
    others, calls_of_others = chosen([last, last[1:]])
    assert calls == calls_alone == [first] and calls_of_others == []
    assert both == [{**one, **two} for one, two in zip(alone, others, strict=True)]
