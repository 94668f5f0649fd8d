"""River, meadow, orchard, and what appears on them."""

from typing import ClassVar

import numpy as np

from abreast.games.things import GrassyGround, Ground, Item
from abreast.worlds import Entity, Gridworld, pixel_art
from abreast.worlds.sprites import Pixels


class Water(Ground):
    """Clean river."""

    symbol = "~"
    sprite = pixel_art(
        {"a": "#4d9fd6", "b": "#458fc6", "c": "#86c5ea"},
        "aaaaaaaa",
        "abaccaaa",
        "aacaacab",
        "aaaaaaaa",
        "baaaaaaa",
        "aaaaacca",
        "caabcaac",
        "aaaaaaaa",
    )


class Dirt(Ground):
    """River with something foul in it, until a beam cleans it."""

    symbol = "%"
    sprite = pixel_art(
        {"w": "#4a8db3", "a": "#6b5b36", "b": "#4f4429", "c": "#8a7a45", "g": "#9fb04a"},
        "wwaaawww",
        "waabaaaw",
        "aabcaabw",
        "aaaabaaa",
        "wabaagca",
        "aacaaaba",
        "abaabaaw",
        "wwaaawww",
    )


class Grass(GrassyGround):
    """The meadow between river and orchard, where agents start."""


class Orchard(Ground):
    """Ground on which apples can grow."""

    symbol = ","
    sprite = pixel_art(
        {"a": "#7fae5c", "b": "#6f9e4e", "l": "#4f8a43", "d": "#3d7036", "h": "#639f50"},
        "aballlaa",
        "allhlldb",
        "alhllhld",
        "lllldlld",
        "lhldllhd",
        "dlllhldd",
        "adldlddb",
        "aaddddaa",
    )


class Apple(Item):
    """Eaten by the agent that walks onto it."""

    symbol = "o"
    sprite = pixel_art(
        {"m": "#6a1620", "a": "#d8353f", "b": "#f58a86", "s": "#4a3020", "g": "#b7dd6a"},
        "........",
        "...sgg..",
        "..ms.m..",
        ".maamam.",
        ".mbaaam.",
        ".mbaaam.",
        "..maam..",
        "...mm...",
    )


class Beam(Entity):
    """One cell of a beam, on a layer of its own, so that it hides nothing and hinders nobody.

    It stays for the whole turn after the one it was fired in, faded: were it gone when that turn begins, agents that act
    before the one who fired it would never see it (with simultaneous turns nobody would).
    """

    passable = True
    has_transitions = True

    bright: ClassVar[Pixels]
    """The picture of a horizontal beam."""
    looks: ClassVar[dict[tuple[bool, bool], Pixels]]
    """Pictures by (is_vertical, is_fresh)."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.sprite = cls.bright
        pictures = {False: cls.bright, True: np.rot90(cls.bright).copy()}
        cls.looks = {(is_vertical, True): picture for is_vertical, picture in pictures.items()}
        cls.looks |= {(is_vertical, False): _faded(picture) for is_vertical, picture in pictures.items()}

    def __init__(self, *, is_vertical: bool) -> None:
        self.is_vertical = is_vertical
        self.is_fresh = True
        self.sprite = self.looks[is_vertical, True]

    def transition(self, world: Gridworld) -> None:
        if self.is_fresh:
            self.is_fresh = False
            self.sprite = self.looks[self.is_vertical, False]
        else:
            world.remove(self.location)


def _faded(picture: Pixels) -> Pixels:
    faded = picture.copy()
    faded[..., 3] //= 3
    return faded


class CleanBeam(Beam):
    """Turns dirt into water."""

    symbol = "="
    bright = pixel_art(
        {"w": "#ffffff", "a": "#c9f3ff", "b": "#8fe0f7"},
        "........",
        "....b...",
        ".aw...a.",
        "waawwaaw",
        "aawwaaww",
        ".b...wa.",
        "...b....",
        "........",
    )


class ZapBeam(Beam):
    """Freezes agents."""

    symbol = "z"
    bright = pixel_art(
        {"w": "#fff7c2", "y": "#ffd23f", "o": "#f08a24"},
        "........",
        "..o.....",
        ".oyo..o.",
        "oywyooyo",
        "ywoywyyw",
        "yo.oyooy",
        "o...o..o",
        "........",
    )
