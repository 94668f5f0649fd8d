"""The passes of IQN that are written out by hand are those of its network, and the same for any number of threads."""

import numpy as np
import pytest
import torch

from abreast.errors import ConfigError, ModelError
from abreast.models import IQN
from abreast.models.crew import Crew
from abreast.models.iqn.network import IQNNetwork
from abreast.models.iqn.passes import PARTED_FROM
from abreast.models.layers import NoisyLinear
from fakes import live, make_model

LARGE = {"hidden_size": 250, "batch_size": 64, "n_quantiles": 12}
assert LARGE["hidden_size"] * LARGE["batch_size"] * LARGE["n_quantiles"] >= PARTED_FROM


class OwnNetwork(IQNNetwork):
    """The same network, as far as anybody can tell who does not read it."""


class IQNWithOwnNetwork(IQN):
    def make_network(self):
        return OwnNetwork(self.input_size, self.n_actions, self.config)


def gradient_of(model, batch):
    model.learning_generator.manual_seed(3)
    model.online_block.gradients.zero_()
    loss = model.loss(batch)["loss"]
    loss.backward()
    return loss.item(), model.online_block.gradients.clone()


def twins(**settings):
    """A model whose passes are by hand, one with the same weights that leaves them to autograd, and a batch."""
    by_hand = make_model("iqn", buffer_capacity=1024, **settings)
    arguments = by_hand.observation, by_hand.n_actions, by_hand.config, np.random.SeedSequence(1)
    by_autograd = IQNWithOwnNetwork(*arguments)
    live(by_hand, epochs=12)
    by_hand.target_block.values.mul_(0.9)
    for mine, other in zip(by_hand.blocks().values(), by_autograd.blocks().values(), strict=True):
        other.copy_(mine)
    return by_hand, by_autograd, by_hand.memory.sample(by_hand.config.batch_size)


@pytest.mark.parametrize(
    "settings",
    [
        LARGE,
        {**LARGE, "batch_size": 63},
        {"hidden_size": 7, "batch_size": 5, "n_quantiles": 3, "n_cosines": 2, "choosing_quantiles": 1},
        {"hidden_size": 16, "batch_size": 1, "n_quantiles": 1},
    ],
)
def test_loss_and_gradient_are_those_of_the_network(settings):
    by_hand, by_autograd, batch = twins(**settings)
    loss, gradient = gradient_of(by_hand, batch)
    expected, expected_gradient = gradient_of(by_autograd, batch)
    assert loss == pytest.approx(expected, rel=1e-5)
    assert expected_gradient.abs().max() > 1e-3
    assert torch.allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-5 * expected_gradient.abs().max().item())


def test_any_number_of_threads_gives_the_same_bits():
    results = []
    for threads in (1, 2, 3, 5):
        model = make_model("iqn", **LARGE)
        live(model, epochs=12)
        model.crew = Crew(threads)
        losses = [model.train_step() for _ in range(3)]
        model.crew.close()
        results.append((losses, model.online_block.values.detach().numpy().tobytes()))
    assert all(result == results[0] for result in results)


def test_a_layer_of_the_users_is_used():
    class Silent(NoisyLinear):
        def forward(self, inputs):
            return super().forward(inputs) * 0.0

    model = make_model("iqn", hidden_size=8)
    live(model, epochs=12)
    model.online.trunk.__class__ = Silent
    assert not model.online.is_plain
    _, gradient = gradient_of(model, model.memory.sample(16))
    assert not model.online_block.views(gradient)["state.weight"].any()


def test_bf16_is_refused_where_a_network_of_the_users_would_not_heed_it():
    settings = make_model("iqn", hidden_size=8, precision="bf16").config
    seen = make_model("iqn").observation
    with pytest.raises(ConfigError, match=r"precision is bf16, but OwnNetwork, .* is your own"):
        IQNWithOwnNetwork(seen, 3, settings, np.random.SeedSequence(1))
    model = make_model("iqn", hidden_size=8, precision="bf16")
    live(model, epochs=12)
    model.online.trunk.__class__ = type("Own", (NoisyLinear,), {})
    with pytest.raises(ConfigError, match="precision is bf16"):
        model.train_step()


def test_two_losses_before_the_first_goes_back_are_refused():
    model = make_model("iqn", hidden_size=8)
    live(model, epochs=12)
    first, second = (model.loss(model.memory.sample(16))["loss"] for _ in range(2))
    with pytest.raises(ModelError, match="another loss was computed before this one went backward"):
        first.backward()
    second.backward()


def test_gradients_add_up():
    model = make_model("iqn", hidden_size=8)
    live(model, epochs=12)
    batch = model.memory.sample(16)
    _, gradient = gradient_of(model, batch)
    model.learning_generator.manual_seed(3)
    model.loss(batch)["loss"].backward()
    assert torch.allclose(model.online_block.gradients, 2 * gradient)


def test_bf16_descends_nearly_the_same_gradient():
    plain, short = make_model("iqn", **LARGE), make_model("iqn", **LARGE, precision="bf16")
    live(plain, epochs=12)
    batch = plain.memory.sample(64)
    (loss, gradient), (other_loss, other) = gradient_of(plain, batch), gradient_of(short, batch)
    assert other_loss == pytest.approx(loss, rel=0.01)
    assert other_loss != loss
    assert torch.nn.functional.cosine_similarity(gradient, other, dim=0) > 0.99
    short.memory.set_state(plain.memory.state())
    assert np.isfinite(short.train_step()["loss"])
    assert all(block.dtype == torch.float32 for block in short.blocks().values())
