"""The quantile Huber loss. Shapes: B batch, K quantiles of the estimate, J quantiles of the target."""

import torch
from torch import Tensor
from torch.nn import functional


def quantile_huber_loss(
    estimate_BK: Tensor, fractions_BK: Tensor, target_BJ: Tensor, weights_B: Tensor, kappa: float
) -> Tensor:
    """How far the estimated quantiles are from the targets: for each, summed over K, averaged over J, weighted over B.

    Of several agents' batches, one above the other, it is a number for each.
    """
    error_BKJ = target_BJ[..., None, :] - estimate_BK[..., :, None]
    huber_BKJ = functional.huber_loss(error_BKJ, torch.zeros_like(error_BKJ), reduction="none", delta=kappa) / kappa
    overestimated_BKJ = (error_BKJ.detach() < 0).to(torch.float32)
    tilt_BKJ = (fractions_BK[..., :, None] - overestimated_BKJ).abs()
    per_sample_B: Tensor = (tilt_BKJ * huber_BKJ).mean(dim=-1).sum(dim=-1)
    return (per_sample_B * weights_B).sum(dim=-1)
