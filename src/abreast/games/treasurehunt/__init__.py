"""Treasure hunt: the reference game."""

from pathlib import Path

from abreast.games.registry import Game
from abreast.games.treasurehunt.env import TreasurehuntEnv
from abreast.games.treasurehunt.world import TreasurehuntConfig, TreasurehuntWorld

GAME = Game(
    name="treasurehunt",
    summary="Gems (and, if you like, food and bones) appear on the sand; walk onto them, not into walls.",
    environment=TreasurehuntEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "TreasurehuntConfig", "TreasurehuntEnv", "TreasurehuntWorld"]
