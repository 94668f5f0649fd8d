"""Several models that learn in one stacked update: the same N independent results, from products over all agents at once.

    model 0   online, gradient, moments, target  ┐
    model 1   …                                  ├─ rows of one block each, (N, parameters)
    …                                            ┘

The models stay what they are: their blocks are moved into rows of the stack's, so publishing, saving and restoring them
works as before. What one of them draws comes from its own streams, in the order in which it would draw alone. On a GPU a
gradient step is recorded as a CUDA graph. (What it gains, and where: benchmarks/README.md.)
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from abreast.errors import ModelError
from abreast.models.base import BaseModel
from abreast.models.figures import Figures, figures_with_loss, mean, named_figures
from abreast.models.flat import BETAS, EPSILON, FlatParameters
from abreast.models.network_model import NetworkModel

Beat = Callable[[], None]
FUSED_FROM = 7_000_000
"""Parameters of all models, from which on the fused kernel of Adam is faster on a GPU: of fewer it makes too few pieces for
that many cores (benchmarks/README.md)."""
FEWEST_ON_CPU = 3
"""Models from which on a stacked update is faster on a CPU."""
TRIALS, MODELS_TRIED = 3, 8
"""Random batches, and models of a stack, for which a stacked step is compared with single ones (`has_same_bits`)."""
ROUNDING = 1e-3
"""Largest difference of metrics and gradients that rounding explains, for weights and rows of about 1."""
_SAME_BITS: dict[Any, bool] = {}
"""Results of `has_same_bits`, by learning key, number of models, and rows."""


class LearnerStack(ABC):
    """Models that learn together. They are alike: `learning_key` is the same."""

    STANDS_FOR: ClassVar[tuple[str, ...]] = ("train_step", "gradient_step", "descend", "make_network")
    """Methods of the models that it does not call, or only of the first one: who has another learns alone."""
    NETWORKS: ClassVar[tuple[str, ...]] = ("online",)
    """Attributes of stack and model that hold the networks which `loss_of` takes, in the order of its arguments."""

    def __init__(self, models: Sequence[Any]) -> None:
        self.models: Sequence[NetworkModel] = models
        first = self.first = models[0]
        self.device = first.device
        names, size = list(first.blocks()), len(first.online_block)
        self.blocks = {name: torch.zeros(len(models), size, device=self.device) for name in names}
        self.gradients = torch.zeros(len(models), size, device=self.device)
        for row, model in enumerate(models):
            model.move_learned_to({name: block[row] for name, block in self.blocks.items()}, self.gradients[row])
        self.online = stacked_network(first.make_network(), first.online_block, self.blocks["online"], learns=True)
        self._parameters = [self.online.get_parameter(name) for name in first.online_block.views(self.gradients)]
        self._pads = [self.gradients.new_zeros(len(models), pad) for pad in first.online_block.pads]
        self._of_step = torch.zeros(4, len(models), device=self.device)
        """Per model: the number of the gradient step, the share for the target, and two numbers for Adam."""
        self._rates = [model.optimiser.learning_rate for model in models]
        self._annealed = [model.annealed for model in models]
        self._is_checked = first.replaced_method(["loss_of"]) is None
        """Whether `loss_of` is known to compute the loss of each agent as if it were alone."""
        self._names: list[str] = []
        self._figures_FN = self._unknown_N = torch.full((len(models),), torch.nan, device=self.device)
        """Of a gradient step, by these names, in memory that stays the same; and what stands for one that is not known."""
        self._steps: list[Tensor] = []
        """The figures of each gradient step since `_begin`."""

    @property
    def changed(self) -> list[Tensor]:
        """All that a gradient step changes."""
        return [*self.blocks.values(), self.gradients]

    @abstractmethod
    def train(self, updates: int, beat: Beat) -> list[dict[str, float]] | None:
        """So many updates of each model, as its `train_step` does them; per model, their figures, in the mean. None: now
        they cannot learn together, and nothing has changed.
        """

    @staticmethod
    @abstractmethod
    def random_arguments(first: Any, count: int, rows: int, generator: torch.Generator) -> tuple[Any, ...]:
        """Return random arguments of `loss_of` behind the networks: for `count` models like `first`, `rows` rows each."""

    def loss_of_all(self, *arguments: Any) -> Any:
        """Return what `loss_of` reports for all models at once."""
        first: Any = self.first
        return first.loss_of(*(getattr(self, name) for name in self.NETWORKS), *arguments)

    def check_loss(self, *arguments: Any) -> None:
        """Reject a user-defined `loss_of` that reports other metrics for all models at once than for each (on a CPU, in a
        single bit): what an agent learns would depend on the others.
        """
        if self._is_checked:
            return
        models: Sequence[Any] = self.models
        networks = [[getattr(model, name) for name in self.NETWORKS] for model in models]
        expected = [
            figures_with_loss(model.loss_of(*networks[row], *of_row(arguments, row)), type(model))
            for row, model in enumerate(models)
        ]
        tolerance = 0.0 if self.device == "cpu" else 0.01
        try:
            found = named_figures(self.loss_of_all(*arguments))
            rows = [{name: value[row] for name, value in found.items()} for row in range(len(self.models))]
            torch.testing.assert_close(rows, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        except Exception as error:
            raise ModelError(
                f"{type(self.first).__name__}.loss_of computes otherwise for several agents, stacked, than for each: let it"
                " draw nothing, and sum over the last dimension (dim=-1); or write STACK = None in the class, and each"
                " learns by itself."
            ) from error
        self._is_checked = True

    def _begin(self, steps: int) -> None:
        """So many gradient steps follow, each after a `_next_step`."""
        self._steps = []
        before = np.array([model.optimiser.steps for model in self.models])
        counts_SN = before + np.arange(1, steps + 1)[:, None]
        rates = [model.optimiser.learning_rate for model in self.models]
        annealed = [model.annealed for model in self.models]
        if annealed != self._annealed:
            self._rates, self._annealed = rates, annealed
            self.forget_recorded()
        grown_SN, spread_SN = 1.0 - BETAS[0] ** counts_SN, np.sqrt(1.0 - BETAS[1] ** counts_SN)
        columns = [
            counts_SN,
            self.target_shares(counts_SN),
            grown_SN / (np.array(rates) * spread_SN),
            EPSILON * grown_SN / np.array(rates),
        ]
        self._of_steps = torch.from_numpy(np.stack(columns, axis=1).astype(np.float32)).to(self.device)

    def _next_step(self, step: int) -> None:
        self._of_step.copy_(self._of_steps[step])

    @abstractmethod
    def forget_recorded(self) -> None:
        """Record gradient steps anew: learning rates have changed, which are part of what was recorded."""

    def target_shares(self, counts_SN: NDArray[np.int64]) -> NDArray[np.float64]:
        """Of the online weights in those of the target after each gradient step, if there is a target."""
        return np.zeros(counts_SN.shape)

    def gradient_step(self, reported: Tensor | Figures) -> None:
        """One step of Adam down the gradient of each model's loss, as `NetworkModel.gradient_step` does it; its figures are
        put where they always are.
        """
        figures = figures_with_loss(reported, type(self.first), len(self.models))
        found = torch.autograd.grad(figures["loss"].sum(), self._parameters)
        with torch.no_grad():
            pieces = [piece for slope, pad in zip(found, self._pads, strict=True) for piece in (slope.flatten(1), pad)]
            torch.cat([piece for piece in pieces if piece.shape[1]], dim=1, out=self.gradients)
            norm_N = self._norms()
            self._put_figures({**figures, "gradient_norm": norm_N})
            shrink_N = (self.first.config.gradient_norm / (norm_N + 1e-6)).clamp(max=1.0)
            self.gradients.mul_(shrink_N[:, None])
            if self.device == "cpu" or self.gradients.numel() >= FUSED_FROM:
                self._adam_of_rows()
            else:
                self._adam_of_block()

    def _put_figures(self, figures: Mapping[str, Tensor]) -> None:
        if not self._names:
            self._names = list(figures)
            self._figures_FN = self._unknown_N.expand(len(figures), -1).clone()
        self._figures_FN.copy_(torch.stack([figures.get(name, self._unknown_N).detach() for name in self._names]))

    def note_figures(self) -> None:
        """Keep the figures of a gradient step, on the device."""
        self._steps.append(self._figures_FN.clone())

    def read_figures(self, per_update: int) -> list[dict[str, float]]:
        """Per model, the mean over all updates of the figures that were kept: read from the device all at once, and not made
        into numbers of Python before, which took a twelfth of the time of 256 agents.
        """
        steps_SFN = torch.stack(self._steps).to(torch.float64).cpu().numpy()
        updates_UFN = mean(steps_SFN.reshape(-1, per_update, *steps_SFN.shape[1:]), axis=1)
        return [dict(zip(self._names, each, strict=True)) for each in mean(updates_UFN).T.tolist()]

    def _norms(self) -> Tensor:
        """Of the gradients; on a CPU each by itself, as rounding depends on the shape."""
        if self.device == "cpu":
            return torch.stack(torch._foreach_norm(list(self.gradients)))
        norms: Tensor = torch.linalg.vector_norm(self.gradients, dim=1)
        return norms

    def _adam_of_rows(self) -> None:
        """As `Adam.step`, by the same kernel: to the bit."""
        for rate in sorted(set(self._rates)):
            rows = [row for row, other in enumerate(self._rates) if other == rate]
            blocks = (self.blocks["online"], self.gradients, self.blocks["adam_mean"], self.blocks["adam_square"])
            online, slopes, means, squares = ([block[row] for row in rows] for block in blocks)
            torch._fused_adam_(
                online, slopes, means, squares, [], [self._of_step[0, row] for row in rows],
                lr=rate, beta1=BETAS[0], beta2=BETAS[1], weight_decay=0.0, eps=EPSILON, amsgrad=False, maximize=False,
            )  # fmt: skip

    def _adam_of_block(self) -> None:
        """The same for a few models on a GPU, in a few passes over memory."""
        mean, square, slopes = self.blocks["adam_mean"], self.blocks["adam_square"], self.gradients
        mean.lerp_(slopes, 1.0 - BETAS[0])
        square.mul_(BETAS[1]).addcmul_(slopes, slopes, value=1.0 - BETAS[1])
        _, _, factor_N, least_N = self._of_step
        divisor = torch.addcmul(least_N[:, None], square.sqrt(), factor_N[:, None])
        self.blocks["online"].addcdiv_(mean, divisor, value=-1.0)

    def _count(self, updates: int, steps: int) -> None:
        """Each model has done so many updates, and gradient steps."""
        for model in self.models:
            model.updates += updates
            model.optimiser.steps += steps


def stacked_network(network: nn.Module, block: FlatParameters, values_NP: Tensor, learns: bool) -> Any:
    """The network with N of each parameter, which lie in rows of that layout."""
    network.to(values_NP.device)
    for name, place in block.views(values_NP).items():
        owner, _, attribute = name.rpartition(".")
        setattr(network.get_submodule(owner), attribute, nn.Parameter(place, requires_grad=learns))
    return network


def stacks_of(models: Mapping[int, BaseModel]) -> list[list[int]]:
    """Which agents learn together, by number; those that learn alone are in none.

    On a CPU who learns with whom depends on the number of workers, so it must not matter: there the stacked update has the
    bits of the single one, or is not used.
    """
    found: dict[Any, list[int]] = {}
    for agent, model in models.items():
        if model.learning_key is not None:
            found.setdefault(model.learning_key, []).append(agent)
    return [
        sorted(agents) for agents in found.values() if models[agents[0]].device != "cpu" or _pays_on_cpu(models, agents)
    ]


def _pays_on_cpu(models: Mapping[int, BaseModel], agents: Sequence[int]) -> bool:
    found = [models[agent] for agent in agents]
    if len(found) < FEWEST_ON_CPU or torch.get_num_threads() > 1 or not isinstance(found[0], NetworkModel):
        return False
    return has_same_bits(found, found[0].config.batch_size)


def has_same_bits(models: Sequence[Any], rows: int) -> bool:
    """Return whether a gradient step of each model, from `rows` rows, has the same bits stacked and one by one.

    Rounding depends on the shapes, the alignment, the library that multiplies, and where in a vector of the processor a
    number lies. So random batches are tried, once for each shape and number of models. A user-defined loss that differs
    by more than rounding is accepted here: `LearnerStack.check_loss` rejects it by name.
    """
    key = models[0].learning_key, len(models), rows
    if key not in _SAME_BITS:
        is_ours = models[0].replaced_method(["loss_of"]) is None
        found = [_difference(models, rows, torch.Generator().manual_seed(trial)) for trial in range(TRIALS)]
        _SAME_BITS[key] = all(each == 0.0 or (each > ROUNDING and not is_ours) for each in found)
    return _SAME_BITS[key]


def _difference(models: Sequence[Any], rows: int, generator: torch.Generator) -> float:
    """Return the largest difference between metrics and gradients, stacked and one by one, for random weights and rows."""
    first, count, kind = models[0], len(models), models[0].STACK
    weights_KNP = 0.1 * torch.randn(len(kind.NETWORKS), count, len(first.online_block), generator=generator)
    arguments = kind.random_arguments(first, count, rows, generator)

    def results(model: Any, weights: Tensor, arguments: Sequence[Any], models: int = 1) -> list[Tensor]:
        networks = [stacked_network(model.make_network(), model.online_block, each, learns=True) for each in weights]
        figures = figures_with_loss(model.loss_of(*networks, *arguments), type(model), models)
        slopes = torch.autograd.grad(figures["loss"].sum(), list(networks[0].parameters()))
        return [torch.as_tensor(each).detach() for each in (*figures.values(), *slopes)]

    try:
        together = results(first, weights_KNP, arguments, count)
        return max(
            float((both[row] - one).abs().max())
            for row in range(0, count, -(-count // MODELS_TRIED))
            for both, one in zip(
                together, results(models[row], weights_KNP[:, row].clone(), of_row(arguments, row)), strict=True
            )
        )
    except Exception:
        if first.replaced_method(["loss_of"]) is None:
            raise
        return math.inf  # a user-defined loss need not accept random rows: check_loss tries it with real ones


def of_row(arguments: Sequence[Any], row: int) -> list[Any]:
    """Return the arguments of `loss_of` for one model, from those of a stack."""
    return [
        {name: each[row].clone() for name, each in argument.items()}
        if isinstance(argument, Mapping)
        else type(argument)(*(None if column is None else column[row].clone() for column in argument))
        for argument in arguments
    ]


def random_actions(
    model: NetworkModel, shape: tuple[int, ...], generator: torch.Generator
) -> tuple[Tensor, Tensor | None]:
    """Return random actions of a model, and a random mask of legal actions, or None if the game masks nothing."""
    if model.action_box is not None:
        return torch.rand(*shape, model.n_actions, generator=generator) * 2.0 - 1.0, None
    legal = torch.rand(*shape, model.n_actions, generator=generator) < 0.5
    legal[..., 0] = True
    actions = torch.randint(model.n_actions, shape, generator=generator)
    return actions, None if model._masks_LA is None else legal
