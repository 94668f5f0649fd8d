"""Which network `model.network` means for what an agent sees."""

import functools
import math

import numpy as np

from abreast.errors import ConfigError, log, nearest, short
from abreast.models.observation import ObservationShape
from abreast.models.torsos.base import Torso
from abreast.models.torsos.cnn import CNN
from abreast.models.torsos.lstm import LSTM
from abreast.models.torsos.users import UsersTorso, users_class
from abreast.plugins import is_target
from abreast.processes.child import parent_pid

NETWORKS = "auto", "mlp", "cnn", "lstm"
SMALLEST_PICTURE = 5
"""Cells or pixels a side: convolutions have little to look for in fewer."""


def check_network(name: str) -> str:
    """The setting, if it can be one."""
    if name not in NETWORKS and not is_target(name):
        raise ValueError(
            f"{short(name)} is no network: {nearest(name, NETWORKS)} A torch.nn.Module of your own is module:Class or"
            " file.py:Class."
        )
    return name


def is_picture(seen: ObservationShape) -> bool:
    """Whether a frame is a picture: rows x columns x channels, at least 5 x 5, of intensities, which are numbers with a
    scale (pixels) or floats. Bytes as they are, such as one-hot planes, are none: for small ones an mlp takes half the time.
    """
    shape = seen.input_size
    is_large = len(shape) == 3 and min(shape[:2]) >= SMALLEST_PICTURE
    return is_large and (seen.scale != 1.0 or np.dtype(seen.dtype).kind == "f")


def network_for(name: str, seen: ObservationShape) -> str:
    """What `auto` means; anything else means itself."""
    return name if name != "auto" else "cnn" if is_picture(seen) else "mlp"


@functools.cache  # once for each shape
def warn_of_pixels(shape: tuple[int, ...]) -> None:
    """Say that an mlp was asked for where a picture is seen."""
    if parent_pid() is None:  # children build what was built, and told of, here
        log.warning(
            f"model.network is mlp, but an agent sees a picture of {' x '.join(map(str, shape))}: an mlp does not"
            " know which pixels are neighbours, and learns slowly from them; model.network=cnn does."
        )


def make_torso(
    name: str, seen: ObservationShape, n_frames: int, hidden: int, number: int = 0, of: int = 1
) -> Torso | None:
    """The torso of a network, or (mlp) none; `number` is which one, of how many the network has."""
    frame_shape = tuple(int(side) for side in seen.input_size)
    if name == "mlp":
        return None
    if name == "lstm":
        encoder = CNN(1, frame_shape) if is_picture(seen) else None
        return LSTM(math.prod(frame_shape), hidden, number, of, encoder)
    if name != "cnn":
        return UsersTorso(users_class(name), (n_frames, *frame_shape), name)
    if len(frame_shape) not in (2, 3):
        raise ConfigError(
            f"model.network is cnn, but the agent sees {short(frame_shape)}: expected rows x columns x channels, or rows x"
            " columns; use mlp or auto."
        )
    return CNN(n_frames, frame_shape)
