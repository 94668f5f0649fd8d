"""Bandit: two arms, one choice."""

from collections.abc import Mapping, Sequence
from typing import Any

from abreast.rollouts.envs.bandit.config import BanditConfig
from abreast.rollouts.envs.bandit.env import BanditEnv
from abreast.rollouts.registry import EnvKind


def _solve(config: BanditConfig, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The name of the hi arm of the pair in sight: the settings say which one it is, the text never does."""
    state, actions_left = history[-1]["state"], history[-1]["actions_left"]
    shown = [hi for lo, hi in config.pairs if f": {lo} and {hi}." in state or f": {hi} and {lo}." in state]
    return [*shown, config.hi_arm_name][: min(1, actions_left)]


KIND = EnvKind(
    name="bandit",
    summary="Two named arms and one choice: a small reward for sure, or a large one with luck.",
    env=BanditEnv,
    config=BanditConfig,
    instruction=(
        "There are two arms. One always pays the same small reward; the other pays a large one now and then, otherwise "
        "nothing, and on average it pays more. Judge by their names which is which, and choose the one that pays more "
        "on average. You choose once."
    ),
    legend=lambda config: "The state names the two arms. An action is the name of an arm.",
    # Of the arms, if all episodes have the same two; otherwise the state names them.
    listed_actions=lambda config: list(config.names.values()) if len(config.pairs) == 1 else [],
    solver=_solve,
    presets={"ragen": {"split": "train"}},
)
