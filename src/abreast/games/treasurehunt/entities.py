"""What lies about in treasure hunt."""

from abreast.games.things import Item, SandyGround
from abreast.worlds import Wall as PlainWall
from abreast.worlds.sprites import pixel_art


class Wall(PlainWall):
    """Walking into it costs 1."""

    value = -1.0


class Sand(SandyGround):
    """The ground, on the bottom layer."""


class Gem(Item):
    """What everybody is after."""

    symbol = "*"
    sprite = pixel_art(
        {"m": "#1d3557", "a": "#57c4e5", "b": "#a8e6f5", "c": "#2a9dc4"},
        "........",
        "..mmmm..",
        ".mbbaam.",
        "mbbaaacm",
        "mbaaaccm",
        ".maaccm.",
        "..macm..",
        "...mm...",
    )


class Food(Item):
    """Good, but no gem."""

    symbol = "o"
    sprite = pixel_art(
        {"m": "#5c1a1b", "a": "#d64545", "b": "#f28482", "g": "#4f772d", "s": "#5a3d2b"},
        "....sg..",
        "...sgg..",
        ".mmsmm..",
        "mabaaam.",
        "mbaaaam.",
        "maaaaam.",
        ".maaam..",
        "..mmm...",
    )


class Bone(Item):
    """Better left where it is."""

    symbol = "x"
    sprite = pixel_art(
        {"m": "#6c6a61", "a": "#f4f1e6", "b": "#d8d3c0"},
        ".....mm.",
        "....maam",
        "....mabm",
        "..mmabm.",
        "mmabmm..",
        "mabm....",
        "maam....",
        ".mm.....",
    )
