"""Commons harvest: apples grow only beside apples."""

from pathlib import Path

from abreast.games.harvest.env import HarvestEnv
from abreast.games.harvest.world import HarvestConfig, HarvestWorld
from abreast.games.registry import Game

GAME = Game(
    name="harvest",
    summary="Apples grow back beside apples; whoever eats the last ones leaves nothing for anybody.",
    environment=HarvestEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "HarvestConfig", "HarvestEnv", "HarvestWorld"]
