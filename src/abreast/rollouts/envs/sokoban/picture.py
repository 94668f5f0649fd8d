"""The room as a picture: one tile a cell. The tiles are drawn here, in text, where a review can see them."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from abreast.rollouts.envs.sokoban.board import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    SYMBOLS,
    TARGET,
    WALL,
)

Pixels = NDArray[np.uint8]

PIXEL = 3
"""Each dot of a drawing becomes a square of this many pixels: 8 × 8 dots make a tile of 24 × 24."""

PALETTE = {
    " ": "#e9e2d0",  # floor
    ".": "#ddd4bd",
    "#": "#4a4e5a",  # wall
    "=": "#2f323b",
    "t": "#d1495b",  # target
    "b": "#b97a3d",  # box
    "d": "#7a4a1e",
    "g": "#5fa55a",  # box on target
    "e": "#2f6b33",
    "h": "#2b2d36",  # player
    "s": "#f2cfa5",
    "c": "#2e6f95",
}

_BARE = (
    "        ",
    "        ",
    "        ",
    "   ..   ",
    "   ..   ",
    "        ",
    "        ",
    "        ",
)
_BRICKS = (
    "########",
    "###=####",
    "###=####",
    "========",
    "########",
    "######=#",
    "######=#",
    "========",
)
_RING = (
    "tttttttt",
    "t      t",
    "t  tt  t",
    "t tttt t",
    "t tttt t",
    "t  tt  t",
    "t      t",
    "tttttttt",
)
_CRATE = (
    "dddddddd",
    "dbbbbbbd",
    "dbdbbdbd",
    "dbbddbbd",
    "dbbddbbd",
    "dbdbbdbd",
    "dbbbbbbd",
    "dddddddd",
)
_PERSON = (
    "        ",
    "  hhhh  ",
    "  hssh  ",
    "  cccc  ",
    " cccccc ",
    "  cccc  ",
    "  h  h  ",
    "        ",
)

DRAWINGS = {
    WALL: _BRICKS,
    FLOOR: _BARE,
    TARGET: _RING,
    BOX: _CRATE,
    BOX_ON_TARGET: tuple(row.translate(str.maketrans("db", "eg")) for row in _CRATE),
    PLAYER: _PERSON,
    PLAYER_ON_TARGET: (_RING[0], *(f"t{row[1:-1]}t" for row in _PERSON[1:-1]), _RING[-1]),
}


def draw(grid: str) -> Pixels:
    """The picture of a grid of symbols, (rows · 24, columns · 24, 3)."""
    numbers_RC = np.array([[SYMBOLS.index(symbol) for symbol in line] for line in grid.split("\n")])
    tiles_RCHWD: Pixels = _tiles()[numbers_RC]
    rows, columns, height, width, _ = tiles_RCHWD.shape
    return tiles_RCHWD.swapaxes(1, 2).reshape(rows * height, columns * width, 3)


@cache
def _tiles() -> Pixels:
    colours = {dot: tuple(bytes.fromhex(colour.removeprefix("#"))) for dot, colour in PALETTE.items()}
    dots = [[[colours[dot] for dot in row] for row in DRAWINGS[symbol]] for symbol in SYMBOLS]
    return np.array(dots, dtype=np.uint8).repeat(PIXEL, axis=1).repeat(PIXEL, axis=2)
