"""Coins: what one picks up, the other pays for."""

from pathlib import Path

from abreast.games.coins.env import CoinsEnv
from abreast.games.coins.world import CoinsConfig, CoinsWorld
from abreast.games.registry import Game

GAME = Game(
    name="coins",
    summary="Two agents pick up coins; one of the other's colour costs the other more than it gains.",
    environment=CoinsEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "CoinsConfig", "CoinsEnv", "CoinsWorld"]
