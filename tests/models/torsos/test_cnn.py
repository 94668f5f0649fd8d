"""The convolutional torso: sizes, frames as channels, and that it learns where something is."""

import numpy as np
import pytest
import torch

from abreast.models import algorithm
from abreast.models.observation import PlainObservation
from abreast.models.torsos.cnn import CNN
from fakes import live, make_model


@pytest.mark.parametrize(
    ("shape", "kernels", "features"),
    [
        ((84, 84, 3), [(8, 8), (4, 4), (3, 3)], 32 * 7 * 7),
        ((40, 40, 3), [(4, 4), (4, 4), (3, 3)], 32 * 6 * 6),
        ((5, 5, 4), [(3, 3), (3, 3)], 32 * 3 * 3),
        ((11, 7, 4), [(3, 3), (3, 3)], 32 * 9 * 5),
        ((3, 3, 1), [(3, 3), (3, 3)], 32),
        ((12, 12), [(3, 3), (3, 3)], 32 * 10 * 10),
        ((457, 120, 3), [(8, 8), (8, 4), (4, 4), (3, 3)], 32 * 10 * 3),
        ((512, 512, 3), [(8, 8), (8, 8), (4, 4), (4, 4), (3, 3)], 32 * 4 * 4),
        ((100, 3, 1), [(8, 3), (4, 1), (3, 1)], 32 * 9),
    ],
)
def test_its_layers_follow_from_the_size_of_a_frame(shape, kernels, features):
    torso = CNN(2, shape)
    assert [tuple(layer.weight.shape[2:]) for layer in torso.layers] == kernels
    torso.initialise(torch.Generator())
    assert torso(torch.rand(3, 2 * int(np.prod(shape)))).shape == (3, features) and torso.features == features


def test_frames_are_channels_and_pixels_stay_neighbours():
    torso = CNN(2, (5, 6, 3))
    torso.initialise(torch.Generator())
    seen = []
    torso.layers[0].register_forward_pre_hook(lambda layer, given: seen.append(given[0]))
    frames_BTRCK = torch.rand(4, 2, 5, 6, 3)
    torso(frames_BTRCK.flatten(1))
    assert torch.equal(seen[0][1, 5, 2, 3], frames_BTRCK[1, 1, 2, 3, 2])
    assert torch.equal(seen[0][3, 1], frames_BTRCK[3, 0, :, :, 1])


@pytest.mark.parametrize("name", ["dqn", "iqn", "ppo"])
def test_first_weights_come_from_the_agents_own_stream(name):
    one, same, other = (make_model(name, (5, 5, 2), seed=seed, network="cnn") for seed in (1, 1, 2))
    assert torch.equal(one.online_block.values, same.online_block.values)
    weights = dict(one.online.named_parameters())
    path = next(path for path in weights if "torso.layers.0.weight" in path)
    assert not torch.equal(weights[path], dict(other.online.named_parameters())[path])
    assert 0.1 < weights[path].abs().max() <= 1 / np.sqrt(2 * 2 * 9)
    if name == "ppo":
        assert not torch.equal(weights[path], weights[path.replace("policy", "value")])


@pytest.mark.parametrize("name", ["dqn", "iqn", "ppo"])
def test_gradients_reach_its_first_layer_and_files_hold_it(name, tmp_path):
    model, other = (make_model(name, (5, 5, 2), seed=seed, network="cnn") for seed in (1, 2))
    live(model, epochs=2)
    before = [parameter.detach().clone() for parameter in model.online.parameters()]
    model.train_step()
    now = list(model.online.parameters())
    assert all(not torch.equal(was, parameter) for was, parameter in zip(before, now, strict=True))
    model.save(tmp_path / "model.safetensors")
    other.load(tmp_path / "model.safetensors")
    assert torch.equal(model.online_block.values, other.online_block.values)
    assert model.stack_key is None


def test_it_learns_where_something_is():
    """A bright spot in one of four corners of a picture, anywhere in it: the action is the corner."""
    config = {"hidden_size": 32, "n_frames": 1, "epsilon": 0.3, "learning_rate": 0.005, "batch_size": 32}
    kind = algorithm("dqn")
    model = kind(
        PlainObservation((16, 16, 3), np.uint8, 1 / 255),
        4,
        kind.Config.parse(config),
        np.random.SeedSequence(0),
        lanes=8,
    )
    assert model.network_name == "cnn"
    rng, right = np.random.default_rng(0), []
    for epoch in range(20):
        model.start_epoch_action(epoch=epoch)
        if epoch == 19:
            model.epsilon = 0.0
        for _ in range(8):
            corners, within = rng.integers(0, 4, 8), rng.integers(0, 6, (8, 2))
            seen = rng.integers(0, 40, (8, 16, 16, 3)).astype(np.uint8)
            for lane, (corner, (row, column)) in enumerate(zip(corners, within, strict=True)):
                row, column = row + 8 * (corner // 2), column + 8 * (corner % 2)
                seen[lane, row : row + 3, column : column + 3] = 255
            actions = model.take_actions(list(seen), list(range(8)))
            hits = np.array(actions) == corners
            model.remember_all(list(seen), actions, hits.astype(float).tolist(), [True] * 8, list(range(8)))
            right += hits.tolist() if epoch == 19 else []
        model.end_epoch_action(epoch=epoch)
        model.train_step()
    assert np.mean(right) > 0.8
