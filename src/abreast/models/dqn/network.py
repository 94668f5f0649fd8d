"""The network of DQN: one value per action. Shapes: B batch, D inputs, A actions."""

import torch
from torch import Tensor

from abreast.models.dqn.config import DQNConfig
from abreast.models.layers import Layer, Linear
from abreast.models.torsos import Torso


class DQNNetwork(Layer):
    """A torso, if there is one, two hidden layers, then the values of the actions."""

    def __init__(self, n_inputs: int, n_actions: int, config: DQNConfig, torso: Torso | None = None) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.is_dueling = config.dueling
        self.torso = torso
        self.state = Linear(n_inputs if torso is None else torso.features, hidden)
        self.trunk = Linear(hidden, hidden)
        self.heads = Linear(hidden, n_actions + config.dueling)  # dueling: column 0 is the value of the state

    def forward(self, states_BD: Tensor) -> Tensor:
        """Values of the actions, (B, A)."""
        return self.values_of(states_BD if self.torso is None else self.torso(states_BD))

    def values_of(self, features_BF: Tensor) -> Tensor:
        """Values of the actions, (B, A), from what the torso makes of the states."""
        heads = self.heads(torch.relu(self.trunk(torch.relu(self.state(features_BF)))))
        if not self.is_dueling:
            return heads
        value_B1, advantage_BA = heads[..., :1], heads[..., 1:]
        return value_B1 + advantage_BA - advantage_BA.mean(dim=-1, keepdim=True)
