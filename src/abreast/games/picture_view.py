"""A game in the terminal by its picture: two pixels a character, and below it what each agent has got."""

from typing import Any

import numpy as np
from PIL import Image
from rich.console import Group, RenderableType
from rich.text import Text

WIDTH, HEIGHT = 76, 64
"""Pixels of a picture in the terminal, at most; a line of text has two of them above each other."""
HALF_BLOCK = "▀"
SHADES = "@#*+=-:. "
"""For both pixels together where there are no colours, from black to white."""


class PictureView:
    """Draws the first lane of a game that shows itself as pixels or text (`look`); others are only counted."""

    def __init__(self, game: Any, in_colour: bool = True) -> None:
        self._game, self._in_colour = game, in_colour

    def draw(self) -> RenderableType:
        """The game as it is now."""
        seen = self._game.look() if hasattr(self._game, "look") else self._game.picture()
        parts: list[RenderableType] = [Text(f"turn {self._game.turns}")]
        if isinstance(seen, str):
            parts.append(Text.from_ansi(seen))
        elif seen is not None:
            parts.append(_drawn(Image.fromarray(np.ascontiguousarray(seen, dtype=np.uint8)), self._in_colour))
        return Group(*parts)


def _drawn(picture: Image.Image, in_colour: bool) -> Text:
    small = picture.convert("RGB")
    small.thumbnail((WIDTH, HEIGHT))
    pixels = np.asarray(small)
    pixels = np.vstack([pixels, pixels[-1:]]) if len(pixels) % 2 else pixels
    text = Text()
    for above, below in zip(pixels[::2], pixels[1::2], strict=True):
        for top, bottom in zip(above.tolist(), below.tolist(), strict=True):
            shade = SHADES[sum(top + bottom) * len(SHADES) // (6 * 256)]
            text.append(*((HALF_BLOCK, f"{_colour(top)} on {_colour(bottom)}") if in_colour else (shade,)))
        text.append("\n")
    return text


def _colour(pixel: list[int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*pixel)
