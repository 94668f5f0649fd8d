"""The lake as a picture: one tile per cell, drawn for this project in 8×8 pixels and enlarged."""

import numpy as np
from numpy.typing import NDArray

from abreast.rollouts.envs.frozen_lake.cells import FROZEN, GOAL, HOLE, PLAYER, PLAYER_IN_HOLE, PLAYER_ON_GOAL

Pixels = NDArray[np.uint8]

SCALE = 4
PALETTE = {
    ".": "#cfe8f5",  # ice
    "'": "#e9f6fc",  # a glint on it
    "+": "#a9cfe3",  # the edge of a cell
    "~": "#14344f",  # water
    "-": "#2a5878",  # a wave
    "r": "#d1495b",  # coat
    "s": "#f2cfa5",  # face
    "k": "#2b2d36",  # hat, eyes, boots, pole
    "g": "#3c9a57",  # the flag at the goal
    "y": "#f4c430",  # the ground around it when reached
}
# fmt: off
ART = {
    FROZEN: (
        ".......+",
        ".'.....+",
        "'......+",
        ".......+",
        ".....'.+",
        "....'..+",
        ".......+",
        "++++++++",
    ),
    HOLE: (
        ".......+",
        "..~~~..+",
        ".~~~~~.+",
        "~~-~~~~+",
        "~~~~-~~+",
        ".~~~~~.+",
        "..~~~..+",
        "++++++++",
    ),
    GOAL: (
        "..k....+",
        "..kgg..+",
        "..kgggg+",
        "..kgg..+",
        "..k....+",
        "..k....+",
        ".kkk...+",
        "++++++++",
    ),
    PLAYER: (
        "..kkk..+",
        "..ksk..+",
        "..sss..+",
        ".rrrrr.+",
        "r.rrr.r+",
        "..rrr..+",
        "..k.k..+",
        "++++++++",
    ),
    PLAYER_IN_HOLE: (
        ".......+",
        "r.~~~.r+",
        ".rkkkr.+",
        "~~ksk~~+",
        "~~sss~~+",
        ".-~-~-.+",
        "..~~~..+",
        "++++++++",
    ),
    PLAYER_ON_GOAL: (
        "kggkkky+",
        "kggksky+",
        "kyysssy+",
        "krrrrry+",
        "kyyrrrr+",
        "kyyrrry+",
        "kyykyky+",
        "++++++++",
    ),
}
# fmt: on


def draw(text: str) -> Pixels:
    """A picture of the state that the text shows: pixels of shape (size·32, size·32, 3)."""
    return np.concatenate([np.concatenate([TILES[symbol] for symbol in row], axis=1) for row in text.split("\n")])


def _tile(rows: tuple[str, ...]) -> Pixels:
    colours = [[list(bytes.fromhex(PALETTE[pixel].removeprefix("#"))) for pixel in row] for row in rows]
    return np.array(colours, dtype=np.uint8).repeat(SCALE, axis=0).repeat(SCALE, axis=1)


TILES = {symbol: _tile(rows) for symbol, rows in ART.items()}
