"""The lake as a picture: one tile per cell, drawn for this project in 8×8 pixels and enlarged."""

from abreast.rollouts.envs.frozen_lake.config import FROZEN, GOAL, HOLE, PLAYER, PLAYER_IN_HOLE, PLAYER_ON_GOAL
from abreast.rollouts.envs.grids import make_tiles

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

TILES = make_tiles(ART, PALETTE, SCALE)
"""Of each symbol, 32 × 32 pixels."""
