"""SAC: its losses by hand, what each of them changes, and the temperature."""

import numpy as np
import pytest
import torch
from torch import distributions

from abreast.errors import ConfigError
from abreast.models import ALGORITHMS, ActionBox
from fakes import TinyObservation, live, make_model


@pytest.fixture
def model():
    found = make_model("sac", n_actions=2, gradient_steps=4, alpha=0.3, learning_rate=0.01)
    live(found, turns=40)
    found.train_step()  # so that target and online differ
    return found


def by_hand(model, batch, drawn):
    """Policy, critics and temperature from plain operations and torch's distributions."""
    online, target, alpha = model.online, model.target, model.online.log_alpha.exp().item()

    def act(states, noise):
        hidden = torch.relu(online.policy_trunk(torch.relu(online.policy_state(states))))
        heads = online.policy_head(hidden)
        mean, std = heads[:, :2], heads[:, 2:].clamp(-5, 2).exp()
        raw = mean + std * noise
        density = distributions.Normal(mean, std).log_prob(raw) - torch.log(1 - torch.tanh(raw) ** 2)
        return torch.tanh(raw), density.sum(dim=1)

    def worth(network, states, actions):
        inputs = torch.cat([states, actions], dim=1)
        return [each.head(each.trunk(each.state(inputs).relu()).relu())[:, 0] for each in network.critics]

    weights = batch.weights
    with torch.no_grad():
        actions, density = act(batch.next_states, drawn["next_noise"])
        goal = batch.rewards + batch.discounts * (
            torch.min(*worth(target, batch.next_states, actions)) - alpha * density
        )
    critic = sum((weights * (each - goal) ** 2 / 2).sum() for each in worth(online, batch.states, batch.actions))
    actions, density = act(batch.states, drawn["noise"])
    policy = (weights * (alpha * density - torch.min(*worth(online, batch.states, actions)))).sum()
    temperature = -(online.log_alpha * weights * (density.detach() - 2.0)).sum()
    return critic, policy, temperature


def gradients(model, loss, names):
    found = torch.autograd.grad(loss, [model.online.get_parameter(name) for name in names], retain_graph=True)
    return dict(zip(names, found, strict=True))


def test_losses_are_those_by_hand_and_each_changes_its_own_part_alone(model):
    batch = model.tensors_of(model.memory.sample(16))
    drawn = model.drawn(16)
    figures = model.loss_of(model.online, model.target, batch, drawn)
    critic, policy, temperature = by_hand(model, batch, drawn)
    torch.testing.assert_close(figures["value_loss"], critic)
    torch.testing.assert_close(figures["policy_loss"], policy)
    torch.testing.assert_close(figures["loss"], critic + policy + temperature)
    names = [name for name, _ in model.online.named_parameters()]
    found = gradients(model, figures["loss"], names)
    parts = {"critics": critic, "policy": policy, "log_alpha": temperature}
    for begin, loss in parts.items():
        own = [name for name in names if name.startswith(begin)]
        for name, slope in gradients(model, loss, own).items():
            torch.testing.assert_close(found[name], slope, msg=name)
    assert figures.keys() >= {"loss", "mean_value", "entropy", "alpha"}


def test_the_temperature_goes_where_the_entropy_is_wanted():
    def after(target_entropy):
        model = make_model("sac", target_entropy=target_entropy, gradient_steps=20, learning_rate=0.01, alpha=0.5)
        live(model)
        figures = model.train_step()
        return figures["alpha"]

    assert after(-100.0) < 0.5 < after(100.0)


@pytest.mark.parametrize("name", ["sac", "ppo"])
def test_without_exploring_it_chooses_the_mean(name):
    kind = ALGORITHMS[name]
    config = kind.Config.parse({"algorithm": name, "hidden_size": 8, "n_frames": 1})
    model = kind(TinyObservation(3), ActionBox((0.0, 0.0), (1.0, 1.0)), config, np.random.SeedSequence(1))
    state = np.ones(3, np.uint8)
    model.start_epoch_action(epoch=0)
    drawn = np.array([model.take_action(state) for _ in range(400)])
    with model.act_greedily():
        chosen = [model.take_action(state) for _ in range(2)]
    means = model.evaluate(torch.ones(1, 3))[0, :2].detach()
    expected = torch.tanh(means) if name == "sac" else means
    assert np.array_equal(*chosen) and np.allclose(chosen[0], expected.numpy())
    assert np.abs(drawn.mean(axis=0) - chosen[0]).max() < 0.1 and (drawn.std(axis=0) > 0.4).all()
    assert drawn.dtype == np.float32 and (name == "ppo" or np.abs(drawn).max() <= 1.0)


def test_who_can_choose_what_is_said_by_the_class():
    can = sorted(name for name, kind in ALGORITHMS.items() if "continuous" in kind.ACTIONS and name != "random")
    assert can == ["ppo", "sac"]  # as the sentence says
    for name, actions in (("dqn", ActionBox((0.0,), (1.0,))), ("sac", 3)):
        kind = ALGORITHMS[name]
        with pytest.raises(ConfigError, match=r"use ppo or sac|use ppo, dqn or iqn"):
            kind(TinyObservation(3), actions, kind.Config.parse({}), np.random.SeedSequence(1))


def test_ppo_remembers_the_density_of_what_it_drew_and_begins_an_update_where_it_was():
    kind = ALGORITHMS["ppo"]
    config = kind.Config.parse({"algorithm": "ppo", "hidden_size": 8, "n_frames": 1, "learning_rate": 0.05})
    model = kind(TinyObservation(3), ActionBox((0.0, 0.0), (1.0, 5.0)), config, np.random.SeedSequence(1))
    for epoch in range(2):
        live(model, seed=epoch)
        model.train_step()
    live(model, seed=2)
    rows = model.new_rows()
    spread = model.policy.log_std.exp()
    normal = distributions.Normal(model.policy.means(rows.states), spread)
    torch.testing.assert_close(rows.before, normal.log_prob(rows.actions).sum(dim=-1))
    figures = model.loss_of(model.online, rows)
    assert abs(figures["kl"].item()) < 1e-6 and figures["clip_fraction"] == 0 and figures["value_loss"] > 0
    torch.testing.assert_close(figures["entropy"], distributions.Normal(0.0, spread).entropy().sum())
    assert len(set(spread.tolist())) == 2, "spreads are learned"
