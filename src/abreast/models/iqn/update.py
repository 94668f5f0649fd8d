"""IQN: how it chooses and what it descends."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from abreast.models.base import shipped
from abreast.models.draws import Draw
from abreast.models.figures import Figures
from abreast.models.iqn.config import IQNConfig
from abreast.models.iqn.loss import quantile_huber_loss
from abreast.models.iqn.network import IQNNetwork
from abreast.models.layers import NoisyLinear, initialise_all, noisy_layers
from abreast.models.masks import among_legal
from abreast.models.tensors import Tensors
from abreast.models.value_model import ValueModel
from abreast.replay import Batch


@shipped
class IQN(ValueModel):
    """Implicit quantile network with double-Q targets, dueling heads, noisy layers and n-step returns.

    Two decisions about noise and fractions keep an action cheap. Noise for choosing is drawn once an epoch, not once an
    action: exploration is then consistent within an episode. And the value of an action is its mean over the midpoints of
    `choosing_quantiles` equal slices, not over random fractions: less variance, and they are embedded once an epoch.
    """

    Config = IQNConfig
    ALGORITHM = "iqn"
    NETWORK = IQNNetwork
    config: IQNConfig
    online: IQNNetwork
    target: IQNNetwork
    policy: IQNNetwork
    KNOWN = ValueModel.KNOWN | {"midpoints", "_midpoints_there", "_embedded_midpoints", "_in_place"}

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        super().setup(learning, more)
        self.midpoints = (torch.arange(self.config.choosing_quantiles) + 0.5) / self.config.choosing_quantiles
        self._midpoints_there = self.midpoints.to(self.device)
        self._embedded_midpoints: Tensor | None = None
        self._in_place: dict[str, Tensor] = {}
        """What choosing makes once an epoch, in the same memory in every epoch."""

    def make_network(self) -> IQNNetwork:
        return IQNNetwork(self.input_size, self.n_actions, self.config, self.make_torso())

    def initialise(self, network: IQNNetwork) -> None:  # type: ignore[override]
        initialise_all(
            (network.torso, network.state, network.fraction, network.trunk, network.dueling), self.learning_generator
        )

    @property
    def gains_by_stacking(self) -> bool:
        return self.device != "cpu"  # where its products take longer than calls

    def _renew_policy(self) -> None:
        super()._renew_policy()
        with torch.inference_mode():
            if self.is_greedy:
                self.policy.leave_out_noise()
            else:
                self.policy.draw_noise(torch.Generator(self.chooses_on).manual_seed(self.streams.seed_of_pass()))
            self._keep_in_place(self.policy.embed(self.midpoints))

    def _keep_in_place(self, embedded: Tensor) -> None:
        """Put what was made for this epoch where that of the epoch before was: a recorded turn refers to it."""
        self._embedded_midpoints = self._put("embedded", embedded)
        for number, layer in enumerate(noisy_layers(self.policy)):
            if type(layer) is NoisyLinear and layer.noisy is not None:  # a user's may do otherwise
                weight, bias = layer.noisy
                layer.noisy = self._put(f"weight{number}", weight), self._put(f"bias{number}", bias)

    def _put(self, name: str, value: Tensor) -> Tensor:
        there = self._in_place.get(name)
        if there is None or (there.shape, there.device) != (value.shape, value.device):
            there = self._in_place[name] = torch.empty_like(value)
        return there.copy_(value)

    def choose_on(self, device: str) -> None:
        super().choose_on(device)
        self.midpoints = self.midpoints.to(device)

    def choosing_tensors(self) -> list[Tensor]:
        return [*super().choosing_tensors(), *self._in_place.values()]

    def evaluate(self, frames: Tensor) -> Tensor:
        assert self._embedded_midpoints is not None, "start_epoch_action comes before the first action"
        return self.policy.preferences(frames, self._embedded_midpoints)

    def _tried(self, frames: Tensor) -> Tensor:
        self.policy.leave_out_noise()
        self._embedded_midpoints = self.policy.embed(self.midpoints)
        return super()._tried(frames)

    def stacked(self, network: nn.Module, models: Sequence["IQN"]) -> Self:
        twin = super().stacked(network, models)
        twin._embedded_midpoints = torch.stack(
            [model._embedded_midpoints for model in models if model._embedded_midpoints is not None]
        )
        return twin

    def loss(self, batch: Batch) -> Tensor | Figures:
        tensors = self.tensors_of(batch)
        drawn = self.drawn(len(tensors.actions))
        if "noise" not in drawn:
            self.online.draw_noise(self.learning_generator)
            with torch.no_grad():
                self.target.draw_noise(self.learning_generator)
        return self.loss_of(self.online, self.target, tensors, drawn)

    def draws(self, rows: int) -> dict[str, Draw]:
        fractions = Draw((2, rows, self.config.n_quantiles), is_normal=False)
        if not self.online.has_plain_noise:
            return {"fractions": fractions}
        return {"fractions": fractions, "noise": Draw((2, self.online.noise_size), is_normal=True)}

    def loss_of(
        self, online: IQNNetwork, target: IQNNetwork, batch: Tensors, drawn: Mapping[str, Tensor]
    ) -> Tensor | Figures:
        """(Without noise in `drawn`, the networks have drawn their own.)"""
        fractions_BK, next_fractions_BJ = drawn["fractions"].unbind(-3)
        if "noise" in drawn:
            online.take_noise(drawn["noise"].select(-2, 0))
        with torch.no_grad():
            if "noise" in drawn:
                target.take_noise(drawn["noise"].select(-2, 1))
            midpoints = self._midpoints_there.expand(*fractions_BK.shape[:-2], -1)
            with self._products():
                preferences_BA = online.preferences(batch.next_states, online.embed(midpoints))
                best_B = among_legal(preferences_BA, batch.legal_next).argmax(dim=-1)
                next_BJ = target.quantiles_of(batch.next_states, target.embed(next_fractions_BJ), best_B)
        with self._products():
            estimate_BK = online.quantiles_of(batch.states, online.embed(fractions_BK), batch.actions)
        estimate_BK, next_BJ = estimate_BK.float(), next_BJ.float()
        target_BJ = batch.rewards[..., None] + batch.discounts[..., None] * next_BJ
        return {
            "loss": quantile_huber_loss(estimate_BK, fractions_BK, target_BJ, batch.weights, self.config.kappa),
            "mean_value": (estimate_BK.detach().mean(dim=-1) * batch.weights).sum(dim=-1),
        }

    def _products(self) -> AbstractContextManager[Any]:
        """Inside, products are computed in `config.precision`."""
        if self.config.precision == "float32":
            return nullcontext()
        return torch.autocast(torch.device(self.device).type, torch.bfloat16, cache_enabled=False)
