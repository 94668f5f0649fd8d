"""Which network an agent has, by what it sees and what the setting says."""

import logging

import numpy as np
import pytest
import torch

from abreast import OneHotObservationSpec
from abreast.errors import ConfigError
from abreast.models import DQN, IQN, algorithm
from abreast.models.observation import PlainObservation
from abreast.models.torsos import choice, network_for
from abreast.worlds import RGBObservationSpec
from fakes import TinyObservation, live, make_model

PIXELS = 1 / 255


@pytest.mark.parametrize(
    ("seen", "means"),
    [
        (RGBObservationSpec(vision_radius=2), "cnn"),
        (OneHotObservationSpec(["A", "B"], vision_radius=2), "mlp"),
        (OneHotObservationSpec(["A", "B"], env_dims=(40, 40)), "mlp"),
        (PlainObservation((7, 7, 3), np.uint8, PIXELS), "cnn"),
        (PlainObservation((4, 7, 3), np.uint8, PIXELS), "mlp"),
        (PlainObservation((64, 64, 3), np.float32, 1.0), "cnn"),
        (PlainObservation((64, 64), np.float32, 1.0), "mlp"),
        (PlainObservation((27648,), np.uint8, PIXELS), "mlp"),
        (PlainObservation((4,), np.float32, 1.0), "mlp"),
    ],
)
def test_auto_means_cnn_for_pictures_and_mlp_for_all_else(seen, means):
    assert network_for("auto", seen) == means
    assert network_for("lstm", seen) == "lstm" and network_for("mlp", seen) == "mlp"


@pytest.mark.parametrize("name", ["dqn", "iqn", "ppo"])
def test_an_mlp_is_what_it_was(name):
    """Layer by layer and number by number: models that were saved before there was a choice."""
    auto, given = make_model(name), make_model(name, network="mlp")
    assert auto.network_name == "mlp" and not any("torso" in path for path, _ in auto.online.named_parameters())
    assert live(auto) == live(given) and auto.train_step() == given.train_step()
    assert auto.memory.extras_dtypes.keys() == ({"log_chance"} if name == "ppo" else set())
    if name == "dqn":
        assert [path for path, _ in auto.online.named_children()] == ["state", "trunk", "heads"]


def picture_model(name="dqn", **settings):
    kind = algorithm(name)
    config = kind.Config.parse({"algorithm": name, "hidden_size": 16, "n_frames": 2, **settings})
    return kind(PlainObservation((8, 9, 3), np.uint8, PIXELS), 3, config, np.random.SeedSequence(0))


def test_an_mlp_that_sees_pixels_is_told_of_once(caplog):
    choice.warn_of_pixels.cache_clear()
    with caplog.at_level(logging.WARNING, "abreast"):
        for _ in range(3):
            picture_model(network="mlp")
        picture_model(network="cnn")
    assert [record.message for record in caplog.records] == [
        "model.network is mlp, but an agent sees a picture of 8 x 9 x 3: an mlp does not know which pixels are neighbours,"
        " and learns slowly from them; model.network=cnn does."
    ]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"network": "transformer"},
            "network: 'transformer' is no network: known are: auto, cnn, lstm, mlp. A torch",
        ),
        ({"network": "cmn"}, "did you mean 'cnn'"),
        ({"network": "nowhere:Net"}, "there is no module 'nowhere'"),
        ({"network": "nowhere.py:Net"}, r"there is no file nowhere\.py"),
        (
            {"network": "cnn", "shape": (4,)},
            r"model.network is cnn, but the agent sees \(4,\): expected rows x columns",
        ),
        ({"network": "cnn", "shape": (2, 7, 1)}, "model.network is cnn, but a frame is 2 x 7: expected 3 x 3 or more"),
        ({"network": "lstm", "name": "iqn"}, "network: iqn has no network lstm: set algorithm to dqn or ppo"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(settings, says):
    with pytest.raises(ConfigError, match=says):
        make_model(settings.pop("name", "dqn"), **settings)


class MakesItsOwn(DQN):
    def make_network(self):
        return super().make_network()


class Evaluates(DQN):
    def evaluate(self, frames):
        return super().evaluate(frames)


@pytest.mark.parametrize(
    ("kind", "network", "says"),
    [
        (MakesItsOwn, "cnn", "model.network is cnn, but MakesItsOwn defines make_network itself"),
        (Evaluates, "lstm", "model.network is lstm, but Evaluates defines evaluate itself"),
        (Evaluates, "cnn", None),
        (MakesItsOwn, "auto", None),
    ],
)
def test_a_users_model_and_a_setting_do_not_contradict_each_other(kind, network, says):
    def make():
        config = kind.Config.parse({"network": network, "hidden_size": 4})
        return kind(TinyObservation(6, 6, 2), 2, config, np.random.SeedSequence(0))

    if says is None:
        assert live(make())
    else:
        with pytest.raises(ConfigError, match=says):
            make()


@pytest.mark.parametrize("network", ["mlp", "cnn"])
def test_half_precision_is_close_and_changes_no_type(network):
    losses = []
    for precision in ("float32", "bf16"):
        given = {"network": network, "precision": precision, "n_frames": 1, "hidden_size": 16, "batch_size": 8}
        config = IQN.Config.parse(given)
        model = IQN(TinyObservation(6, 6, 2), 2, config, np.random.SeedSequence(0))
        live(model)
        losses.append(model.train_step()["loss"])
        assert all(parameter.dtype == torch.float32 for parameter in model.online.parameters())
    assert losses[0] != losses[1] and abs(losses[0] - losses[1]) < 0.1 * abs(losses[0])
