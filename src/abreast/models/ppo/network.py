"""The networks of PPO: chances of the actions, and the value of the state. Shapes: B batch, D inputs, A actions."""

import torch
from torch import Tensor, nn

from abreast.models.layers import Linear
from abreast.models.ppo.config import PPOConfig


class PPONetwork(nn.Module):
    """Policy and value share no layer: large returns would otherwise drown the policy's gradient in the value's."""

    def __init__(self, n_inputs: int, n_actions: int, config: PPOConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.policy_state = Linear(n_inputs, hidden)
        self.policy_trunk = Linear(hidden, hidden)
        self.policy_head = Linear(hidden, n_actions)
        self.value_state = Linear(n_inputs, hidden)
        self.value_trunk = Linear(hidden, hidden)
        self.value_head = Linear(hidden, 1)

    def log_chances(self, states_BD: Tensor) -> Tensor:
        """Logarithms of the chances of the actions, (B, A)."""
        features = torch.tanh(self.policy_trunk(torch.tanh(self.policy_state(states_BD))))
        return torch.log_softmax(self.policy_head(features), dim=-1)

    def values(self, states_BD: Tensor) -> Tensor:
        """Values of the states, (B,)."""
        features = torch.tanh(self.value_trunk(torch.tanh(self.value_state(states_BD))))
        values: Tensor = self.value_head(features).squeeze(1)
        return values
