"""Layers that draw their first weights, and their noise, from a generator of their own instead of a global one."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional


def affine(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Rows through a linear layer; with N of them (N, outputs, inputs), each row of (N, …, inputs) through its own."""
    if weight.dim() == 2:
        return functional.linear(inputs, weight, bias)
    if weight.shape[1] == 1:  # its rounding as a product of matrices depends on N
        ones = (1,) * (inputs.dim() - 2)
        return (inputs * weight.view(len(weight), *ones, -1)).sum(dim=-1, keepdim=True) + bias.view(-1, *ones, 1)
    rows = torch.baddbmm(bias[:, None], inputs.flatten(1, -2), weight.mT)
    return rows.view(*inputs.shape[:-1], -1)


class Linear(nn.Module):
    """A linear layer; `initialise` gives it its first weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def initialise(self, generator: torch.Generator, gain: float = 1.0) -> None:
        bound = gain / math.sqrt(self.weight.shape[1])
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.uniform_(-bound, bound, generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        return affine(inputs, self.weight, self.bias)


class Convolution(nn.Module):
    """A convolution over pictures (B, channels, rows, columns); `initialise` gives it its first weights."""

    def __init__(
        self, inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int], padding: int
    ) -> None:
        super().__init__()
        self._stride, self._padding = stride, padding
        self.weight = nn.Parameter(torch.empty(outputs, inputs, *kernel))
        self.bias = nn.Parameter(torch.empty(outputs))

    def initialise(self, generator: torch.Generator) -> None:
        bound = 1.0 / math.sqrt(self.weight[0].numel())
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.uniform_(-bound, bound, generator=generator)

    def forward(self, pictures: Tensor) -> Tensor:
        return functional.conv2d(pictures, self.weight, self.bias, self._stride, self._padding)


class NoisyLinear(nn.Module):
    """A linear layer with independent Gaussian noise of learned size on every weight, for exploration.

    Noise is drawn by `draw_noise`, not by `forward`: the caller decides how long one draw lasts. (A draw for
    a 250x250 layer takes 0.2 ms; one in every forward pass was two thirds of the time of an action.)
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.weight_noise = nn.Parameter(torch.empty(outputs, inputs))
        self.bias_noise = nn.Parameter(torch.empty(outputs))
        self.noisy: tuple[Tensor, Tensor] | None = None
        """Weight and bias with the noise of the last draw."""
        self.weight_draw, self.bias_draw = torch.empty(0), torch.empty(0)
        """That noise, before it is scaled."""

    def initialise(self, generator: torch.Generator) -> None:
        bound = math.sqrt(3.0 / self.weight.shape[1])
        with torch.no_grad():
            self.weight.uniform_(-bound, bound, generator=generator)
            self.bias.uniform_(-bound, bound, generator=generator)
            self.weight_noise.fill_(0.017)
            self.bias_noise.fill_(0.017)

    def draw_noise(self, generator: torch.Generator) -> None:
        """New noise, used by every forward pass until the next draw."""
        weight_draw = torch.empty_like(self.weight).normal_(generator=generator)
        self.take_noise(weight_draw, torch.empty_like(self.bias).normal_(generator=generator))

    def take_noise(self, weight_draw: Tensor, bias_draw: Tensor) -> None:
        """The same with noise that was drawn elsewhere."""
        self.weight_draw, self.bias_draw = weight_draw, bias_draw
        self.noisy = (
            torch.addcmul(self.weight, self.weight_noise, self.weight_draw),
            torch.addcmul(self.bias, self.bias_noise, self.bias_draw),
        )

    def leave_out_noise(self) -> None:
        """No noise until the next draw: the weights as they are."""
        self.noisy = self.weight, self.bias

    def forward(self, inputs: Tensor) -> Tensor:
        assert self.noisy is not None, "draw_noise comes before the first forward pass"
        return affine(inputs, *self.noisy)


def noisy_layers(network: nn.Module) -> Iterator[NoisyLinear]:
    """The noisy layers of a network, in the order they were made."""
    return (layer for layer in network.modules() if isinstance(layer, NoisyLinear))
