"""What grows on the meadow of commons harvest."""

from abreast.games.art import GRASS
from abreast.worlds import Entity, pixel_art


class Grass(Entity):
    """The ground, on the bottom layer."""

    passable = True
    symbol = "."
    sprite = GRASS


class Apple(Entity):
    """Eaten by whoever walks onto it; the more apples are near, the sooner others grow."""

    passable = True
    symbol = "o"
    sprite = pixel_art(
        {"m": "#5b1420", "a": "#e23d48", "b": "#ff9c94", "s": "#4a3020", "g": "#c6e87a"},
        "....s...",
        "...sgg..",
        ".mmsmmm.",
        "mabaaaam",
        "mbaaaaam",
        "maaaaaam",
        ".maaaam.",
        "..mmmm..",
    )

    def __init__(self, value: float) -> None:
        self.value = value
