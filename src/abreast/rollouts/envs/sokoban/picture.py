"""The room as a picture: one tile a cell. The tiles are drawn here, in text, where a review can see them."""

from abreast.rollouts.envs.grids import make_tiles
from abreast.rollouts.envs.sokoban.config import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, WALL

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

TILES = make_tiles(DRAWINGS, PALETTE, PIXEL)
"""Of each symbol, 24 × 24 pixels."""
