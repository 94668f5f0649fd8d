"""The prisoners' dilemma, again and again, by where one stands."""

from pathlib import Path

from abreast.games.prisoners.env import PrisonersEnv
from abreast.games.prisoners.world import PrisonersConfig, PrisonersWorld
from abreast.games.registry import Game

GAME = Game(
    name="prisoners",
    summary="Stand on a tile to cooperate or to defect; every turn pays by where the others stand.",
    environment=PrisonersEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "PrisonersConfig", "PrisonersEnv", "PrisonersWorld"]
