"""Gaussian policies. Shapes: B rows, A numbers of an action; of several agents, one dimension more in front."""

import math

import torch
from torch import Tensor
from torch.nn import functional

LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def log_density(actions_BA: Tensor, means_BA: Tensor, log_std_BA: Tensor) -> Tensor:
    """The logarithm of the density of actions, (B,), whose numbers are drawn independently of each other."""
    errors_BA = (actions_BA - means_BA) * torch.exp(-log_std_BA)
    return (-0.5 * errors_BA * errors_BA - log_std_BA - LOG_ROOT_TWO_PI).sum(dim=-1)


def entropy_of(log_std_A: Tensor) -> Tensor:
    """The entropy of such actions."""
    return (log_std_A + 0.5 + LOG_ROOT_TWO_PI).sum(dim=-1)


def squashed(policy_BP: Tensor, noise_BA: Tensor) -> tuple[Tensor, Tensor]:
    """Actions from -1 to 1, by tanh of a Gaussian draw, and the logarithms of their densities, (B,). A row of a policy has
    the means, and then the logarithms of the spreads.

    log(1 - tanh(x)²) is computed as 2 (log 2 - x - softplus(-2x)), which loses nothing where tanh is almost 1.
    """
    means_BA, log_std_BA = policy_BP.chunk(2, dim=-1)
    drawn_BA = means_BA + torch.exp(log_std_BA) * noise_BA
    slopes_BA = 2.0 * (math.log(2.0) - drawn_BA + functional.logsigmoid(2.0 * drawn_BA))
    return torch.tanh(drawn_BA), log_density(drawn_BA, means_BA, log_std_BA) - slopes_BA.sum(dim=-1)
