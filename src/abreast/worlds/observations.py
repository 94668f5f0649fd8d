"""What an agent sees: one-hot planes for networks, pixels for networks and people, characters for people and text models.

Every view is either partial (a square of `vision_radius` around the agent) or full (the whole map), and costs what it
shows: the world's grid of kinds is sliced, never searched.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from abreast.errors import ConfigError, WorldError
from abreast.worlds.basics import EmptyEntity
from abreast.worlds.entity import Location
from abreast.worlds.gridworld import Gridworld
from abreast.worlds.sprites import Painter


class ObservationSpec(ABC):
    """Turns a world and a location into what is seen from there.

    Exactly one of `vision_radius` (partial view) and `env_dims` = (height, width) of the map (full view) is given.
    """

    dtype: DTypeLike = np.uint8
    """Element type of an observation, and of the replay rows that hold it."""
    scale: float = 1.0
    """Factor that brings the values near 1 before a network sees them."""

    is_masked: bool = False
    """Whether not every action is legal at any time: the agent then says which are (`Agent.legal_actions`). Set it before a
    model is made."""

    def __init__(self, *, vision_radius: int | None = None, env_dims: tuple[int, int] | None = None) -> None:
        if (vision_radius is None) == (env_dims is None):
            raise ConfigError("an observation spec takes either vision_radius (partial view) or env_dims (full view).")
        if vision_radius is not None and vision_radius < 0:
            raise ConfigError(f"vision_radius is {vision_radius}: expected 0 or more.")
        self.vision_radius = vision_radius
        self.view: tuple[int, int] = env_dims or (2 * (vision_radius or 0) + 1,) * 2

    @property
    @abstractmethod
    def input_size(self) -> tuple[int, ...]:
        """Shape of an observation."""

    @abstractmethod
    def observe(self, world: Gridworld, location: Location) -> NDArray[Any]:
        """What is seen from a location."""

    def _kinds(self, world: Gridworld, location: Location) -> NDArray[np.int16]:
        if self.vision_radius is not None:
            return world.window(location, self.vision_radius)
        if world.kinds.shape[:2] != self.view:
            raise WorldError(f"the full view is of {self.view}, but the world is {world.kinds.shape[:2]}.")
        return world.kinds

    def _corner(self, location: Location) -> tuple[int, int]:
        if self.vision_radius is None:
            return 0, 0
        return location[0] - self.vision_radius, location[1] - self.vision_radius


class OneHotObservationSpec(ObservationSpec):
    """One plane per kind, layers summed; shape (rows, columns, kinds) of bytes. Beyond the edge is one `outside` per cell.

    Kinds in `blank` need no plane: a cell that holds nothing else is all zero. Leave the ground and empty cells out of
    `entity_list`: planes that are set nearly everywhere drown the few cells that matter, and learning takes twice as long
    (benchmarks/README.md).
    """

    def __init__(
        self,
        entity_list: Sequence[str],
        *,
        vision_radius: int | None = None,
        env_dims: tuple[int, int] | None = None,
        outside: str = "Wall",
        blank: Sequence[str] = (EmptyEntity.kind,),
    ) -> None:
        super().__init__(vision_radius=vision_radius, env_dims=env_dims)
        self.entity_list = list(entity_list)
        self.outside, self.blank = outside, frozenset(blank)
        self._planes: dict[tuple[str, ...], tuple[NDArray[np.uint8], NDArray[np.uint8]]] = {}

    @property
    def input_size(self) -> tuple[int, ...]:
        return (*self.view, len(self.entity_list))

    def observe(self, world: Gridworld, location: Location) -> NDArray[np.uint8]:
        kinds = self._kinds(world, location)
        bottom, above = self.planes(world.kind_names)
        seen: NDArray[np.uint8] = bottom.take(kinds[:, :, 0], axis=0)  # a third of the time of bottom[kinds[:, :, 0]]
        for layer in range(1, world.layers):
            seen += above.take(kinds[:, :, layer], axis=0)
        return seen

    def planes(self, kind_names: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The one-hot row of each kind number, on the bottom layer and on those above it: row 0 is beyond the edge, which is
        seen on the bottom only; row i + 1 the world's i-th kind.
        """
        names = (self.outside, *kind_names)
        found = self._planes.get(names)
        if found is None:
            planes = np.zeros((len(names), len(self.entity_list)), dtype=np.uint8)
            for number, kind in enumerate(names):
                if kind in self.entity_list:
                    planes[number, self.entity_list.index(kind)] = 1
                elif number != 0 and kind not in self.blank:
                    raise ConfigError(self._what_is_missing(kind, kind_names))
            above = planes.copy()
            above[0] = 0
            self._planes[names] = found = planes, above
        return found

    def _what_is_missing(self, kind: str, kind_names: Sequence[str]) -> str:
        """Why a kind of the world has no plane: its name is misspelt in the list, or it is not there."""
        unknown = [name for name in self.entity_list if name not in kind_names]
        for name in get_close_matches(kind, unknown, n=1):
            return f"the observation's entity_list has {name!r}, which the world does not hold: did you mean {kind!r}?"
        return f"the world holds {kind!r}, which the observation's entity_list leaves out: add it there, or to blank."


class RGBObservationSpec(ObservationSpec):
    """Pixels of the sprites; shape (rows·tile, columns·tile, 3) of bytes. Beyond the edge of the map is black."""

    scale = 1.0 / 255.0

    def __init__(
        self, *, vision_radius: int | None = None, env_dims: tuple[int, int] | None = None, tile: int = 8
    ) -> None:
        super().__init__(vision_radius=vision_radius, env_dims=env_dims)
        self._painter = Painter(tile)

    @property
    def input_size(self) -> tuple[int, ...]:
        tile = self._painter.tile
        return (self.view[0] * tile, self.view[1] * tile, 3)

    def observe(self, world: Gridworld, location: Location) -> NDArray[np.uint8]:
        self._kinds(world, location)  # refuses a world of another size
        return self._painter.draw(world, *self._corner(location), *self.view)


class AsciiObservationSpec(ObservationSpec):
    """One character a cell: the symbol of the topmost entity that has one; blank beyond the edge of the map."""

    dtype = np.dtype("U1")

    @property
    def input_size(self) -> tuple[int, ...]:
        return self.view

    def observe(self, world: Gridworld, location: Location) -> NDArray[np.str_]:
        self._kinds(world, location)
        top, left = self._corner(location)
        seen = np.full(self.view, " ", dtype="U1")
        for row in range(max(top, 0), min(top + self.view[0], world.height)):
            for column in range(max(left, 0), min(left + self.view[1], world.width)):
                symbols = [entity.symbol for entity in world.map[row, column] if entity.symbol.strip()]
                seen[row - top, column - left] = symbols[-1] if symbols else " "
        return seen

    def to_text(self, seen: NDArray[np.str_]) -> str:
        """An observation as lines of text."""
        return "\n".join("".join(row) for row in seen)
