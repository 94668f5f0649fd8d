"""What lies on the floor of coins."""

from typing import ClassVar

from abreast.games.things import Item, SandyGround
from abreast.worlds import pixel_art
from abreast.worlds.painting import AGENT_COLOURS
from abreast.worlds.sprites import Pixels


class Floor(SandyGround):
    """The ground, on the bottom layer."""


def _coin_of(colour: str) -> Pixels:
    return pixel_art(
        {"m": "#3a3320", "a": colour, "w": "#ffffff"},
        "..mmmm..",
        ".maaaam.",
        "mawaaaam",
        "mawaaaam",
        "maaaaaam",
        "maaaaaam",
        ".maaaam.",
        "..mmmm..",
    )


class Coin(Item):
    """Picked up by whoever walks onto it, and of one agent's colour."""

    owner: ClassVar[int]


class FirstCoin(Coin):
    """Of the colour of agent 0."""

    symbol = "a"
    owner = 0
    sprite = _coin_of(AGENT_COLOURS[0])


class SecondCoin(Coin):
    """Of the colour of agent 1."""

    symbol = "b"
    owner = 1
    sprite = _coin_of(AGENT_COLOURS[1])


COINS = (FirstCoin, SecondCoin)
