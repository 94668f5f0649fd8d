"""Entities that several games have in a kind of their own: ground, and items."""

from abreast.games.art import GRASS, SAND
from abreast.worlds import Entity


class Ground(Entity):
    """What agents walk on, on the bottom layer."""

    passable = True
    symbol = "."


class SandyGround(Ground):
    """Ground with grains."""

    sprite = SAND


class GrassyGround(Ground):
    """Ground with blades."""

    sprite = GRASS


class Item(Entity):
    """Something to walk onto; its value comes from the configuration."""

    passable = True

    def __init__(self, value: float) -> None:
        self.value = value
