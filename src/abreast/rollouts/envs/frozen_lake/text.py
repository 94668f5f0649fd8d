"""The lake as a language model sees it, in the format and the symbols of the configuration, and reading it back."""

import re
from collections.abc import Iterable

from abreast.errors import RolloutError
from abreast.rollouts.envs.frozen_lake.cells import BY_NUMBER, FROZEN, GOAL, GROUND_UNDER, HOLE, STANDING_ON
from abreast.rollouts.envs.frozen_lake.config import FrozenLakeConfig

HEADING = "Cells are (row, column), counted from (0, 0) at the top left."
REST = "All other cells are ice."
NONE = "none"
_LISTED = re.compile(r"^(Player|Goal|Holes): (.+)$", re.MULTILINE)
_CELL = re.compile(r"\((\d+), (\d+)\)")
CHARACTERS = HEADING + REST + NONE + "PlayerGoalHoles: 0123456789\n"


def show(config: FrozenLakeConfig, plain: str) -> str:
    """What is seen of a lake, which is given as a grid in the symbols of `cells`."""
    if config.observation_format == "coord":
        return f"{_coordinates(plain)}\n{REST}"
    symbols = config.symbols
    shown_as = {ord(plain): symbol for plain, symbol in zip(BY_NUMBER, symbols, strict=True)}
    grid = plain if "".join(symbols) == BY_NUMBER else plain.translate(shown_as)
    return grid if config.observation_format == "grid" else f"{grid}\n{_coordinates(plain)}"


def longest(config: FrozenLakeConfig) -> int:
    """An upper bound for the length of any text."""
    size = config.size
    grid = size * (size * len(config.symbols[0]) + 1)
    if config.observation_format == "grid":
        return grid
    return grid + len(CHARACTERS) + size * size * len(f"({size}, {size}), ")


def read(config: FrozenLakeConfig, state: str) -> str:
    """The grid in the symbols of `cells` that a text shows."""
    size = config.size
    if config.observation_format == "coord":
        plain = _from_coordinates(size, dict(_LISTED.findall(state)))
    else:
        width, symbols = len(config.symbols[0]), dict(zip(config.symbols, BY_NUMBER, strict=True))
        rows = state.split("\n")[:size]
        cells = [[symbols.get(row[i : i + width], "") for i in range(0, len(row), width)] for row in rows]
        fits = len(cells) == size and all(len(row) == size and all(row) for row in cells)
        is_more = config.observation_format == "grid" and state.count("\n") >= size
        plain = "\n".join("".join(row) for row in cells) if fits and not is_more else ""
    if not plain:
        raise RolloutError(
            f"the solver of the frozen lake reads a map of {size} rows as text, but the state is {state[:200]!r}: "
            "set render_mode to text."
        )
    return plain


def _coordinates(plain: str) -> str:
    places: dict[str, list[str]] = {"Player": [], "Goal": [], "Holes": []}
    for row, cells in enumerate(plain.split("\n")):
        for column, symbol in enumerate(cells):
            ground = GROUND_UNDER.get(symbol, symbol)
            here = {"Player": symbol in GROUND_UNDER, "Goal": ground == GOAL, "Holes": ground == HOLE}
            for label in (label for label, is_here in here.items() if is_here):
                places[label].append(f"({row}, {column})")
    return "\n".join([HEADING, *(f"{label}: {', '.join(cells) or NONE}" for label, cells in places.items())])


def _from_coordinates(size: int, listed: dict[str, str]) -> str:
    if len(listed) < 3:
        return ""
    cells = [[FROZEN] * size for _ in range(size)]

    def put(label: str, symbol: str) -> None:
        for row, column in _cells(listed[label], size):
            cells[row][column] = symbol

    put("Holes", HOLE)
    put("Goal", GOAL)
    for row, column in _cells(listed["Player"], size):
        cells[row][column] = STANDING_ON[cells[row][column]]
    return "\n".join("".join(row) for row in cells)


def _cells(text: str, size: int) -> Iterable[tuple[int, int]]:
    cells = ((int(row), int(column)) for row, column in _CELL.findall(text))
    return (cell for cell in cells if max(cell) < size)
