"""Torsos: what stands between the frames and the layers of an algorithm, if `model.network` is not a plain mlp."""

from abreast.models.torsos.base import Torso
from abreast.models.torsos.choice import check_network, make_torso, network_for
from abreast.models.torsos.lstm import LSTM

__all__ = ["LSTM", "Torso", "check_network", "make_torso", "network_for"]
