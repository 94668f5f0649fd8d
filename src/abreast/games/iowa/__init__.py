"""Iowa gambling: the decks that pay most cost most."""

from pathlib import Path

from abreast.games.iowa.env import IowaEnv
from abreast.games.iowa.world import IowaConfig, IowaWorld
from abreast.games.registry import Game

GAME = Game(
    name="iowa",
    summary="Four decks of cards: two pay much and cost more, two pay little and cost less.",
    environment=IowaEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "IowaConfig", "IowaEnv", "IowaWorld"]
