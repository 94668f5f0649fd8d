"""The networks of PPO: chances of the actions, and the value of the state.

Shapes: B batch, D inputs, A actions; of continuous ones, the numbers of an action.
"""

import torch
from torch import Tensor, nn

from abreast.models.layers import Linear
from abreast.models.ppo.config import PPOConfig
from abreast.models.torsos import Torso

LOG_STD = -0.5
"""The logarithm of the spread of continuous actions at first, in units in which their bounds are -1 and 1."""


class PPONetwork(nn.Module):
    """Policy and value share no layer: large returns would otherwise drown the policy's gradient in the value's."""

    def __init__(
        self,
        n_inputs: int,
        n_actions: int,
        config: PPOConfig,
        policy_torso: Torso | None = None,
        value_torso: Torso | None = None,
        is_continuous: bool = False,
    ) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.policy_torso, self.value_torso = policy_torso, value_torso
        n_inputs = n_inputs if policy_torso is None else policy_torso.features
        self.policy_state = Linear(n_inputs, hidden)
        self.policy_trunk = Linear(hidden, hidden)
        self.policy_head = Linear(hidden, n_actions)
        self.value_state = Linear(n_inputs, hidden)
        self.value_trunk = Linear(hidden, hidden)
        self.value_head = Linear(hidden, 1)
        if is_continuous:
            self.log_std = nn.Parameter(torch.empty(n_actions))

    def log_chances(self, states_BD: Tensor) -> Tensor:
        """Logarithms of the chances of the actions, (B, A)."""
        return self.log_chances_of(states_BD if self.policy_torso is None else self.policy_torso(states_BD))

    def log_chances_of(self, features_BF: Tensor) -> Tensor:
        """The same from what the policy's torso makes of the states."""
        return torch.log_softmax(self.means_of(features_BF), dim=-1)

    def means(self, states_BD: Tensor) -> Tensor:
        """Means of the numbers of continuous actions, (B, A)."""
        return self.means_of(states_BD if self.policy_torso is None else self.policy_torso(states_BD))

    def means_of(self, features_BF: Tensor) -> Tensor:
        """The same from what the policy's torso makes of the states."""
        return self.policy_head(torch.tanh(self.policy_trunk(torch.tanh(self.policy_state(features_BF)))))

    def values(self, states_BD: Tensor) -> Tensor:
        """Values of the states, (B,)."""
        seen = states_BD if self.value_torso is None else self.value_torso(states_BD)
        features = torch.tanh(self.value_trunk(torch.tanh(self.value_state(seen))))
        return self.value_head(features).squeeze(-1)
