"""A user's own module as a network: what it is given, and what is refused."""

import numpy as np
import pytest
import torch

from abreast.errors import ConfigError
from abreast.models import algorithm
from abreast.models.observation import PlainObservation
from fakes import live, make_model

FILE = """
import torch

class {name}(torch.nn.Module):
    def __init__(self, input_shape):
        super().__init__()
        n_frames, rows, columns, channels = input_shape
        self.convolution = torch.nn.Conv2d(n_frames * channels, 4, 3)
        self.given = []

    def forward(self, frames):
        assert frames.dtype == torch.float32
        return self.convolution(frames.permute(0, 1, 4, 2, 3).flatten(1, 2)).relu().flatten(1)
"""


@pytest.mark.parametrize("name", ["dqn", "iqn", "ppo"])
@pytest.mark.parametrize("network", ["TwoLayers", "Attends"])
def test_it_learns_and_is_kept(name, network, tmp_path):
    model, other = (make_model(name, seed=seed, network=f"own_networks:{network}") for seed in (1, 2))
    assert live(model, epochs=2) and model.stack_key is None and model.runs_users_code
    assert not torch.equal(model.online_block.values, other.online_block.values)
    before = {path: each.detach().clone() for path, each in model.online.named_parameters()}
    model.train_step()
    now = dict(model.online.named_parameters())
    assert any("torso.module." in path for path in now)
    assert [path for path in now if torch.equal(now[path], before[path]) and "in_proj_bias" not in path] == []
    model.save(tmp_path / "model.safetensors")
    other.load(tmp_path / "model.safetensors")
    assert torch.equal(model.online_block.values, other.online_block.values)
    assert live(model, seed=3) and model.train_step() is not None


def test_a_file_is_enough_and_it_gets_scaled_pictures(tmp_path):
    path = tmp_path / "the_network_in_a_file.py"
    path.write_text(FILE.format(name="Mine"))
    kind = algorithm("dqn")
    config = kind.Config.parse({"network": f"{path}:Mine", "n_frames": 2, "hidden_size": 8})
    model = kind(PlainObservation((6, 5, 3), np.uint8, 1 / 255), 3, config, np.random.SeedSequence(0))
    seen = []
    model.policy.torso.module.register_forward_pre_hook(lambda module, given: seen.append(given[0].clone()))
    model.start_epoch_action(epoch=0)
    model.epsilon = 0.0
    model.take_action(np.full((6, 5, 3), 255, np.uint8))
    assert seen[0].shape == (1, 2, 6, 5, 3) and not seen[0][0, 0].any() and (seen[0][0, 1] == 1).all()


def test_first_weights_are_seeded_and_nothing_else_is_drawn():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one, same, other = (make_model("dqn", seed=seed, network="own_networks:TwoLayers") for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    weights = [model.online.torso.module.layers[1].weight for model in (one, same, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ("HasDropout", r"own_networks:HasDropout draws random numbers in forward \(layer\)"),
        ("HasBatchNorm", r"changes layer.running_mean, .* in forward \(as BatchNorm does\)"),
        ("HasBatchNormWithoutFigures", "gives a row other features when other rows are beside it"),
        ("KeepsState", r"changes before in forward"),
        ("HasRandomBuffer", "gives other features .* built again: .*draw a buffer from a generator with a seed"),
        ("HasFrozenWeights", r"has a parameter layer.weight that is not to be learned"),
        (
            "ReturnsPictures",
            r"returned torch.float32 of shape \(3, 2, 4\) for 3 rows of frames: expected floats of 32 bits, of shape",
        ),
        ("ReturnsTwo", r"returned .* for 3 rows of frames"),
        (
            "ReturnsDoubles",
            r"returned torch.float64 of shape \(3, 4\) for 3 rows of frames: expected floats of 32 bits",
        ),
        ("HasAGeneratorOfItsOwn", "has other first weights each time it is built with the same seed"),
        ("DrawsANumber", "gives other features for the same weights and frames when it is built again"),
        ("TakesMore", r"Class\(input_shape=\(2, 4\)\) and rows of frames: it raised TypeError: .*'width'"),
        (
            "Raises",
            r"it raised RuntimeError: mat1 and mat2 shapes cannot be multiplied\. \(own_networks\.py, line \d+\)\.$",
        ),
        (
            "ForgetsItsBase",
            r"cannot assign module before .* \(own_networks\.py, .*\): call super\(\).__init__\(\) first in its __init__\.$",
        ),
        ("function", "which is .*function.*: expected a class derived from torch.nn.Module"),
        ("Missing", "own_networks has no 'Missing'"),
    ],
)
def test_what_would_not_be_the_same_everywhere_is_refused_by_name(network, says):
    with pytest.raises(ConfigError, match=says) as raised:
        make_model("dqn", network=f"own_networks:{network}")
    assert "\n" not in str(raised.value)
