"""Worlds of cells, seen from above: their settings, the texts and pictures that show them, and reading texts back.

A world is kept as its plain grid: one character a cell, a line break between rows. The three observation formats are

    grid         the plain grid, in the symbols of `grid_lookup` if there is one
    coord        for each label (Player, Goal and so on) the cells where one of its symbols is
    grid_coord   both
"""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
from gymnasium.spaces import Discrete, Text
from numpy.typing import NDArray
from pydantic import Field, model_validator

from abreast.errors import RolloutError
from abreast.rollouts.config import EnvConfig
from abreast.rollouts.envs.base import TextEnv

HEADING = "Cells are (row, column), counted from (0, 0) at the top left."
_LISTED = re.compile(r"^(\w+): ([(), \d]+|none)$", re.MULTILINE)
_CELL = re.compile(r"\((\d+), (\d+)\)")

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class World:
    """What is the same in all configurations of an environment."""

    symbols: str
    """The characters of the plain grid, in the order of their numbers in `grid_lookup`."""
    meanings: tuple[str, ...]
    """What they stand for."""
    labels: Mapping[str, str]
    """By label of a list of coordinates: the symbols whose cells it lists."""
    rest: str
    """What cells are that no list names."""
    moves: tuple[str, str, str, str]
    """What the actions 1 to 4 mean."""
    place: str
    """What is seen from above."""
    symbols_in_words: str
    coordinates_in_words: str
    picture_in_words: str
    only_in_coord: frozenset[str] = frozenset()
    """Labels that are left out where there is a grid, too."""


class GridConfig(EnvConfig):
    """Settings of a world of cells."""

    WORLD: ClassVar[World]

    action_lookup: dict[int, str] = Field(default_factory=dict)
    render_mode: Literal["text", "rgb_array"] = "text"
    """What `render` returns: the text of the state, or a picture of it."""
    observation_format: Literal["grid", "coord", "grid_coord"] = "grid"
    """The text of the state: a grid of symbols, a list of coordinates, or both."""
    max_steps: int = Field(100, ge=1, le=1_000_000)
    """Moves after which an episode is cut off; an unknown action is no move."""
    grid_lookup: dict[int, str] | None = None
    """Symbols by number, all of the same length, one character or more."""
    grid_vocab: dict[str, str] | None = None
    """What each symbol means, for the legend in the instruction; null: in the words of the README."""

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        if set(self.action_lookup) != {1, 2, 3, 4}:
            meant = ", ".join(f"{number} ({move})" for number, move in enumerate(self.WORLD.moves, start=1))
            raise ValueError(
                f"action_lookup is {self.action_lookup}: expected four names, for {meant}. Leave it out, or name all four."
            )
        symbols, numbers = self.symbols, list(range(len(self.WORLD.symbols)))
        is_complete = sorted(self.grid_lookup or numbers) == numbers and len(set(symbols)) == len(numbers)
        are_lines = all(symbol.splitlines() == [symbol] for symbol in symbols)  # not empty, without line breaks
        if not is_complete or not are_lines or len({len(symbol) for symbol in symbols}) > 1:
            raise ValueError(
                f"grid_lookup is {self.grid_lookup}: expected a symbol for each of the numbers {numbers}, and symbols that"
                " differ, have the same length and are without line breaks, so that rows can be read."
            )
        if self.grid_vocab is not None and set(self.grid_vocab) != set(symbols):
            raise ValueError(
                f"grid_vocab is {self.grid_vocab}, but the symbols of grid_lookup are {', '.join(map(repr, symbols))}: give"
                " a meaning for each of them, or leave it out."
            )
        return self

    @property
    def symbols(self) -> tuple[str, ...]:
        """What the characters of the plain grid are shown as, in the same order."""
        lookup = self.grid_lookup
        return tuple(self.WORLD.symbols) if lookup is None else tuple(lookup[number] for number in sorted(lookup))

    @property
    def meanings(self) -> dict[str, str]:
        """What each symbol means."""
        usual = dict(zip(self.symbols, self.WORLD.meanings, strict=True))
        return usual if self.grid_vocab is None else {symbol: self.grid_vocab[symbol] for symbol in usual}

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        raise NotImplementedError


class GridEnv(TextEnv[int]):
    """An environment in a world of cells; its class calls `_see` when something has changed."""

    metadata = {"render_modes": ["text", "rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's own form)
    TILES: ClassVar[Mapping[str, Pixels]]
    """A picture of each symbol."""

    def __init__(self, config: GridConfig) -> None:
        self.render_mode = config.render_mode
        (rows, columns), symbols = config.shape, config.symbols
        grid = rows * (columns * len(symbols[0]) + 1) - 1
        frame = show(config, "") + "".join([*symbols, "none, (0123456789)\n"])
        listed = rows * columns * len(config.WORLD.labels) * len(f"({rows}, {columns}), ")
        self.observation_space = Text(len(frame) + grid + listed, charset=frozenset(frame))
        self.action_space = Discrete(4, start=1)  # type: ignore[assignment]  # its numbers are numpy's

    def _see(self, config: GridConfig, plain: str) -> None:
        self._plain, self._text = plain, show(config, plain)

    def render(self) -> str | Pixels:
        """The text of the state or, with `render_mode` rgb_array, a picture of it."""
        text: str = super().render()
        return text if self.render_mode == "text" else draw(self.TILES, self._plain)


def legend(config: GridConfig, more: str = "") -> str:
    """What the state shows in the format that is in use, and what each move does where its name does not tell."""
    world, coordinates = config.WORLD, config.WORLD.coordinates_in_words
    is_usual = config.grid_lookup is None and config.grid_vocab is None
    symbols = world.symbols_in_words if is_usual else ", ".join(" ".join(each) for each in config.meanings.items())
    grid = f"The state is the {world.place} from above, one symbol a cell: {symbols}."
    formats = {
        "grid": grid,
        "coord": f"The state lists the cells of things {coordinates}",
        "grid_coord": f"{grid} Below it, the cells of things are listed {coordinates}",
    }
    state = world.picture_in_words if config.render_mode == "rgb_array" else formats[config.observation_format]
    meant = [(config.action_lookup[number], move) for number, move in enumerate(world.moves, start=1)]
    if all(name.strip().casefold() == move for name, move in meant):
        return f"{state}{more}"
    return f"{state}{more} {', '.join(f'{name} means {move}' for name, move in meant)}."


def show(config: GridConfig, plain: str) -> str:
    """The text of the state that a plain grid is."""
    world = config.WORLD
    grid = plain
    if config.grid_lookup is not None:
        grid = plain.translate(dict(zip(map(ord, world.symbols), config.symbols, strict=True)))
    if config.observation_format == "grid":
        return grid
    if config.observation_format == "coord":
        return f"{HEADING}\n{_lists(plain, world.labels)}\nAll other cells are {world.rest}."
    return f"{grid}\n{HEADING}\n{_lists(plain, world.labels, world.only_in_coord)}"


def read(config: GridConfig, text: str) -> list[str]:
    """The rows of the plain grid that a text of any format shows."""
    width, plain = len(config.symbols[0]), dict(zip(config.symbols, config.WORLD.symbols, strict=True))
    lines = ([plain.get(line[i : i + width], "") for i in range(0, len(line), width)] for line in text.splitlines())
    rows = ["".join(cells) for cells in lines if cells and all(cells)]
    if not rows:
        rows = _from_lists(config, {label: _CELL.findall(cells) for label, cells in _LISTED.findall(text)})
    players = sum(symbol in config.WORLD.labels["Player"] for row in rows for symbol in row)
    if players != 1 or len({len(row) for row in rows}) != 1:
        raise RolloutError(f"the state {text[:80]!r} shows no {config.WORLD.place} in text: take render_mode text.")
    return rows


def _from_lists(config: GridConfig, listed: Mapping[str, Sequence[tuple[str, str]]]) -> list[str]:
    if listed.keys() != config.WORLD.labels.keys():
        return []
    places = {label: {(int(row), int(column)) for row, column in cells} for label, cells in listed.items()}
    by_labels = {_labels(symbol, config.WORLD.labels): symbol for symbol in config.WORLD.symbols}
    rows, columns = config.shape
    return [
        "".join(by_labels.get(_labels((row, column), places), "") for column in range(columns)) for row in range(rows)
    ]


def _labels(thing: Any, lists: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(label for label, things in lists.items() if thing in things)


def _lists(plain: str, labels: Mapping[str, str], left_out: Container[str] = ()) -> str:
    names = _cell_names(plain.find("\n") + 1, len(plain))
    cells = {
        label: [names[place] for place, symbol in enumerate(plain) if symbol in symbols]
        for label, symbols in labels.items()
        if label not in left_out
    }
    return "\n".join([f"{label}: {', '.join(its) or 'none'}" for label, its in cells.items()])


@cache
def _cell_names(line: int, length: int) -> list[str]:
    """Row and column of each place in a plain grid."""
    return [f"({place // line}, {place % line})" for place in range(length)]


# ---- pictures


def make_tiles(drawings: Mapping[str, Sequence[str]], palette: Mapping[str, str], scale: int) -> dict[str, Pixels]:
    """A picture of each symbol: its drawing, one character a dot, enlarged."""
    colours = {dot: tuple(bytes.fromhex(colour.removeprefix("#"))) for dot, colour in palette.items()}
    dots = {symbol: [[colours[dot] for dot in row] for row in rows] for symbol, rows in drawings.items()}
    return {
        symbol: np.array(rows, dtype=np.uint8).repeat(scale, axis=0).repeat(scale, axis=1)
        for symbol, rows in dots.items()
    }


def draw(tiles: Mapping[str, Pixels], plain: str) -> Pixels:
    """The picture of a plain grid, (rows · height, columns · width, 3)."""
    return np.concatenate([np.concatenate([tiles[symbol] for symbol in row], axis=1) for row in plain.split("\n")])
