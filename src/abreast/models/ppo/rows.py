"""Rows of experience as tensors, with what PPO wants to know of each."""

from typing import NamedTuple

from torch import Tensor


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
