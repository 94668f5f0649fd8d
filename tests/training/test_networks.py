"""Runs with other networks than an mlp: lanes, masks, evaluation. (Schedules, deaths and stops: promises/.)"""

import numpy as np
import pytest

from abreast.models import algorithm
from abreast.models.observation import PlainObservation
from abreast.training.evaluate import evaluate
from fakes import outcome, small_game
from training.test_evaluate import whole

LSTMS = "model.algorithm=dqn", "model.network=lstm", "model.n_frames=3", "model.per_agent.1={algorithm: ppo}"
CNNS = "model.algorithm=dqn", "model.network=cnn", "model.per_agent.1={algorithm: ppo}"
OWN = "model.algorithm=iqn", "model.network=own_networks:TwoLayers", "model.per_agent.1={network: cnn}"
ALL = pytest.mark.parametrize("networks", [LSTMS, CNNS, OWN], ids=["lstm", "cnn", "own"])


def sequential(*settings):
    env = small_game(*settings)
    return outcome(env, env.run_experiment)


@ALL
def test_how_many_actors_share_the_lanes_does_not_matter(networks):
    short = ("experiment.epochs=32", "experiment.max_turns=3", "model.gradient_steps=1", "model.epsilon=0.3")
    one, two = (
        sequential(*networks, *short, "multiprocessing.num_envs=16", f"multiprocessing.num_actors={actors}")
        for actors in (1, 2)
    )
    assert one == two


@ALL
def test_evaluation_is_repeatable_and_leaves_no_trace(networks):
    def trained():
        env = small_game(*networks, "experiment.epochs=4", "multiprocessing.num_envs=2", "model.epsilon=0.5")
        env.run_experiment(animate=False, logging=False)
        return env

    env, left_alone = trained(), trained()
    before = whole(env)
    first = evaluate(env, 4, greedy=True)
    assert whole(env) == before and evaluate(env, 4, greedy=True) == first
    few = evaluate(env, 2, greedy=True)
    assert few.rewards == first.rewards[:2]
    for each in (env, left_alone):
        each.run_experiment(animate=False, logging=False)
    assert whole(env) == whole(left_alone)


@pytest.mark.parametrize(
    ("name", "network"),
    [
        *((name, network) for name in ("dqn", "ppo") for network in ("cnn", "lstm", "own_networks:TwoLayers")),
        ("iqn", "cnn"),
    ],
)
def test_masks_are_heeded_in_choosing_and_in_targets(name, network):
    model = masked_model(name, network)
    rng, lanes = np.random.default_rng(0), [0, 1]
    model.start_epoch_action(epoch=0)
    for _ in range(20):
        masks = np.zeros((2, 4), np.bool_)
        masks[lanes, rng.integers(0, 4, 2)] = masks[lanes, rng.integers(0, 4, 2)] = True
        model.note_masks(lanes, list(masks))
        seen = list(rng.integers(0, 2, (2, 5, 5, 2)).astype(np.uint8))
        actions = model.take_actions(seen, lanes)
        assert masks[lanes, actions].all()
        model.remember_all(seen, actions, [1.0, 0.0], [False, False], lanes)
    model.end_epoch_action(epoch=0)
    assert np.isfinite(model.train_step()["loss"])
    rows = model.memory.trajectory(0, 0)
    assert rows.extras["mask"][np.arange(20), rows.actions].all()


def masked_model(name, network):
    kind = algorithm(name)
    settings = {"algorithm": name, "network": network, "hidden_size": 8, "n_frames": 2, "batch_size": 8}
    seen = PlainObservation((5, 5, 2), np.uint8, 1.0, is_masked=True)
    return kind(seen, 4, kind.Config.parse(settings), np.random.SeedSequence(0), lanes=2)
