"""What stands in the yard of tag, and what the players wear there."""

from enum import StrEnum
from functools import cache

import numpy as np

from abreast.games.art import figures
from abreast.games.things import GrassyGround
from abreast.worlds import Entity
from abreast.worlds.sprites import Pixels, pixel_art


class Grass(GrassyGround):
    """The ground, on the bottom layer."""


class Crate(Entity):
    """An obstacle: stands in the way and costs nothing."""

    symbol = "x"
    sprite = pixel_art(
        {"m": "#4a3220", "a": "#b5834f", "b": "#cd9c64", "c": "#8d6238"},
        "mmmmmmmm",
        "mbbbbbbm",
        "mcaaaacm",
        "maccccam",
        "maaccaam",
        "maccccam",
        "mcaaaacm",
        "mmmmmmmm",
    )


class Role(StrEnum):
    """What a player is at the moment; the value is its kind, so everybody who sees the player sees the role."""

    RUNNER = "Runner"
    TAGGER = "Tagger"
    SAFE = "SafeRunner"

    @property
    def symbol(self) -> str:
        return {Role.RUNNER: "r", Role.TAGGER: "T", Role.SAFE: "s"}[self]


MARKERS = {
    Role.TAGGER: pixel_art(
        {"r": "#ff2a1f"},
        "r......r",
        "rr....rr",
        "rr....rr",
        "r......r",
        "r......r",
        "r......r",
        "r......r",
        "rrrrrrrr",
    ),
    Role.SAFE: pixel_art(
        {"w": "#ffffff", "b": "#bfe3ff"},
        ".wwwwww.",
        "wb....bw",
        "w......w",
        "w......w",
        "w......w",
        "w......w",
        "wb....bw",
        ".wwwwww.",
    ),
}
"""Drawn over a player: a horned red frame for whoever is it, a white bubble for whoever is safe."""


@cache
def players(number: int, role: Role) -> dict[str, Pixels]:
    """Player `number` in the four directions, marked as its role asks."""
    marker = MARKERS.get(role)
    if marker is None:
        return figures(number)
    return {facing: np.where(marker[..., 3:] > 0, marker, figure) for facing, figure in figures(number).items()}
