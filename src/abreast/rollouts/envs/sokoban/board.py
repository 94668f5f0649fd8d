"""The room as it is played: moves on a plain grid, and reading a room from a text."""

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
from abreast.rollouts.envs.sokoban.grid import Room, offsets, set_of

_PLAYER_COMES = {FLOOR: PLAYER, BOX: PLAYER, TARGET: PLAYER_ON_TARGET, BOX_ON_TARGET: PLAYER_ON_TARGET}
_PLAYER_GOES = {PLAYER: FLOOR, PLAYER_ON_TARGET: TARGET}
_BOX_COMES = {FLOOR: BOX, TARGET: BOX_ON_TARGET}
_SYMBOLS = {
    "0000": WALL,
    "1000": FLOOR,
    "1100": TARGET,
    "1010": BOX,
    "1110": BOX_ON_TARGET,
    "1001": PLAYER,
    "1101": PLAYER_ON_TARGET,
}
"""By what is in a cell: floor, target, box, player."""


class Board:
    """A room in play."""

    def __init__(self, room: Room) -> None:
        self.boxes = room.boxes.bit_count()
        self.boxes_on_target = (room.boxes & room.targets).bit_count()
        size, columns = room.rows * room.columns, room.columns
        layers = (f"{cells:0{size}b}"[::-1] for cells in (room.floor, room.targets, room.boxes, 1 << room.player))
        symbols = "".join([_SYMBOLS["".join(layer)] for layer in zip(*layers, strict=True)])
        self._cells = list("\n".join(symbols[i : i + columns] for i in range(0, size, columns)))
        self._player = room.player + room.player // columns  # a line break more for each row above
        self._offsets = offsets(columns + 1)

    def move(self, direction: int) -> bool:
        """Step up, down, left or right (0 to 3), push a box if there is one; False if something is in the way."""
        cells, here, offset = self._cells, self._player, self._offsets[direction]
        there = here + offset
        entered = cells[there]
        if entered == WALL:
            return False
        if entered in (BOX, BOX_ON_TARGET):
            beyond = cells[there + offset]
            if beyond not in _BOX_COMES:
                return False
            cells[there + offset] = _BOX_COMES[beyond]
            self.boxes_on_target += (beyond == TARGET) - (entered == BOX_ON_TARGET)
        cells[there] = _PLAYER_COMES[entered]
        cells[here] = _PLAYER_GOES[cells[here]]
        self._player = there
        return True

    def plain(self) -> str:
        """The plain grid."""
        return "".join(self._cells)


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
