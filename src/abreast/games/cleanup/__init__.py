"""Cleanup: a public-goods dilemma."""

from pathlib import Path

from abreast.games.cleanup.env import CleanupEnv
from abreast.games.cleanup.world import CleanupConfig, CleanupWorld
from abreast.games.registry import Game

GAME = Game(
    name="cleanup",
    summary="Apples grow only while somebody keeps the river clean, and cleaning pays nothing.",
    environment=CleanupEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "CleanupConfig", "CleanupEnv", "CleanupWorld"]
