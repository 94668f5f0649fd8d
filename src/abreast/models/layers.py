"""Layers that draw their first weights, and their noise, from a generator of their own instead of a global one."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def affine(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Rows through a linear layer; with N of them (N, outputs, inputs), each row of (N, …, inputs) through its own.

    On a CPU the two have the same bits, where everything is aligned (`FlatParameters`).
    """
    if weight.shape[-2] == 1:  # the rounding of a product with a single column depends on N
        between = (1,) * (inputs.dim() - weight.dim() + 1)
        column = weight.view(*weight.shape[:-2], *between, weight.shape[-1])
        return (inputs * column).sum(dim=-1, keepdim=True) + bias.view(*bias.shape[:-1], *between, 1)
    if weight.dim() == 2:
        return functional.linear(inputs, weight, bias)
    rows: Tensor = _StackedAffine.apply(inputs.flatten(1, -2), weight, bias)  # type: ignore[no-untyped-call]
    return rows.view(*inputs.shape[:-1], -1)


class _StackedAffine(torch.autograd.Function):
    """(N, rows, inputs) through N linear layers. Its backward pass multiplies in the same order as that of one layer."""

    @staticmethod
    def forward(context: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        context.save_for_backward(inputs, weight)
        if inputs.is_cuda:  # where baddbmm first makes a bias of each row, which takes longer than to add one
            return torch.bmm(inputs, weight.mT).add_(bias[:, None])
        return torch.baddbmm(bias[:, None], inputs, weight.mT)

    @staticmethod
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        inputs, weight = context.saved_tensors
        before = torch.bmm(slope, weight.to(slope.dtype)) if context.needs_input_grad[0] else None
        of_weight = torch.bmm(slope.mT, inputs.to(slope.dtype))
        return before, of_weight.to(weight.dtype), slope.sum(dim=1).to(weight.dtype)


def draw_uniform(layer: Any, bound: float, generator: torch.Generator) -> None:
    """Draw the weights and biases of a layer, from -bound to bound."""
    layer.weight.data.uniform_(-bound, bound, generator=generator)
    layer.bias.data.uniform_(-bound, bound, generator=generator)


def initialise_all(parts: Iterable[Any], generator: torch.Generator) -> None:
    """Give parts of a network their first weights, in this order. None stands for a part that the network lacks."""
    for part in parts:
        if part is not None:
            part.initialise(generator)


class Layer(nn.Module):
    """A module that returns one tensor."""

    __call__: Callable[..., Tensor]


class Linear(Layer):
    """A linear layer; `initialise` gives it its first weights."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def initialise(self, generator: torch.Generator, gain: float = 1.0) -> None:
        draw_uniform(self, gain / math.sqrt(self.weight.shape[1]), generator)

    def forward(self, inputs: Tensor) -> Tensor:
        return affine(inputs, self.weight, self.bias)


class Convolution(Layer):
    """A convolution over pictures (B, channels, rows, columns); `initialise` gives it its first weights."""

    def __init__(
        self, inputs: int, outputs: int, kernel: tuple[int, int], stride: tuple[int, int], padding: int
    ) -> None:
        super().__init__()
        self._stride, self._padding = stride, padding
        self.weight = nn.Parameter(torch.empty(outputs, inputs, *kernel))
        self.bias = nn.Parameter(torch.empty(outputs))

    def initialise(self, generator: torch.Generator) -> None:
        draw_uniform(self, 1.0 / math.sqrt(self.weight[0].numel()), generator)

    def forward(self, pictures: Tensor) -> Tensor:
        return functional.conv2d(pictures, self.weight, self.bias, self._stride, self._padding)


class NoisyLinear(Layer):
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

    def initialise(self, generator: torch.Generator) -> None:
        draw_uniform(self, math.sqrt(3.0 / self.weight.shape[1]), generator)
        self.weight_noise.data.fill_(0.017)
        self.bias_noise.data.fill_(0.017)

    def draw_noise(self, generator: torch.Generator) -> None:
        """New noise, used by every forward pass until the next draw."""
        weight_draw = torch.empty_like(self.weight).normal_(generator=generator)
        self.take_noise(weight_draw, torch.empty_like(self.bias).normal_(generator=generator))

    def take_noise(self, weight_draw: Tensor, bias_draw: Tensor) -> None:
        """The same with noise that was drawn elsewhere."""
        self.noisy = (
            torch.addcmul(self.weight, self.weight_noise, weight_draw),
            torch.addcmul(self.bias, self.bias_noise, bias_draw),
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
