"""Bandit: two arms, one choice."""

from abreast.rollouts.envs.bandit.config import BanditConfig
from abreast.rollouts.envs.bandit.env import BanditEnv
from abreast.rollouts.envs.bandit.legend import legend, listed_actions
from abreast.rollouts.envs.bandit.solver import solve
from abreast.rollouts.registry import EnvKind

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
    legend=legend,
    listed_actions=listed_actions,
    solver=solve,
    presets={"ragen": {"split": "train"}},
)

__all__ = ["KIND", "BanditConfig", "BanditEnv"]
