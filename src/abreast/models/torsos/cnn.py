"""A small convolutional torso for pictures. Shapes: B rows, T frames, R rows and C columns of pixels, K channels."""

import math

import torch
from torch import Tensor, nn

from abreast.errors import ConfigError
from abreast.models.layers import Convolution, initialise_all
from abreast.models.torsos.base import Torso

SMALL = 12
"""A side of so many cells or pixels is not made smaller."""
WIDE = 48
"""A longer one is made smaller by four at a time, others by two."""
CHANNELS = 16, 32
"""Of the first layer, and of all others."""
Pair = tuple[int, int]


class CNN(Torso):
    """Convolutions until both sides are small, and one more. The frames of a stack are channels of one picture.

    A side of 84 pixels is taken through kernels of 8, 4 and 3, with strides of 4, 2 and 1; one of 7 cells through 3 and 3.
    """

    def __init__(self, n_frames: int, frame_shape: tuple[int, ...]) -> None:
        super().__init__()
        rows, columns, *channels = frame_shape
        if min(rows, columns) < 3:
            raise ConfigError(
                f"model.network is cnn, but a frame is {rows} x {columns}: expected 3 x 3 or more; use mlp."
            )
        self._shape = n_frames, rows, columns, math.prod(channels)
        inputs, size = n_frames * math.prod(channels), (rows, columns)
        self.layers = nn.ModuleList()
        for kernel, stride, padding in _plan(size):
            outputs = CHANNELS[bool(self.layers)]
            self.layers.append(Convolution(inputs, outputs, kernel, stride, padding))
            inputs, size = outputs, _after(size, kernel, stride, padding)
        self.features = inputs * size[0] * size[1]

    def initialise(self, generator: torch.Generator) -> None:
        initialise_all(self.layers, generator)

    def forward(self, frames_BI: Tensor) -> Tensor:
        """Features of the frames, (B, F)."""
        frames_BTRCK = frames_BI.reshape(-1, *self._shape)
        found = frames_BTRCK.permute(0, 1, 4, 2, 3).flatten(1, 2)
        for layer in self.layers:
            found = torch.relu(layer(found))
        return found.flatten(1)


def _plan(size: Pair) -> list[tuple[Pair, Pair, int]]:
    """Kernel, stride and padding of each layer for a picture of that size; each side goes by its own length."""
    layers: list[tuple[Pair, Pair, int]] = [] if max(size) > SMALL else [((3, 3), (1, 1), 1)]
    while max(size) > SMALL:
        steps = [(8, 4) if side > WIDE else (4, 2) if side > SMALL else (3, 1) for side in size]
        kernel, stride = (min(steps[0][0], size[0]), min(steps[1][0], size[1])), (steps[0][1], steps[1][1])
        layers.append((kernel, stride, 0))
        size = _after(size, kernel, stride, 0)
    return [*layers, ((min(3, size[0]), min(3, size[1])), (1, 1), 0)]


def _after(size: Pair, kernel: Pair, stride: Pair, padding: int) -> Pair:
    """The size of a picture after a layer."""
    rows, columns = ((side + 2 * padding - k) // s + 1 for side, k, s in zip(size, kernel, stride, strict=True))
    return rows, columns
