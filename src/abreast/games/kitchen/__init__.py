"""A kitchen: soup needs several steps and is everybody's."""

from pathlib import Path

from abreast.games.kitchen.env import KitchenEnv
from abreast.games.kitchen.world import KitchenConfig, KitchenWorld
from abreast.games.registry import Game

GAME = Game(
    name="kitchen",
    summary="Carry onions to the pot, fetch a dish, serve the soup: whoever does it, all are paid.",
    environment=KitchenEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "KitchenConfig", "KitchenEnv", "KitchenWorld"]
