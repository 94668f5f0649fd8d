"""A player that reads the room from its text and plans the whole way."""

from collections.abc import Mapping, Sequence
from typing import Any

from abreast.rollouts.envs.sokoban.board import read_room
from abreast.rollouts.envs.sokoban.config import SokobanConfig
from abreast.rollouts.envs.sokoban.plan import Plan


def solve(config: SokobanConfig, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The moves that solve the room in sight, as many of them as there are actions left."""
    now = history[-1]
    moves = Plan(read_room(config, now["state"])).moves()
    return [config.action_lookup[move + 1] for move in moves[: now["actions_left"]]]
