"""The losses of SAC. Shapes: B batch, C critics (2)."""

from torch import Tensor


def critic_loss(values_CB: tuple[Tensor, Tensor], target_B: Tensor, weights_B: Tensor) -> Tensor:
    """Squared errors of both critics, weighted over the batch."""
    first_B, second_B = (0.5 * (values_B - target_B) ** 2 for values_B in values_CB)
    return ((first_B + second_B) * weights_B).sum(dim=-1)


def policy_loss(log_densities_B: Tensor, values_B: Tensor, alpha: Tensor, weights_B: Tensor) -> Tensor:
    """Low where actions are worth much and the policy is undecided."""
    return ((alpha * log_densities_B - values_B) * weights_B).sum(dim=-1)


def temperature_loss(log_alpha: Tensor, log_densities_B: Tensor, target_entropy: float, weights_B: Tensor) -> Tensor:
    """Its gradient raises the temperature while the entropy is below its target, and lowers it above."""
    return -(log_alpha * (log_densities_B + target_entropy) * weights_B).sum(dim=-1)
