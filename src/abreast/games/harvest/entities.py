"""What grows on the meadow of commons harvest."""

from abreast.games.things import GrassyGround, Item
from abreast.worlds import pixel_art


class Grass(GrassyGround):
    """The ground, on the bottom layer."""


class Apple(Item):
    """Eaten by whoever walks onto it; the more apples are near, the sooner others grow."""

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
