"""Several agents' networks as one with a leading dimension: N independent results from one product instead of N.

Shapes: N agents, B rows each, D inputs, A actions.
"""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from abreast.models.base import BaseModel
from abreast.models.layers import Linear, NoisyLinear
from abreast.models.network_model import NetworkModel


class StackedChoice:
    """Chooses for several models at once, with the weights they choose with now: make a new one every epoch."""

    def __init__(self, models: Sequence[NetworkModel]) -> None:
        self._models = models
        network = models[0].make_network()
        stack_layers(network, [model.policy for model in models])
        self._all = models[0].stacked(network, models)

    def take_actions(self, states: Sequence[Sequence[NDArray[Any]]], lanes: Sequence[int]) -> list[list[int]]:
        """Per model, the actions chosen in the states of these lanes."""
        with torch.inference_mode():
            frames_NBD = torch.stack(
                [model.frame_stack.push(seen, lanes) for model, seen in zip(self._models, states, strict=True)]
            )
            groups = self._models[0].streams.together(range(len(lanes)), lanes)
            parts = [frames_NBD[:, group[0] : group[-1] + 1].contiguous() for group in groups]
            evaluated_NBA = torch.cat([self._all.evaluate(part) for part in parts], dim=1)
        return [
            model.decide(evaluated_BA, lanes) for model, evaluated_BA in zip(self._models, evaluated_NBA, strict=True)
        ]


def can_be_stacked(models: Sequence[BaseModel]) -> bool:
    """Whether there are several models, of one kind and shape."""
    keys = {model.stack_key for model in models}
    return len(models) > 1 and len(keys) == 1 and None not in keys


def stack_layers(network: nn.Module, networks: Sequence[nn.Module]) -> None:
    """Give each layer of a network the weights (or noisy weights) of the same layer of all networks."""
    for layer, *layers in zip(network.modules(), *(other.modules() for other in networks), strict=True):
        if isinstance(layer, Linear):
            layer.weight = nn.Parameter(torch.stack([each.weight for each in layers]), requires_grad=False)
            layer.bias = nn.Parameter(torch.stack([each.bias for each in layers]), requires_grad=False)
        elif isinstance(layer, NoisyLinear):
            weights, biases = zip(*(each.noisy for each in layers), strict=True)
            layer.noisy = torch.stack(weights), torch.stack(biases)
