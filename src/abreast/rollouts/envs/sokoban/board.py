"""Rooms as plain grids, rooms read from texts, and a player that plans the whole way in what it has read."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from abreast.rollouts.envs.grids import read
from abreast.rollouts.envs.sokoban.config import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    ROOM,
    TARGET,
    WALL,
    SokobanConfig,
)
from abreast.rollouts.envs.sokoban.grid import Room, cells_of, set_of
from abreast.rollouts.envs.sokoban.plan import Plan


def plain(room: Room) -> str:
    """The plain grid that shows a room."""
    cells = list(_ground(room.rows, room.columns, room.floor, room.targets))
    for box in cells_of(room.boxes):
        cells[box + box // room.columns] = (
            BOX_ON_TARGET if room.targets >> box & 1 else BOX
        )  # a line break for each row
    cells[room.player + room.player // room.columns] = PLAYER_ON_TARGET if room.targets >> room.player & 1 else PLAYER
    return "".join(cells)


@lru_cache(maxsize=4096)  # an episode shows the same walls, floor and targets again and again
def _ground(rows: int, columns: int, floor: int, targets: int) -> str:
    symbols = [(FLOOR, TARGET)[targets >> cell & 1] if floor >> cell & 1 else WALL for cell in range(rows * columns)]
    return "\n".join("".join(symbols[start : start + columns]) for start in range(0, rows * columns, columns))


def read_room(config: SokobanConfig, text: str) -> Room:
    """The room that a text of any of the three formats shows."""
    rows = read(config, text)
    cells = "".join(rows)
    found = {
        label: set_of(cell for cell, symbol in enumerate(cells) if symbol in symbols)
        for label, symbols in ROOM.labels.items()
    }
    player = found["Player"].bit_length() - 1
    return Room(len(rows), len(rows[0]), found["Floor"], found["Targets"], found["Boxes"], player)


def solve(config: SokobanConfig, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The moves that solve the room in sight, as many of them as there are actions left."""
    now = history[-1]
    moves = Plan(read_room(config, now["state"])).moves()
    return [config.action_lookup[move + 1] for move in moves[: now["actions_left"]]]
