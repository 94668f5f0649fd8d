"""A player that knows which arm is which: the settings say so, the text never does."""

from collections.abc import Mapping, Sequence
from typing import Any

from abreast.rollouts.envs.bandit.config import BanditConfig


def solve(config: BanditConfig, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name of the hi arm of the pair in sight."""
    now = history[-1]
    shown = [
        hi for lo, hi in config.pairs if f": {lo} and {hi}." in now["state"] or f": {hi} and {lo}." in now["state"]
    ]
    return [*shown, config.hi_arm_name][: min(1, now["actions_left"])]
