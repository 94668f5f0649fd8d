"""The network of DQN: one value per action. Shapes: B batch, D inputs, A actions."""

import torch
from torch import Tensor, nn

from abreast.models.dqn.config import DQNConfig
from abreast.models.layers import Linear


class DQNNetwork(nn.Module):
    """Two hidden layers, then the values of the actions."""

    def __init__(self, n_inputs: int, n_actions: int, config: DQNConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.is_dueling = config.dueling
        self.state = Linear(n_inputs, hidden)
        self.trunk = Linear(hidden, hidden)
        self.heads = Linear(hidden, n_actions + config.dueling)  # dueling: column 0 is the value of the state

    def forward(self, states_BD: Tensor) -> Tensor:
        """Values of the actions, (B, A)."""
        heads: Tensor = self.heads(torch.relu(self.trunk(torch.relu(self.state(states_BD)))))
        if not self.is_dueling:
            return heads
        value_B1, advantage_BA = heads[..., :1], heads[..., 1:]
        return value_B1 + advantage_BA - advantage_BA.mean(dim=-1, keepdim=True)
