"""DQN: how it chooses and what it descends."""

from collections.abc import Mapping

import torch
from torch import Tensor

from abreast.models.base import shipped
from abreast.models.dqn.config import DQNConfig
from abreast.models.dqn.loss import value_loss
from abreast.models.dqn.network import DQNNetwork
from abreast.models.figures import Figures
from abreast.models.layers import initialise_all
from abreast.models.masks import among_legal
from abreast.models.tensors import Tensors
from abreast.models.torsos import LSTM
from abreast.models.value_model import ValueModel
from abreast.replay import Batch


@shipped
class DQN(ValueModel):
    """Deep Q-network with n-step returns; double-Q targets and dueling heads unless switched off."""

    Config = DQNConfig
    ALGORITHM = "dqn"
    NETWORK = DQNNetwork
    config: DQNConfig
    online: DQNNetwork
    target: DQNNetwork
    policy: DQNNetwork

    def make_network(self) -> DQNNetwork:
        return DQNNetwork(self.input_size, self.n_actions, self.config, self.make_torso())

    def initialise(self, network: DQNNetwork) -> None:  # type: ignore[override]
        initialise_all((network.torso, network.state, network.trunk, network.heads), self.learning_generator)

    def evaluate(self, frames: Tensor) -> Tensor:
        return self.policy(frames)

    def evaluate_with_memory(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.policy.torso, LSTM)
        features, memory = self.policy.torso.unroll(rows)
        return self.policy.values_of(features), memory

    def loss(self, batch: Batch) -> Tensor | Figures:
        return self.loss_of(self.online, self.target, self.tensors_of(batch), {})

    def loss_of(
        self, online: DQNNetwork, target: DQNNetwork, batch: Tensors, drawn: Mapping[str, Tensor]
    ) -> Tensor | Figures:
        with torch.no_grad():
            next_BA = target(batch.next_states)
            chooser_BA = online(batch.next_states) if self.config.double else next_BA
            best_B1 = among_legal(chooser_BA, batch.legal_next).argmax(dim=-1, keepdim=True)
            next_B = next_BA.gather(-1, best_B1).squeeze(-1)
            target_B = batch.rewards + batch.discounts * next_B
        estimate_B = online(batch.states).gather(-1, batch.actions[..., None]).squeeze(-1)
        return {
            "loss": value_loss(estimate_B, target_B, batch.weights),
            "mean_value": (estimate_B.detach() * batch.weights).sum(dim=-1),
        }
