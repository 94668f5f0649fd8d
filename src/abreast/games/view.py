"""A world in the terminal: one coloured cell per cell."""

from functools import lru_cache
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from abreast.worlds import Gridworld
from abreast.worlds.sprites import Painter

_painter = Painter(tile=8)


def terminal_view(world: Gridworld, caption: str) -> RenderableType:
    """The world as coloured text: the ground as background, the topmost symbol in its own colour."""
    picture = Text()
    for row in world.map:
        for entities in row:
            picture.append(*_cell(entities))
        picture.append("\n")
    return Group(Text(caption), picture)


def _cell(entities: Any) -> tuple[str, str]:
    ground, top = entities[0], entities[0]
    for entity in entities[1:]:
        if entity.symbol.strip():
            top = entity
    background = _colour(_painter.pixels(ground))
    if top is ground:
        return "  ", f"on {background}"
    return f"{top.symbol} ", f"bold {_colour(_painter.pixels(top))} on {background}"


@lru_cache
def _mean_colour(pixels: bytes) -> str:
    rgba = np.frombuffer(pixels, dtype=np.float32).reshape(-1, 4)
    opaque = rgba[rgba[:, 3] > 0, :3]
    red, green, blue = (int(value) for value in opaque.mean(axis=0)) if len(opaque) else (0, 0, 0)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _colour(pixels: Any) -> str:
    return _mean_colour(pixels.tobytes())
