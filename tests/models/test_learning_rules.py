"""Each algorithm finds values that can be worked out by hand."""

import numpy as np
import pytest
import torch

from abreast.models.iqn.loss import quantile_huber_loss
from abreast.models.ppo.config import PPOConfig
from abreast.models.ppo.loss import Rows, advantages_of, clipped_loss
from abreast.replay import Trajectory
from fakes import live, make_model

LENGTH = 4


def walk_the_corridor(model, episodes):
    """A corridor of LENGTH cells: action 1 goes right, 0 left; beyond the right end lies 10, and the episode ends."""
    rng = np.random.default_rng(0)
    for episode in range(episodes):
        model.start_epoch_action(epoch=episode)
        cell, done = int(rng.integers(LENGTH)), False
        for _ in range(20):
            state = np.eye(LENGTH, dtype=np.uint8)[cell]
            action = model.take_action(state)
            cell = max(cell - 1, 0) if action == 0 else cell + 1
            done = cell == LENGTH
            model.remember(state, action, 10.0 if done else 0.0, done)
            if done:
                break
        model.end_epoch_action(epoch=episode)


SETTINGS = {"n_frames": 1, "gamma": 0.9, "epsilon": 1.0, "buffer_capacity": 2000, "batch_size": 32}
RULES = {
    "dqn": {"hidden_size": 64, "learning_rate": 0.01, "target_interval": 20, "gradient_steps": 500},
    "iqn": {"hidden_size": 32, "learning_rate": 0.005, "target_interval": 15, "gradient_steps": 450},
}


@pytest.mark.parametrize("name", RULES)
def test_value_models_find_the_discounted_values_of_a_corridor(name):
    model = make_model(name, (LENGTH,), 2, **SETTINGS, **RULES[name], seed=1, n_step=1)
    walk_the_corridor(model, 60)
    model.train_step()
    states = torch.eye(LENGTH)
    with torch.no_grad():
        values = (
            model.online(states) if name == "dqn" else model.online(states, model.online.embed(model.midpoints)).mean(1)
        )
    expected = [[10 * 0.9 ** (LENGTH - max(c - 1, 0)), 10 * 0.9 ** (LENGTH - 1 - c)] for c in range(LENGTH)]
    assert np.allclose(values.numpy(), expected, atol=0.5)


def test_ppo_learns_to_walk_right():
    model = make_model("ppo", (LENGTH,), 2, **SETTINGS, hidden_size=64, learning_rate=0.01)
    for _ in range(15):
        walk_the_corridor(model, 8)
        model.train_step()
    with torch.no_grad():
        chances = model.online.log_chances(torch.eye(LENGTH)).exp()
    assert (chances[:, 1] > 0.9).all()


def test_preferences_rank_actions_like_the_mean_of_their_quantiles():
    model = make_model("iqn")
    model.start_epoch_action(epoch=0)
    frames = torch.rand(50, model.input_size)
    with torch.no_grad():
        means = model.policy(frames, model.policy.embed(model.midpoints)).mean(1)
        ranked = model.evaluate(frames)
    assert torch.equal(means.argsort(1), ranked.argsort(1))
    differences = (means - ranked) - (means - ranked).mean(1, keepdim=True)
    assert differences.abs().max() < 1e-5


def test_the_quantile_loss_is_least_at_the_quantiles_of_the_target():
    target = torch.linspace(0, 100, 1001)[None]
    fractions = torch.tensor([[0.1, 0.5, 0.9]])

    def loss(estimate):
        return quantile_huber_loss(torch.tensor([estimate]), fractions, target, torch.ones(1), kappa=0.01).item()

    best = loss([10.0, 50.0, 90.0])
    for wrong in ([20.0, 50.0, 90.0], [10.0, 40.0, 90.0], [10.0, 50.0, 99.0]):
        assert loss(wrong) > best


def test_rows_without_an_outcome_do_not_count():
    losses = []
    for garbage in (0.0, 1e6):
        estimate = torch.tensor([[1.0], [garbage]])
        target = torch.tensor([[2.0], [5.0]])
        losses.append(
            quantile_huber_loss(estimate, torch.tensor([[0.5], [0.5]]), target, torch.tensor([1.0, 0.0]), 1.0)
        )
    assert losses[0] == losses[1] != 0


def trajectory(rewards, dones, valid):
    count = len(rewards)
    return Trajectory(
        np.zeros((count, 1)), np.zeros(count, dtype=np.int64), np.array(rewards, dtype=np.float32),
        np.array(dones), np.array(valid), ~np.array(valid), {},
    )  # fmt: skip


def test_advantages_by_hand():
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0], dtype=np.float32)
    # rows 0-1 end for good; rows 2-4 are cut after row 4, which therefore only stands for what would have come
    lived = trajectory([10, 20, 30, 40, 50], [False, True, False, False, False], [True, True, True, True, False])
    got = advantages_of(lived, values, gamma=0.5, gae_lambda=0.5)
    row1 = 20 - 2
    row0 = (10 + 0.5 * 2 - 1) + 0.25 * row1
    row3 = 40 + 0.5 * 5 - 4
    row2 = (30 + 0.5 * 4 - 3) + 0.25 * row3
    assert got.tolist() == [row0, row1, row2, row3, 0.0]


def test_the_clipped_loss_stops_rewarding_a_chance_that_has_moved_far_enough():
    config = PPOConfig(algorithm="ppo", clip=0.2, entropy_weight=0.0)
    before = torch.log(torch.tensor([0.5]))

    def gradient(chance, advantage):
        logits = torch.log(torch.tensor([[chance, 1 - chance]])).requires_grad_()
        nothing = torch.zeros(1)
        rows = Rows(logits, logits, torch.tensor([0]), before, torch.tensor([advantage]), nothing)
        loss = clipped_loss(logits, nothing, rows, config, config.clip)
        loss["loss"].backward()
        return logits.grad[0, 0].item()

    assert gradient(0.55, 1.0) < 0 and gradient(0.45, -1.0) > 0
    assert gradient(0.7, 1.0) == 0 and gradient(0.3, -1.0) == 0
    assert gradient(0.3, 1.0) < 0 and gradient(0.7, -1.0) > 0


def test_ppo_learns_from_each_row_once():
    model = make_model("ppo")
    live(model, turns=20)
    assert model.train_step() is not None
    weights = model.online_block.values.detach().clone()
    assert model.train_step() is None
    assert torch.equal(weights, model.online_block.values.detach())


@pytest.mark.parametrize("name", ["dqn", "iqn"])
def test_nothing_is_learned_before_a_batch_is_there(name):
    model = make_model(name, batch_size=16)
    live(model, turns=15)
    assert model.train_step() is None and model.updates == 0
    live(model, turns=1)
    assert model.train_step() is not None and model.updates == 1
