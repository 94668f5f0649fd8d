"""A player that knows which arm is which: the settings say so, the text never does."""

from collections.abc import Mapping, Sequence
from typing import Any

from abreast.rollouts.envs.bandit.config import BanditConfig


def solve(config: BanditConfig, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name of the hi arm."""
    return [config.hi_arm_name][: history[-1]["actions_left"]]
