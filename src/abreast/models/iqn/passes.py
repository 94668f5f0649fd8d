"""The passes of an IQN update through its networks, forward and backward, written out.

Automatic differentiation keeps every intermediate result in memory of its own, computes quantiles of actions nobody took,
and masks, adds and copies where it need not; of an update of 13 ms, 8 are products. Here the same products write into memory
that is used again and again, by all models of a thread. (Figures: benchmarks/README.md. `IQNNetwork.forward` is the
definition; a test holds the two equal.)

A batch is cut into parts, and the gradient into blocks of parameters, always in the same way: so they can be computed by
several threads, with the same bits.

Shapes: B batch, K quantiles, R = B * K rows, D inputs, C cosines, H hidden, A actions.
"""

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from abreast.errors import ModelError
from abreast.models.crew import Crew
from abreast.models.flat import FlatParameters
from abreast.models.iqn.network import IQNNetwork
from abreast.models.masks import among_legal

PARTED_FROM = 2**17
"""Numbers in a layer's output (R * H) from which on a batch is cut in two: below, the calls cost more than they share."""
_of_thread = threading.local()


class Weights(NamedTuple):
    """The weights of a network with their noise."""

    state_HD: Tensor
    state_bias: Tensor
    fraction_HC: Tensor
    fraction_bias: Tensor
    trunk_HH: Tensor
    trunk_bias: Tensor
    dueling_QH: Tensor
    """Q: the value of the state, then A advantages."""
    dueling_bias: Tensor


class Question(NamedTuple):
    """What is asked of a network: which fractions, in which states; of the actions that are legal there (None: all)."""

    states_BD: Tensor
    fractions_BK: Tensor
    legal_BA: Tensor | None = None

    def part(self, rows: slice) -> "Question":
        """Some rows of it."""
        legal_BA = None if self.legal_BA is None else self.legal_BA[rows]
        return Question(self.states_BD[rows], self.fractions_BK[rows], legal_BA)


class Scratch:
    """The intermediate results of one forward pass, for the backward pass after it."""

    def __init__(self, rows: int, hidden: int, cosines: int, dtype: torch.dtype, device: str) -> None:
        def empty(width: int) -> Tensor:
            return torch.empty(rows, width, dtype=dtype, device=device)

        self.cosines_RC = empty(cosines)
        self.embedded_RH, self.mixed_RH, self.features_RH = empty(hidden), empty(hidden), empty(hidden)
        self.first_RH, self.second_RH = empty(hidden), empty(hidden)
        self.gradient: Tensor | None = None
        self.serial = 0
        """Forward passes so far."""


def scratch_for(*shape: Any) -> Scratch:
    """Memory of this shape, the same for all models of a thread."""
    kept: dict[Any, Scratch] = vars(_of_thread).setdefault("kept", {})
    if shape not in kept:
        kept.clear()  # agents of several shapes are rare, and memory is not free
        kept[shape] = Scratch(*shape)
    return kept[shape]


def weights_of(network: IQNNetwork, dtype: torch.dtype) -> Weights:
    """The weights of a network, with the noise of its last draw."""
    assert network.trunk.noisy is not None and network.dueling.noisy is not None, "draw_noise comes first"
    state, fraction = network.state, network.fraction
    found = (state.weight, state.bias, fraction.weight, fraction.bias, *network.trunk.noisy, *network.dueling.noisy)
    return Weights(*(each.detach().to(dtype) for each in found))


class Passes:
    """The passes of one update: `forward`, then `backward`, from the slope of the loss."""

    def __init__(self, online: IQNNetwork, target: IQNNetwork, dtype: torch.dtype, crew: Crew) -> None:
        self._online_network, self._frequencies_C, self._crew = online, online.frequencies, crew
        self._online, self._target, self._dtype = weights_of(online, dtype), weights_of(target, dtype), dtype

    @torch.no_grad()
    def forward(
        self, now: Question, actions_B: Tensor, then: Question, embedded_midpoints_MH: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Quantiles (B, K) of the actions taken; and those that the target network gives the best actions after them."""
        batch, quantiles = now.fractions_BK.shape
        hidden = len(self._online.trunk_bias)
        shape = (batch * quantiles, hidden, len(self._frequencies_C), self._dtype, str(now.states_BD.device))
        self._scratch = scratch_for(*shape)
        self._scratch.serial += 1
        self._serial, self._quantiles = self._scratch.serial, quantiles
        half = -(-batch // 2) if batch * quantiles * hidden >= PARTED_FROM else batch
        self._parts = [slice(start, min(start + half, batch)) for start in range(0, batch, half)]
        self._states_BD = now.states_BD.to(self._dtype)
        self._hidden_BH = torch.empty(batch, hidden, dtype=self._dtype, device=now.states_BD.device)
        self._picked_BQ = self._picked(actions_B)
        midpoints_MH = embedded_midpoints_MH.to(self._dtype)
        estimated_BK, next_BK = torch.empty_like(now.fractions_BK), torch.empty_like(now.fractions_BK)

        def part_of_both(part: slice) -> None:
            next_BK[part] = self._next_quantiles(part, then.part(part), midpoints_MH)
            estimated_BK[part] = self._quantiles_taken(part, now.fractions_BK[part])

        self._crew.run([lambda part=part: part_of_both(part) for part in self._parts])  # type: ignore[misc]
        return estimated_BK, next_BK

    def _rows(self, part: slice) -> slice:
        return slice(part.start * self._quantiles, part.stop * self._quantiles)

    def _picked(self, actions_B: Tensor) -> Tensor:
        """What the quantiles of an action are made of: the value, and its advantage less the mean of all."""
        actions = len(self._online.dueling_bias) - 1
        picked_BQ = torch.full((len(actions_B), 1 + actions), -1.0 / actions, device=actions_B.device)
        picked_BQ[:, 0] = 1.0
        picked_BQ.scatter_add_(1, (actions_B + 1)[:, None], torch.ones_like(picked_BQ[:, :1]))
        return picked_BQ.to(self._dtype)

    def _next_quantiles(self, part: slice, then: Question, midpoints_MH: Tensor) -> Tensor:
        """Of the actions that the online network prefers, the quantiles that the target network gives."""
        scratch, rows, online = self._scratch, self._rows(part), self._online
        states_BD = then.states_BD.to(self._dtype)
        hidden_BH = torch.addmm(online.state_bias, states_BD, online.state_HD.t()).relu_()
        mixed_BMH = hidden_BH[:, None] * midpoints_MH
        features_RH = torch.addmm(online.trunk_bias, mixed_BMH.flatten(0, 1), online.trunk_HH.t()).relu_()
        mean_BH = features_RH.view_as(mixed_BMH).mean(dim=1)
        advantages_BA = torch.addmm(online.dueling_bias[1:], mean_BH, online.dueling_QH[1:].t())
        picked_BQ = self._picked(among_legal(advantages_BA, then.legal_BA).argmax(dim=1))
        target = self._target
        hidden_BH = torch.addmm(target.state_bias, states_BD, target.state_HD.t()).relu_()
        mixed_RH = self._embed(target, then.fractions_BK, scratch.cosines_RC[rows], scratch.first_RH[rows])
        mixed_RH.view(len(hidden_BH), -1, mixed_RH.shape[1]).mul_(hidden_BH[:, None])
        features_RH = torch.addmm(target.trunk_bias, mixed_RH, target.trunk_HH.t(), out=scratch.second_RH[rows]).relu_()
        return _of_actions(target, features_RH, picked_BQ)

    def _quantiles_taken(self, part: slice, fractions_BK: Tensor) -> Tensor:
        """The quantiles of the actions taken, by the online network."""
        scratch, rows, online = self._scratch, self._rows(part), self._online
        hidden_BH = self._hidden_BH[part]
        torch.addmm(online.state_bias, self._states_BD[part], online.state_HD.t(), out=hidden_BH).relu_()
        embedded_RH = self._embed(online, fractions_BK, scratch.cosines_RC[rows], scratch.embedded_RH[rows])
        mixed_RH, by_state = scratch.mixed_RH[rows], (len(hidden_BH), -1, embedded_RH.shape[1])
        torch.mul(embedded_RH.view(by_state), hidden_BH[:, None], out=mixed_RH.view(by_state))
        features_RH = torch.addmm(
            online.trunk_bias, mixed_RH, online.trunk_HH.t(), out=scratch.features_RH[rows]
        ).relu_()
        return _of_actions(online, features_RH, self._picked_BQ[part])

    def _embed(self, weights: Weights, fractions_BK: Tensor, cosines_RC: Tensor, out_RH: Tensor) -> Tensor:
        if self._dtype == torch.float32:
            torch.mul(fractions_BK.reshape(-1, 1), self._frequencies_C, out=cosines_RC).cos_()
        else:  # the angles need all their digits
            cosines_RC.copy_((fractions_BK.reshape(-1, 1) * self._frequencies_C).cos_())
        return torch.addmm(weights.fraction_bias, cosines_RC, weights.fraction_HC.t(), out=out_RH).relu_()

    @torch.no_grad()
    def backward(self, slope_BK: Tensor, block: FlatParameters) -> None:
        """Add to a block's gradients what follows from the slope of the loss in the quantiles of the actions taken."""
        scratch, online, dtype = self._scratch, self._online, self._dtype
        if scratch.serial != self._serial:
            raise ModelError(
                "another loss was computed before this one went backward: let each `loss` be followed by its `descend`."
            )
        slope_BK1 = slope_BK.to(dtype)[:, :, None]
        hidden = len(online.trunk_bias)
        slope_RQ = (slope_BK1 * self._picked_BQ[:, None]).flatten(0, 1)
        before_trunk_RH, before_embedding_RH = scratch.first_RH, scratch.second_RH
        before_state_BH = torch.empty_like(self._hidden_BH)

        def back(part: slice) -> None:
            rows, by_state = self._rows(part), (part.stop - part.start, -1, hidden)
            slope_RH = torch.mm(slope_RQ[rows], online.dueling_QH, out=before_trunk_RH[rows])
            _where_positive(slope_RH, scratch.features_RH[rows])
            mixed_RH = torch.mm(slope_RH, online.trunk_HH, out=before_embedding_RH[rows])
            embedded_RH, hidden_BH = scratch.embedded_RH[rows], self._hidden_BH[part]
            torch.sum((mixed_RH * embedded_RH).view(by_state), dim=1, out=before_state_BH[part])
            _where_positive(before_state_BH[part], hidden_BH)
            mixed_RH.view(by_state).mul_(hidden_BH[:, None])
            _where_positive(mixed_RH, embedded_RH)

        self._crew.run([lambda part=part: back(part) for part in self._parts])  # type: ignore[misc]
        if scratch.gradient is None or scratch.gradient.shape != block.gradients.shape:
            scratch.gradient = torch.zeros_like(block.gradients)
        into, middle = block.views(scratch.gradient), hidden // 2
        trunk, dueling = self._online_network.trunk, self._online_network.dueling

        def trunk_weights(outputs: slice) -> None:
            _product(before_trunk_RH[:, outputs].t(), scratch.mixed_RH, into["trunk.weight"][outputs])
            torch.mul(
                into["trunk.weight"][outputs], trunk.weight_draw[outputs], out=into["trunk.weight_noise"][outputs]
            )

        def fraction_weights() -> None:
            _product(before_embedding_RH.t(), scratch.cosines_RC, into["fraction.weight"])
            into["fraction.bias"].copy_(before_embedding_RH.sum(dim=0))
            into["trunk.bias"].copy_(before_trunk_RH.sum(dim=0))
            torch.mul(into["trunk.bias"], trunk.bias_draw, out=into["trunk.bias_noise"])

        def other_weights() -> None:
            _product(before_state_BH.t(), self._states_BD, into["state.weight"])
            into["state.bias"].copy_(before_state_BH.sum(dim=0))
            _product(slope_RQ.t(), scratch.features_RH, into["dueling.weight"])
            torch.mul(into["dueling.weight"], dueling.weight_draw, out=into["dueling.weight_noise"])
            into["dueling.bias"].copy_(slope_RQ.sum(dim=0))
            torch.mul(into["dueling.bias"], dueling.bias_draw, out=into["dueling.bias_noise"])

        halves = [slice(0, middle), slice(middle, hidden)] if len(self._parts) > 1 else [slice(0, hidden)]
        tasks: list[Callable[[], None]] = [lambda half=half: trunk_weights(half) for half in halves]  # type: ignore[misc]
        self._crew.run([*tasks, fraction_weights, other_weights])
        block.gradients.add_(scratch.gradient)


class Estimate(torch.autograd.Function):
    """Quantiles that were computed by `Passes.forward`, as something a loss can be made of."""

    @staticmethod
    def forward(context: Any, values: Tensor, quantiles_BK: Tensor, backward: Callable[[Tensor], None]) -> Tensor:
        context.go_back = backward
        return quantiles_BK.clone()

    @staticmethod
    def backward(context: Any, slope_BK: Tensor) -> tuple[None, None, None]:
        context.go_back(slope_BK)
        return None, None, None


def _of_actions(weights: Weights, features_RH: Tensor, picked_BQ: Tensor) -> Tensor:
    """The quantiles (B, K) that the picked actions have in the last layer."""
    all_RQ = torch.addmm(weights.dueling_bias, features_RH, weights.dueling_QH.t())
    return (all_RQ.view(len(picked_BQ), -1, picked_BQ.shape[1]) * picked_BQ[:, None]).sum(dim=2)


def _where_positive(slope: Tensor, output: Tensor) -> None:
    """Back through a rectifier: nothing where its output was 0."""
    torch.ops.aten.threshold_backward.grad_input(slope, output, 0, grad_input=slope)


def _product(left: Tensor, right: Tensor, out: Tensor) -> None:
    if left.dtype == out.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left @ right)
