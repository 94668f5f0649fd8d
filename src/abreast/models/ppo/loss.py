"""Advantages and the clipped loss. Shapes: N rows of a trajectory, B batch, A actions."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from abreast.models.ppo.config import PPOConfig
from abreast.replay import Trajectory


class Rows(NamedTuple):
    """What an update learns from."""

    states: Tensor
    legal: Tensor
    """Of no columns where all actions are legal."""
    actions: Tensor
    before: Tensor
    advantages: Tensor
    returns: Tensor

    def part(self, rows: Tensor) -> "Rows":
        return Rows(*(column[rows] for column in self))


def advantages_of(
    trajectory: Trajectory, values_N: NDArray[np.float32], gamma: float, gae_lambda: float
) -> NDArray[np.float32]:
    """Generalised advantage estimates. A row that is not `valid` has no outcome: its own estimate is 0 and no use."""
    values, rewards = values_N.tolist(), trajectory.rewards.tolist()  # row by row, numbers are cheaper than arrays
    valid, dones = trajectory.valid.tolist(), trajectory.dones.tolist()
    advantages = [0.0] * len(values)
    ahead = 0.0
    for row in range(len(values) - 1, -1, -1):
        if not valid[row]:
            ahead = 0.0  # the episode was cut here: the value of this state stands for all that would have come
            continue
        goes_on = not dones[row]
        next_value = values[row + 1] if goes_on else 0.0
        surprise = rewards[row] + gamma * next_value - values[row]
        ahead = surprise + (gamma * gae_lambda * ahead if goes_on else 0.0)
        advantages[row] = ahead
    return np.array(advantages, dtype=np.float32)


def clipped_loss(
    log_chances_BA: Tensor, values_B: Tensor, rows: Rows, config: PPOConfig, clip: float
) -> dict[str, Tensor]:
    """The clipped policy loss, the value loss and the entropy bonus in one number to descend, and how far the policy has
    moved; of several agents' batches, a number for each.
    """
    chosen_B = log_chances_BA.gather(-1, rows.actions[..., None]).squeeze(-1)
    entropy = -(log_chances_BA.exp() * log_chances_BA).sum(dim=-1).mean(dim=-1)
    return clipped_loss_of(chosen_B, entropy, values_B, rows, config, clip)


def clipped_loss_of(
    log_chances_B: Tensor, entropy: Tensor, values_B: Tensor, rows: Rows, config: PPOConfig, clip: float
) -> dict[str, Tensor]:
    """The same from the chances of the actions that were taken, or their densities, and the entropy of the policy."""
    log_ratio_B = log_chances_B - rows.before
    ratio_B = torch.exp(log_ratio_B)
    clipped_B = ratio_B.clamp(1.0 - clip, 1.0 + clip)
    policy = -torch.minimum(ratio_B * rows.advantages, clipped_B * rows.advantages).mean(dim=-1)
    # Its gradient is bounded, because returns come in any size.
    value = functional.smooth_l1_loss(values_B, rows.returns, reduction="none").mean(dim=-1)
    moved_B = ratio_B.detach() - 1.0
    return {
        "loss": policy + config.value_weight * value - config.entropy_weight * entropy,
        "entropy": entropy,
        "kl": (moved_B - log_ratio_B.detach()).mean(dim=-1),  # an estimate that is never negative
        "clip_fraction": (moved_B.abs() > clip).to(torch.float32).mean(dim=-1),
        "policy_loss": policy,
        "value_loss": value,
    }
