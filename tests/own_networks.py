"""Modules that a user might give as `model.network`: good ones, and each kind that is refused."""

import numpy as np
import torch
from torch import nn


class TwoLayers(nn.Module):
    def __init__(self, input_shape):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 12))

    def forward(self, frames):
        return self.layers(frames)


class Attends(nn.Module):
    """With a constant, a grid of positions made in the first call, and layers that use each other's weights."""

    def __init__(self, input_shape):
        super().__init__()
        self.n_frames, self.positions = input_shape[0], None
        self.first, self.second = nn.Linear(int(np.prod(input_shape[1:])), 8), nn.Linear(8, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.second.weight = self.attention.out_proj.weight
        self.register_buffer("scale", torch.full((8,), 0.5))

    def forward(self, frames):
        if self.positions is None:
            self.positions = torch.linspace(0, 1, self.n_frames)
        seen = self.first(frames.flatten(2)) * self.scale + self.positions[:, None].to(frames.device)
        return self.second(self.attention(seen, seen, seen, need_weights=False)[0]).flatten(1)


class _WithLayer(nn.Module):
    def __init__(self, input_shape):
        super().__init__()
        self.first = nn.Linear(int(np.prod(input_shape)), 8)
        self.layer = self.make()

    def forward(self, frames):
        return self.layer(self.first(frames.flatten(1)))


class HasDropout(_WithLayer):
    make = staticmethod(lambda: nn.Dropout(0.1))


class HasBatchNorm(_WithLayer):
    make = staticmethod(lambda: nn.BatchNorm1d(8))


class HasBatchNormWithoutFigures(_WithLayer):
    make = staticmethod(lambda: nn.BatchNorm1d(8, track_running_stats=False))


class KeepsState(nn.Module):
    def __init__(self, input_shape):
        super().__init__()
        self.layer, self.before = nn.Linear(int(np.prod(input_shape)), 8), 0.0

    def forward(self, frames):
        self.before = 0.5 * self.before + float(frames.mean())
        return self.layer(frames.flatten(1))


class HasRandomBuffer(nn.Module):
    def __init__(self, input_shape):
        super().__init__()
        self.register_buffer("projection", torch.randn(int(np.prod(input_shape)), 8))

    def forward(self, frames):
        return frames.flatten(1) @ self.projection


class HasFrozenWeights(_WithLayer):
    make = staticmethod(lambda: nn.Linear(8, 8).requires_grad_(False))


class ReturnsPictures(nn.Module):
    def __init__(self, input_shape):
        super().__init__()

    def forward(self, frames):
        return frames


class ReturnsTwo(_WithLayer):
    make = staticmethod(lambda: nn.LSTM(8, 8))


class TakesMore(nn.Module):
    def __init__(self, input_shape, width):
        super().__init__()


class Raises(nn.Module):
    def __init__(self, input_shape):
        super().__init__()

    def forward(self, frames):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied.")


class ForgetsItsBase(nn.Module):
    def __init__(self, input_shape):
        self.layer = nn.Flatten()


def function(input_shape):
    return nn.Flatten()


class ReturnsDoubles(TwoLayers):
    def forward(self, frames):
        return frames.flatten(1)[:, :4].double()


class HasAGeneratorOfItsOwn(TwoLayers):
    """Its first weights follow from the clock."""

    def __init__(self, input_shape):
        super().__init__(input_shape)
        generator = torch.Generator()
        generator.seed()
        self.layers[4].weight.data.normal_(generator=generator)


class DrawsANumber(TwoLayers):
    """What it draws is no parameter: every copy has another."""

    def __init__(self, input_shape):
        super().__init__(input_shape)
        self.factor = torch.rand(()).item()

    def forward(self, frames):
        return super().forward(frames) * self.factor
