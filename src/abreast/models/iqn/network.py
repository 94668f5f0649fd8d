"""The network of IQN: a distribution of returns per action, asked for by quantile fraction; dueling and noisy.

Shapes: B batch, K quantiles, D inputs, H hidden, A actions.
"""

import math

import torch
from torch import Tensor

from abreast.models.iqn.config import IQNConfig
from abreast.models.layers import Layer, Linear, NoisyLinear, noisy_layers
from abreast.models.torsos import Torso


class IQNNetwork(Layer):
    """`embed` the quantile fractions, then `forward` states with them."""

    def __init__(self, n_inputs: int, n_actions: int, config: IQNConfig, torso: Torso | None = None) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.torso = torso
        self.state = Linear(n_inputs if torso is None else torso.features, hidden)
        self.fraction = Linear(config.n_cosines, hidden)
        self.trunk = NoisyLinear(hidden, hidden)
        self.dueling = NoisyLinear(hidden, 1 + n_actions)  # column 0: value of the state; the others: advantages
        self.frequencies: Tensor
        self.picks_AQ: Tensor
        """Per action, what its quantiles are made of: the value, and its advantage less the mean of all."""
        picks_AQ = torch.cat([torch.ones(n_actions, 1), torch.eye(n_actions) - 1.0 / n_actions], dim=1)
        self.register_buffer("picks_AQ", picks_AQ, persistent=False)
        self.register_buffer("frequencies", math.pi * torch.arange(1, config.n_cosines + 1), persistent=False)

    def draw_noise(self, generator: torch.Generator) -> None:
        """New noise for the noisy layers, used until the next draw: in one piece, unless a user's layer draws its own."""
        if self.has_plain_noise:
            self.take_noise(torch.empty(self.noise_size, device=self.trunk.weight.device).normal_(generator=generator))
            return
        for layer in noisy_layers(self):
            layer.draw_noise(generator)

    @property
    def has_plain_noise(self) -> bool:
        """Whether `take_noise` can stand for `draw_noise`: no part of a user's draws noise of its own."""
        is_ours = type(self).draw_noise is IQNNetwork.draw_noise
        return is_ours and all(type(layer) is NoisyLinear for layer in noisy_layers(self))

    @property
    def noise_size(self) -> int:
        """Numbers in a draw for all noisy layers."""
        return sum(self._noise_sizes)

    @property
    def _noise_sizes(self) -> list[int]:
        """Of each noisy layer, those for its weights and for its biases; of one network, also where several are stacked."""
        return [
            size for layer in noisy_layers(self) for size in (layer.weight.shape[-2:].numel(), layer.bias.shape[-1])
        ]

    def take_noise(self, drawn: Tensor) -> None:
        """Noise for the noisy layers, as `noise_size` standard normal numbers, used until the next draw."""
        parts = iter(torch.split(drawn, self._noise_sizes, dim=-1))
        for layer in noisy_layers(self):
            layer.take_noise(next(parts).view_as(layer.weight), next(parts))

    def leave_out_noise(self) -> None:
        """No noise until the next draw."""
        for layer in noisy_layers(self):
            layer.leave_out_noise()

    def embed(self, fractions: Tensor) -> Tensor:
        """Quantile fractions (…, K) as features (…, K, H)."""
        return self.fraction(torch.cos(fractions[..., None] * self.frequencies)).relu()

    def preferences(self, states_BD: Tensor, embedded_KH: Tensor) -> Tensor:
        """Numbers that rank the actions like their mean over the fractions, (B, A), for half the work of `forward`.

        The value of the state is the same for all actions, and the last layer is linear, so the mean can come first.
        Stacked (see models/stacked/), everything has a leading dimension more.
        """
        features_BKH = self.trunk(self._hidden(states_BD)[..., None, :] * embedded_KH[..., None, :, :]).relu()
        return self.dueling(features_BKH.mean(dim=-2))[..., 1:]

    def forward(self, states_BD: Tensor, embedded: Tensor) -> Tensor:
        """Quantiles of the return, (B, K, A); `embedded` is (B, K, H), or (K, H) for the same fractions everywhere.

        Stacked (see models/stacked/), everything has a leading dimension more.
        """
        features_BKH = self.trunk(self._hidden(states_BD)[..., None, :] * embedded).relu()
        both = self.dueling(features_BKH)
        value_BK1, advantage_BKA = both[..., :1], both[..., 1:]
        return value_BK1 + advantage_BKA - advantage_BKA.mean(dim=-1, keepdim=True)

    def quantiles_of(self, states_BD: Tensor, embedded: Tensor, actions_B: Tensor) -> Tensor:
        """`forward` of one action in each state, (B, K), with fewer calls there and back."""
        if type(self).forward is not IQNNetwork.forward:  # a user's, who says what quantiles are
            quantiles_BKA = self(states_BD, embedded)
            index = actions_B[..., None, None].expand(*quantiles_BKA.shape[:-1], 1)
            return quantiles_BKA.gather(-1, index).squeeze(-1)
        features_BKH = self.trunk(self._hidden(states_BD)[..., None, :] * embedded).relu()
        return (self.dueling(features_BKH) * self.picks_AQ[actions_B][..., None, :]).sum(dim=-1)

    def _hidden(self, states_BD: Tensor) -> Tensor:
        return self.state(states_BD if self.torso is None else self.torso(states_BD)).relu()
