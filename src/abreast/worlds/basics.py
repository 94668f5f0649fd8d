"""Entities nearly every gridworld has."""

import numpy as np

from abreast.worlds.entity import Entity
from abreast.worlds.sprites import pixel_art


class EmptyEntity(Entity):
    """Nothing: can be walked onto and seen through."""

    passable = True
    symbol = " "
    sprite = np.zeros((8, 8, 4), dtype=np.uint8)


class Wall(Entity):
    """Cannot be walked onto."""

    symbol = "#"
    sprite = pixel_art(
        {"a": "#6b6f7a", "b": "#595d68", "m": "#3e414a"},
        "aaabaaam",
        "aabaaaam",
        "mmmmmmmm",
        "abmaaaba",
        "aamabaaa",
        "mmmmmmmm",
        "aaaabaam",
        "abaaaaam",
    )
