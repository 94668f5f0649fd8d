"""The tiles of the prisoners' dilemma."""

from abreast.games.things import SandyGround
from abreast.worlds import Entity, pixel_art
from abreast.worlds.sprites import Pixels


class Floor(SandyGround):
    """Ground that says nothing."""


def _tile(colour: str, edge: str) -> Pixels:
    return pixel_art({"a": colour, "b": edge}, "bbbbbbbb", *["baaaaaab"] * 6, "bbbbbbbb")


class CooperateTile(Entity):
    """Who stands here cooperates."""

    passable = True
    symbol = "c"
    sprite = _tile("#79c07a", "#4d9a55")


class DefectTile(Entity):
    """Who stands here defects."""

    passable = True
    symbol = "d"
    sprite = _tile("#d9756c", "#b04a45")
