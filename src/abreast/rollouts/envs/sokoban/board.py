"""The room as the player sees it: symbols, moves, the texts that describe it, and reading them back.

The board is its own text, one character a cell and a line break between rows: showing it takes one `join`. Where a
configuration has other symbols (`grid_lookup`), they are put in for these when it is shown.
"""

import re
from collections.abc import Iterable, Sequence

from abreast.errors import RolloutError
from abreast.rollouts.envs.sokoban.grid import Room, cells_of, offsets, set_of

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = SYMBOLS = "#_O√XPS"

_PLAYER_COMES = {FLOOR: PLAYER, BOX: PLAYER, TARGET: PLAYER_ON_TARGET, BOX_ON_TARGET: PLAYER_ON_TARGET}
_PLAYER_GOES = {PLAYER: FLOOR, PLAYER_ON_TARGET: TARGET}
_BOX_COMES = {FLOOR: BOX, TARGET: BOX_ON_TARGET}

LEGEND = "Cells are (row, column), counted from (0, 0) at the top left."
WALLS_ARE_THE_REST = "All other cells are wall."
_LISTED = re.compile(r"^(Player|Boxes|Targets|Floor): ([(), \d]+)$", re.MULTILINE)
_CELL = re.compile(r"\((\d+), (\d+)\)")

TEXT_CHARACTERS = SYMBOLS + "\n" + LEGEND + WALLS_ARE_THE_REST + "PlayerBoxesTargetsFloor: 0123456789"


class Board:
    """A room in play."""

    def __init__(self, room: Room, symbols: Sequence[str] = SYMBOLS) -> None:
        is_usual = "".join(symbols) == SYMBOLS
        self._shown_as = None if is_usual else str.maketrans(dict(zip(SYMBOLS, symbols, strict=True)))
        self.rows, self.columns = room.rows, room.columns
        self.boxes = room.boxes.bit_count()
        self.boxes_on_target = (room.boxes & room.targets).bit_count()
        symbols = "".join(_symbol(room, cell) for cell in range(room.rows * room.columns))
        self._cells = list("\n".join(symbols[i : i + room.columns] for i in range(0, len(symbols), room.columns)))
        self._player = room.player + room.player // room.columns  # a line break more for each row above
        self._offsets = offsets(room.columns + 1)
        self._targets = _list("Targets", cells_of(room.targets), room.columns)
        self._floor = _list("Floor", cells_of(room.floor), room.columns)

    @property
    def solved(self) -> bool:
        return self.boxes_on_target == self.boxes

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

    def plain_grid(self) -> str:
        """One line a row, in the symbols of this module."""
        return "".join(self._cells)

    def grid(self) -> str:
        """One line a row."""
        plain = "".join(self._cells)
        return plain if self._shown_as is None else plain.translate(self._shown_as)

    def grid_coord(self) -> str:
        """The grid, and where things stand in it."""
        return f"{self.grid()}\n{LEGEND}\n{self._things()}"

    def coord(self) -> str:
        """Where things stand, and which cells are floor."""
        return f"{LEGEND}\n{self._things()}\n{self._floor}\n{WALLS_ARE_THE_REST}"

    def _things(self) -> str:
        stride = self.columns + 1
        boxes = (index for index, symbol in enumerate(self._cells) if symbol in (BOX, BOX_ON_TARGET))
        return f"{_list('Player', [self._player], stride)}\n{_list('Boxes', boxes, stride)}\n{self._targets}"


def longest_text(rows: int, columns: int, num_boxes: int, width: int = 1) -> int:
    """An upper bound for the length of any text of a room of this size, with symbols of this width."""
    listed = 1 + 2 * num_boxes + (rows - 2) * (columns - 2)
    return len(TEXT_CHARACTERS) + rows * (columns * width + 1) + listed * len(f"({rows}, {columns}), ")


def read_room(text: str, symbols: Sequence[str] = SYMBOLS) -> Room:
    """The room that a text of any of the three formats describes; `symbols` are those of its configuration."""
    lines = [line for line in (_plain(line, symbols) for line in text.splitlines()) if line]
    players = sum(line.count(PLAYER) + line.count(PLAYER_ON_TARGET) for line in lines)
    if players == 1 and len({len(line) for line in lines}) == 1:
        return _room_in_grid(lines)
    listed = dict(_LISTED.findall(text))
    if len(listed) == 4:
        return _room_in_lists(listed)
    raise RolloutError(f"the state {text[:80]!r} shows no room in text: take render_mode text.")


def _plain(line: str, symbols: Sequence[str]) -> str:
    """A row of the grid in the symbols of this module; empty if the line is none."""
    width, plain = len(symbols[0]), dict(zip(symbols, SYMBOLS, strict=True))
    cells = [plain.get(line[i : i + width], "") for i in range(0, len(line), width)]
    return "".join(cells) if all(cells) else ""


def _room_in_grid(lines: list[str]) -> Room:
    cells = "".join(lines)

    def where(*symbols: str) -> int:
        return set_of(cell for cell, symbol in enumerate(cells) if symbol in symbols)

    return Room(
        rows=len(lines),
        columns=len(lines[0]),
        floor=where(*SYMBOLS) & ~where(WALL),
        targets=where(TARGET, BOX_ON_TARGET, PLAYER_ON_TARGET),
        boxes=where(BOX, BOX_ON_TARGET),
        player=where(PLAYER, PLAYER_ON_TARGET).bit_length() - 1,
    )


def _room_in_lists(listed: dict[str, str]) -> Room:
    places = {label: [(int(row), int(column)) for row, column in _CELL.findall(text)] for label, text in listed.items()}
    rows, columns = (max(places) + 2 for places in zip(*places["Floor"], strict=True))  # beyond the floor is wall

    def where(label: str) -> int:
        return set_of(row * columns + column for row, column in places[label])

    return Room(rows, columns, where("Floor"), where("Targets"), where("Boxes"), where("Player").bit_length() - 1)


def _symbol(room: Room, cell: int) -> str:
    floor, target, box = (cells >> cell & 1 for cells in (room.floor, room.targets, room.boxes))
    if not floor:
        return WALL
    if cell == room.player:
        return PLAYER_ON_TARGET if target else PLAYER
    if box:
        return BOX_ON_TARGET if target else BOX
    return TARGET if target else FLOOR


def _list(label: str, cells: Iterable[int], columns: int) -> str:
    return f"{label}: " + ", ".join([f"({cell // columns}, {cell % columns})" for cell in cells])
