"""The tiles of the prisoners' dilemma."""

from abreast.games.things import Ground, SandyGround
from abreast.worlds import pixel_art
from abreast.worlds.sprites import Pixels


class Floor(SandyGround):
    """Ground that says nothing."""


def _tile(colour: str, edge: str) -> Pixels:
    return pixel_art({"a": colour, "b": edge}, "bbbbbbbb", *["baaaaaab"] * 6, "bbbbbbbb")


class CooperateTile(Ground):
    """Who stands here cooperates."""

    symbol = "c"
    sprite = _tile("#79c07a", "#4d9a55")


class DefectTile(Ground):
    """Who stands here defects."""

    symbol = "d"
    sprite = _tile("#d9756c", "#b04a45")
