"""Masks: which actions are legal. Shapes: B rows, A actions."""

import math

import torch
from torch import Tensor

IMPROBABLE = -1e9
"""The logarithm of no chance at all; not infinite, because 0 times an infinity, as in an entropy, is no number."""


def among_legal(preferences_BA: Tensor, legal_BA: Tensor | None) -> Tensor:
    """Preferences by which no action that is not legal is the best; None: all are legal."""
    return preferences_BA if legal_BA is None else preferences_BA.masked_fill(~legal_BA, -math.inf)


def among_legal_chances(log_chances_BA: Tensor, legal_BA: Tensor | None) -> Tensor:
    """The chances of the legal actions (their logarithms), which sum up to 1; no column, or None: all are legal."""
    if legal_BA is None or not legal_BA.shape[-1]:
        return log_chances_BA
    return torch.log_softmax(log_chances_BA.masked_fill(~legal_BA, IMPROBABLE), dim=-1)
