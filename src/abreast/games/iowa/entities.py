"""The decks of Iowa gambling."""

from typing import ClassVar

from abreast.games.things import SandyGround
from abreast.worlds import Entity, Gridworld, pixel_art
from abreast.worlds.sprites import Pixels


class Carpet(SandyGround):
    """The ground, on the bottom layer."""


class Deck(Entity):
    """Cards, face down. Every card pays `gain` and may cost something; in ten cards the `losses` come once each, in random
    order.
    """

    gain: ClassVar[int]
    losses: ClassVar[tuple[int, ...]]

    def __init__(self) -> None:
        self.cards: list[int] = []

    def draw(self, world: Gridworld) -> int:
        """Turn a card: what it pays, less what it costs."""
        if not self.cards:
            block = [*self.losses, *[0] * (10 - len(self.losses))]
            self.cards = [self.gain - int(loss) for loss in world.rng.permutation(block)]
        return self.cards.pop()


def _cards(colour: str, shade: str) -> Pixels:
    return pixel_art(
        {"w": "#f6f2e6", "a": colour, "b": shade, "m": "#2d2a26"},
        ".mmmmmm.",
        ".mwwwwm.",
        ".mwaawm.",
        ".mabbam.",
        ".mabbam.",
        ".mwaawm.",
        ".mwwwwm.",
        ".mmmmmm.",
    )


class DeckA(Deck):
    """Pays much; costs more, often."""

    symbol = "A"
    gain, losses = 100, (150, 200, 250, 300, 350)
    sprite = _cards("#c0392b", "#7b241c")


class DeckB(Deck):
    """Pays much; costs more, seldom."""

    symbol = "B"
    gain, losses = 100, (1250,)
    sprite = _cards("#d68910", "#935116")


class DeckC(Deck):
    """Pays little; costs less, often."""

    symbol = "C"
    gain, losses = 50, (25, 50, 50, 50, 75)
    sprite = _cards("#2471a3", "#154360")


class DeckD(Deck):
    """Pays little; costs less, seldom."""

    symbol = "D"
    gain, losses = 50, (250,)
    sprite = _cards("#1e8449", "#145a32")


DECKS = (DeckA, DeckB, DeckC, DeckD)
