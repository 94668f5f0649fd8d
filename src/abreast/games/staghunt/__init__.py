"""Stag hunt: a sure little alone, or much together."""

from pathlib import Path

from abreast.games.registry import Game
from abreast.games.staghunt.env import StaghuntEnv
from abreast.games.staghunt.world import StaghuntConfig, StaghuntWorld

GAME = Game(
    name="staghunt",
    summary="Catch hares alone for a little, or stand around a stag together for a lot.",
    environment=StaghuntEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "StaghuntConfig", "StaghuntEnv", "StaghuntWorld"]
