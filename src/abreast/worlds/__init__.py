"""Worlds: entities on a grid, what can be seen of them and what can be done in them. No learning here."""

from abreast.worlds.actions import ActionSpec
from abreast.worlds.basics import EmptyEntity, Wall
from abreast.worlds.entity import Entity, Location
from abreast.worlds.gridworld import Gridworld
from abreast.worlds.observations import (
    AsciiObservationSpec,
    ObservationSpec,
    OneHotObservationSpec,
    RGBObservationSpec,
)
from abreast.worlds.sprites import Sprite, draw_world, pixel_art

__all__ = [
    "ActionSpec",
    "AsciiObservationSpec",
    "EmptyEntity",
    "Entity",
    "Gridworld",
    "Location",
    "ObservationSpec",
    "OneHotObservationSpec",
    "RGBObservationSpec",
    "Sprite",
    "Wall",
    "draw_world",
    "pixel_art",
]
