"""The networks of SAC: a policy and two critics. Shapes: B batch, D inputs, A numbers of an action, F features."""

import torch
from torch import Tensor, nn

from abreast.models.layers import Linear, affine
from abreast.models.sac.config import SACConfig
from abreast.models.torsos import Torso

LOG_STD = -5.0, 2.0
"""The logarithm of a spread is kept between these."""


class Critic(nn.Module):
    """The value of an action in a state."""

    def __init__(self, n_inputs: int, hidden: int) -> None:
        super().__init__()
        self.state = Linear(n_inputs, hidden)
        self.trunk = Linear(hidden, hidden)
        self.head = Linear(hidden, 1)

    def forward(self, inputs: Tensor, learns: bool = True) -> Tensor:
        """Values, (B,). Unless it `learns`, a loss of them changes what led to the inputs, but not the critic."""
        for layer in (self.state, self.trunk, self.head):
            weight, bias = (each if learns else each.detach() for each in (layer.weight, layer.bias))
            inputs = affine(inputs, weight, bias)
            if layer is not self.head:
                inputs = torch.relu(inputs)
        return inputs.squeeze(-1)


class SACNetwork(nn.Module):
    """Policy, critics and temperature: one block of weights. The critics share a torso, if there is one."""

    def __init__(
        self,
        n_inputs: int,
        n_actions: int,
        config: SACConfig,
        policy_torso: Torso | None = None,
        critic_torso: Torso | None = None,
    ) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.policy_torso, self.critic_torso = policy_torso, critic_torso
        n_inputs = n_inputs if policy_torso is None else policy_torso.features
        self.policy_state = Linear(n_inputs, hidden)
        self.policy_trunk = Linear(hidden, hidden)
        self.policy_head = Linear(hidden, 2 * n_actions)
        self.critics = nn.ModuleList([Critic(n_inputs + n_actions, hidden) for _ in range(2)])
        self.log_alpha = nn.Parameter(torch.empty(1))

    def policy(self, states_BD: Tensor) -> Tensor:
        """Means and logarithms of the spreads of the numbers of an action, before tanh: (B, 2A)."""
        return self.policy_of(states_BD if self.policy_torso is None else self.policy_torso(states_BD))

    def policy_of(self, features_BF: Tensor) -> Tensor:
        """The same from what the policy's torso makes of the states."""
        heads = self.policy_head(torch.relu(self.policy_trunk(torch.relu(self.policy_state(features_BF)))))
        means_BA, log_std_BA = heads.chunk(2, dim=-1)
        return torch.cat([means_BA, log_std_BA.clamp(*LOG_STD)], dim=-1)

    def features(self, states_BD: Tensor) -> Tensor:
        """What the critics see of the states."""
        return states_BD if self.critic_torso is None else self.critic_torso(states_BD)

    def values(self, features_BF: Tensor, actions_BA: Tensor, learns: bool = True) -> tuple[Tensor, Tensor]:
        """What each critic says of these actions, (B,)."""
        inputs = torch.cat([features_BF if learns else features_BF.detach(), actions_BA], dim=-1)
        first, second = self.critics
        return first(inputs, learns), second(inputs, learns)
