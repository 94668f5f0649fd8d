"""The Huber loss of action values. Shapes: B batch."""

from torch import Tensor
from torch.nn import functional


def value_loss(estimate_B: Tensor, target_B: Tensor, weights_B: Tensor) -> Tensor:
    """How far the estimated values are from the targets, weighted over the batch; of several agents' batches, one above the
    other, a number for each.
    """
    return (functional.smooth_l1_loss(estimate_B, target_B, reduction="none") * weights_B).sum(dim=-1)
