"""SAC: how it chooses and what it descends."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from abreast.models.base import shipped
from abreast.models.draws import Draw
from abreast.models.figures import Figures
from abreast.models.gaussian import squashed
from abreast.models.layers import initialise_all
from abreast.models.network_model import NetworkModel
from abreast.models.sac.config import SACConfig
from abreast.models.sac.loss import critic_loss, policy_loss, temperature_loss
from abreast.models.sac.network import SACNetwork
from abreast.models.tensors import Tensors
from abreast.models.torsos import LSTM
from abreast.models.value_model import ValueModel
from abreast.replay import Batch


@shipped
class SAC(ValueModel):
    """Soft actor-critic, for continuous actions: tanh of a Gaussian, so that all that is chosen lies within the bounds.

    Policy, critics and temperature descend in one step of Adam: their losses have no weight in common, because the policy's
    holds the critics still and the critics' target is computed without a gradient.
    """

    Config = SACConfig
    ALGORITHM = "sac"
    NETWORK = SACNetwork
    ACTIONS = frozenset({"continuous"})
    DECIDED_EXTRAS = None
    EVALUATION = "explore"
    TORSOS = 2
    config: SACConfig
    online: SACNetwork
    target: SACNetwork
    policy: SACNetwork

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        super().setup(learning, more)
        self.epsilon = 0.0

    def make_network(self) -> SACNetwork:
        return SACNetwork(self.input_size, self.n_actions, self.config, self.make_torso(0), self.make_torso(1))

    def initialise(self, network: SACNetwork) -> None:  # type: ignore[override]
        critics = [layer for critic in network.critics for layer in critic.children()]
        layers = (network.policy_state, network.policy_trunk, *critics)
        initialise_all((network.policy_torso, network.critic_torso, *layers), self.learning_generator)
        network.policy_head.initialise(self.learning_generator, gain=0.01)  # begin undecided: means 0, spreads 1
        network.log_alpha.data.fill_(math.log(self.config.alpha))

    def evaluate(self, frames: Tensor) -> Tensor:
        return self.policy.policy(frames)

    def evaluate_with_memory(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.policy.policy_torso, LSTM) and isinstance(self.policy.critic_torso, LSTM)
        features, memory = self.policy.policy_torso.unroll(rows)
        _, of_critics = self.policy.critic_torso.unroll(rows)  # whose memory learning begins with
        return self.policy.policy_of(features), torch.cat([memory, of_critics], dim=1)

    def _tried(self, frames: Tensor) -> Tensor:
        return self.evaluate(frames)[:, : self.n_actions]

    def choose(self, frames: Tensor, lanes: Sequence[int]) -> list[Any]:
        return NetworkModel.choose(self, frames, lanes)

    def decide(self, evaluated: Tensor, lanes: Sequence[int]) -> list[Any]:
        if self.is_greedy:
            return list(torch.tanh(evaluated[:, : self.n_actions]).numpy())
        noise_BA = torch.from_numpy(self.streams.vectors(lanes, self.n_actions))
        uniform_BA = torch.erf(noise_BA / math.sqrt(2))  # from -1 to 1
        return list((uniform_BA if self.epsilon == 1 else squashed(evaluated, noise_BA)[0]).numpy())

    def epsilon_decay(self, rate: float) -> None:
        """SAC explores by its own policy."""

    # ---- learning

    @property
    def target_entropy(self) -> float:
        """The entropy that the temperature is learned for."""
        given = self.config.target_entropy
        return -float(self.n_actions) if given is None else given

    def draws(self, rows: int) -> dict[str, Draw]:
        return {name: Draw((rows, self.n_actions), is_normal=True) for name in ("noise", "next_noise")}

    def loss(self, batch: Batch) -> Tensor | Figures:
        return self.loss_of(self.online, self.target, self.tensors_of(batch), self.drawn(len(batch.rewards)))

    def loss_of(
        self, online: SACNetwork, target: SACNetwork, batch: Tensors, drawn: Mapping[str, Tensor]
    ) -> Tensor | Figures:
        alpha = online.log_alpha.detach().exp()
        with torch.no_grad():
            next_BA, next_log_B = squashed(online.policy(batch.next_states), drawn["next_noise"])
            next_B = torch.minimum(*target.values(target.features(batch.next_states), next_BA)) - alpha * next_log_B
            target_B = batch.rewards + batch.discounts * next_B
        features_BF = online.features(batch.states)
        values_CB = online.values(features_BF, batch.actions)
        chosen_BA, log_B = squashed(online.policy(batch.states), drawn["noise"])
        chosen_B = torch.minimum(*online.values(features_BF, chosen_BA, learns=False))
        critic = critic_loss(values_CB, target_B, batch.weights)
        policy = policy_loss(log_B, chosen_B, alpha, batch.weights)
        temperature = temperature_loss(online.log_alpha, log_B.detach(), self.target_entropy, batch.weights)
        return {
            "loss": critic + policy + temperature,
            "mean_value": (values_CB[0].detach() * batch.weights).sum(dim=-1),
            "entropy": -(log_B.detach() * batch.weights).sum(dim=-1),
            "alpha": alpha.squeeze(-1),
            "policy_loss": policy,
            "value_loss": critic,
        }
