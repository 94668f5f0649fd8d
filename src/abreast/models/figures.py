"""Learning figures: numbers by name that an update reports, its loss among them, if it has one.

    loss, loss_of   a loss, or a mapping of figures with the loss       per gradient step, on the device
    train_step      a loss, or a mapping of figures, or None            per update: the mean of its gradient steps
    a round         a mapping of figures                                per agent: the mean of its updates

A figure is added where it is computed and nowhere else: metrics.jsonl, the display and loggers take what there is.
"""

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abreast.errors import ModelError, short

Figures = Mapping[str, Any]


def named_figures(reported: Any) -> dict[str, Any]:
    """Figures by name; a number alone is a loss. None stands for a figure that is not known."""
    figures = reported if isinstance(reported, Mapping) else {"loss": reported}
    return {name: value for name, value in figures.items() if value is not None}


def figures_with_loss(reported: Any, owner: Any, models: int = 1) -> dict[str, Any]:
    """What the `loss` or `loss_of` of a class has reported of a batch, or of a batch of each of several models."""
    figures, source = named_figures(reported), f"{owner.__name__}.{owner.replaced_method(('loss',)) or 'loss_of'}"
    loss = figures.get("loss")
    if loss is None:
        told = "None" if reported is None else f"figures without a loss ({', '.join(map(str, figures)) or 'none'})"
        raise ModelError(f"{source} returned {told}: return a loss, or a mapping with 'loss'.")
    shape = tuple(getattr(loss, "shape", ()))
    if math.prod(shape) != models:
        raise ModelError(
            f"{source} returned a loss of shape {shape}, expected one number{' a model' * (models > 1)}: reduce it over the"
            " batch, as by loss.mean(dim=-1)."
        )
    if not getattr(loss, "requires_grad", False) and owner.replaced_method(("descend",)) is None:
        raise ModelError(
            f"{source} returned the loss {short(loss)}, which has no gradient: compute it from the network, in torch,"
            " without item(), detach() or no_grad()."
        )
    return figures


def numbers_of(reported: Any, owner: type) -> dict[str, float]:
    """What the `train_step` of a class has reported, as plain numbers."""
    return {name: float(as_scalar(value, name, owner)) for name, value in named_figures(reported).items()}


def as_scalar(value: Any, name: object, owner: type, device: str = "cpu") -> Tensor:
    """A figure as a tensor of a single number, where it is; anything else is refused by name."""
    try:
        is_number = isinstance(value, numbers.Real)
        scalar = torch.as_tensor(float(value), dtype=torch.float64) if is_number else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        scalar = torch.empty(0)
    if not isinstance(name, str) or scalar.numel() != 1 or scalar.is_complex():
        raise ModelError(f"the figure {name!r} of {owner.__name__} is {short(value)}: expected a name with a number.")
    return scalar.detach().reshape(()).to(device)


def mean_of_steps(steps: Sequence[Figures], owner: type, device: str) -> dict[str, float]:
    """The figures of an update, from those of its gradient steps, which are read from the device all at once."""
    scalars = [as_scalar(value, name, owner, device) for step in steps for name, value in step.items()]
    read = iter(torch.stack(scalars).tolist())
    return mean_figures([{name: next(read) for name in step} for step in steps])


def mean_figures(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each figure over all that have it."""
    names = dict.fromkeys(name for each in figures for name in each)
    known = {name: [each[name] for each in figures if name in each] for name in names}
    return {name: float(mean(np.array(values))) for name, values in known.items()}


def mean(values: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
    """Added up one after the other, so that it is the same to the bit for one model and for several side by side."""
    found: NDArray[np.float64] = np.take(np.cumsum(values, axis=axis), -1, axis=axis) / values.shape[axis]
    return found
