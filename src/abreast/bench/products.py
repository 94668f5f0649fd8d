"""The matrix products of a learner: what an update and an action cannot do without. Everything else they do is overhead."""

from collections.abc import Sequence

import torch

from abreast.bench.bare import Task
from abreast.models.iqn import IQN

Shape = tuple[int, int, int]
"""Rows, inner size and columns of a product."""
LARGEST: Shape = (768, 250, 250)
"""The product that an update of the reference learner spends most of its time in."""


def products_of_update(model: IQN) -> list[Shape]:
    """Every product of an update: forward for two networks and the double-Q choice, and backward."""
    config = model.config
    batch, wide, inputs, cosines = config.batch_size, config.hidden_size, model.input_size, config.n_cosines
    rows, outputs = batch * config.n_quantiles, 1 + model.n_actions
    forward = [(batch, inputs, wide), (rows, cosines, wide), (rows, wide, wide), (rows, wide, outputs)]
    shapes = [*products_of_choice(model, batch), *forward, *forward]
    shapes += [(rows, outputs, wide), (rows, wide, wide)]  # back through dueling and trunk
    shapes += [(wide, rows, wide), (wide, rows, cosines), (wide, batch, inputs), (outputs, rows, wide)]  # weights
    return shapes


def products_of_choice(model: IQN, states: int) -> list[Shape]:
    """Every product of ranking the actions in so many states. (The fractions are embedded once an epoch.)"""
    wide, ranked = model.config.hidden_size, states * model.config.choosing_quantiles
    return [(states, model.input_size, wide), (ranked, wide, wide), (states, wide, 1 + model.n_actions)]


def computing(shapes: Sequence[Shape]) -> Task:
    """Computes these products, one after the other, by one thread, into memory that is there."""
    torch.set_num_threads(1)
    operands = [(torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)) for m, k, n in shapes]

    def run() -> None:
        for left, right, out in operands:
            torch.mm(left, right, out=out)

    return run


def flop(shapes: Sequence[Shape]) -> int:
    """Floating-point operations of these products."""
    return sum(2 * m * k * n for m, k, n in shapes)
