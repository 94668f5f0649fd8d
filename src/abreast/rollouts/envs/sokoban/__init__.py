"""Sokoban: push every box onto a target."""

from abreast.rollouts.envs.grids import legend
from abreast.rollouts.envs.sokoban.board import solve
from abreast.rollouts.envs.sokoban.config import SokobanConfig
from abreast.rollouts.envs.sokoban.env import SokobanEnv
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="sokoban",
    summary="Push boxes onto targets in a small room; boxes cannot be pulled, so some mistakes are for good.",
    env=SokobanEnv,
    config=SokobanConfig,
    instruction=(
        "You are the warehouse keeper of a Sokoban puzzle. Push every box onto a target. You push a box by walking into "
        "it, one box at a time; you cannot pull, and neither you nor a box can enter a wall."
    ),
    legend=legend,
    solver=solve,
    presets={"ragen": {"room_search": "moves"}},
    budget_setting="solvable_within",
)
