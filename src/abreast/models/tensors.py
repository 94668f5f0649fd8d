"""A batch of replay rows as tensors, for networks that learn values."""

from typing import NamedTuple

from torch import Tensor


class Tensors(NamedTuple):
    """A batch for the network."""

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    discounts: Tensor
    weights: Tensor
    """1/count where valid and 0 elsewhere, so that a weighted sum is a mean."""
    legal_next: Tensor | None = None
    """Which actions are legal in the next states, (B, A); None: all are."""
