"""Gaussian policies, against torch's own distributions."""

import torch
from torch import distributions

from abreast.models.gaussian import entropy_of, log_density, squashed

GENERATOR = torch.Generator().manual_seed(0)
MEANS, LOG_STD, NOISE = (torch.randn(50, 3, generator=GENERATOR, dtype=torch.float64) for _ in range(3))


def test_densities_and_entropies_are_those_of_torch():
    normal = distributions.Normal(MEANS, LOG_STD.exp())
    torch.testing.assert_close(log_density(NOISE, MEANS, LOG_STD), normal.log_prob(NOISE).sum(dim=-1))
    torch.testing.assert_close(entropy_of(LOG_STD), normal.entropy().sum(dim=-1))


def test_squashed_actions_have_the_density_of_torchs_tanh_transform():
    actions, found = squashed(torch.cat([MEANS, LOG_STD], dim=-1), NOISE)
    normal, tanh = distributions.Normal(MEANS, LOG_STD.exp()), distributions.TanhTransform(cache_size=1)
    drawn = distributions.TransformedDistribution(normal, [tanh])
    expected = tanh(MEANS + LOG_STD.exp() * NOISE)  # which remembers what it comes from: to undo tanh would lose digits
    torch.testing.assert_close(actions, expected)
    torch.testing.assert_close(found, drawn.log_prob(expected).sum(dim=-1))


def test_far_out_a_density_is_a_number_and_has_a_slope():
    policy = torch.tensor([[30.0, -30.0, 1.0, 1.0]], requires_grad=True)
    actions, density = squashed(policy, torch.tensor([[1.0, -1.0]]))
    density.sum().backward()
    assert actions.abs().max() == 1.0 and torch.isfinite(density).all() and torch.isfinite(policy.grad).all()
