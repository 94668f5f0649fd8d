"""The grid: which entity stands where, what a cell's surroundings look like, and what changes by itself.

Beside the entities (`map`) the world keeps a grid of integers, one per kind, in step with them. Observations slice that
grid, so they cost what is seen, not the size of the map; entities that change by themselves are kept in a list of their
own, so a turn costs what changes, not the cells that exist.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from abreast.attributes import Made, true_copy
from abreast.errors import WorldError
from abreast.state import State
from abreast.worlds.cells import CellPool
from abreast.worlds.entity import Entity, Location

LAYOUT = frozenset({"_cells", "map", "_live", "_padded", "kinds", "_pools"})
"""Attributes that `create_world` makes anew."""
OUTSIDE = 0
"""The number that stands for 'beyond the edge of the map' in a window of kinds."""


class Gridworld:
    """A grid of `height` × `width` cells with `layers` entities each, filled with copies of `default_entity`.

    Change it through `add`, `remove` and `move`; `map` is for reading.
    """

    KNOWN: ClassVar[frozenset[str]] = LAYOUT.union(
        ["height", "width", "layers", "default_entity", "rng", "total_reward", "is_done", "_kind_numbers", "_margin"],
        ["times_laid_out"],
    )
    """Attributes of this class; any other is a subclass's own."""
    MADE_BY: ClassVar[Made] = (("_margin", "__init__"), ("_live", "create_world"))
    times_laid_out = 0
    """How often `create_world` has emptied the world."""

    def __init__(self, height: int, width: int, layers: int, default_entity: Entity, seed: int | None = None) -> None:
        for name, size in (("height", height), ("width", width), ("layers", layers)):
            if size < 1:
                raise WorldError(f"world.{name} is {size}: expected at least 1.")
        self.height, self.width, self.layers = height, width, layers
        self.default_entity = default_entity
        self.rng = np.random.default_rng(seed)
        self.total_reward = 0.0
        self.is_done = False
        self._kind_numbers: dict[str, int] = {}
        self._pools: dict[tuple[int, int], CellPool] = {}
        self._margin = 0
        self.create_world()

    def reseed(self, seed: np.random.SeedSequence) -> None:
        """Draw from a new stream from now on; an Environment calls this with a seed derived from experiment.seed."""
        self.rng = np.random.default_rng(seed)

    def create_world(self) -> None:
        """Empty the world: every cell gets a copy of the default entity, the total reward returns to 0."""
        shape = (self.height, self.width, self.layers)
        self.times_laid_out += 1
        self.total_reward = 0.0
        self.is_done = False
        self._cells: NDArray[Any] = np.empty(shape, dtype=object)
        self.map: NDArray[Any] = self._cells.view()
        self.map.flags.writeable = False  # a write here would leave the grid of kinds behind
        self._live: dict[Location, Entity] = {}
        self._allocate_kinds()
        default, number = self.default_entity, self.kind_number(self.default_entity.kind)
        self._pools = {pool: CellPool() for pool in self._pools}
        self.kinds[...] = number
        filled = [self._pools.get((number, layer)) for layer in range(self.layers)]
        for location in np.ndindex(shape):
            entity = default.clone()
            entity.location = location
            self._cells[location] = entity
            if default.has_transitions:
                self._live[location] = entity
            pool_here = filled[location[2]]
            if pool_here is not None:
                pool_here.add(location)

    def copy(self) -> Self:
        """A world of the same kind, empty, that shares nothing with this one; for one that holds no agents yet.

        Attributes that a subclass has added are copied deeply; one that cannot be is refused.
        """
        twin = type(self).__new__(type(self))
        twins: dict[int, Any] = {id(self): twin}
        for name, value in vars(self).items():
            if name in LAYOUT:
                continue
            try:
                vars(twin)[name] = true_copy(value, twins)
            except ValueError as error:
                raise WorldError(
                    f"{type(self).__name__}.{name} ({type(value).__name__}) cannot be copied for another lane: {error}."
                    " Make it something that can be copied, or set env.factory to a function that builds the environment"
                    " anew."
                ) from error
        twin._pools = {}
        twin.create_world()
        return twin

    def state(self) -> State:
        """What outlives `create_world`: where the random stream is, the numbers of kinds, and which cells are kept in pools.
        Worlds that keep more add it.

        (The order in a pool, and so what is drawn from it, depends on whether it was there when the world was laid out.)
        """
        names = self.kind_names
        pools = [[names[number - 1], layer] for number, layer in self._pools]
        return State({"stream": self.rng.bit_generator.state, "kinds": names, "pools": pools})

    def set_state(self, state: State) -> None:
        """Go on from where `state` was; what lies on the map counts until the next `create_world`."""
        self.rng.bit_generator.state = state.facts["stream"]
        kinds = state.facts.get("kinds", self.kind_names)
        names = [*kinds, *(name for name in self._kind_numbers if name not in kinds)]
        numbers = {name: number + 1 for number, name in enumerate(names)}
        renumbered = np.array([OUTSIDE, *(numbers[name] for name in self._kind_numbers)], dtype=np.int16)
        self._padded[...] = renumbered[self._padded]
        pools = state.facts.get("pools", [[self.kind_names[number - 1], layer] for number, layer in self._pools])
        self._kind_numbers, self._pools = numbers, {}
        for name, layer in pools:
            self.cells_of(name, layer)

    # ---- reading

    def observe(self, location: Location) -> Entity:
        """The entity at a location."""
        return self._cells[location]  # type: ignore[no-any-return]

    def observe_all_layers(self, location: Location) -> list[Entity]:
        """The entities of all layers at a location's row and column, bottom first."""
        return list(self._cells[location[0], location[1]])

    def valid_location(self, location: Location) -> bool:
        """Whether a location lies on the map."""
        row, column, layer = location
        return 0 <= row < self.height and 0 <= column < self.width and 0 <= layer < self.layers

    def window(self, location: Location, radius: int) -> NDArray[np.int16]:
        """Numbers of the kinds around a location: a view of shape (2r+1, 2r+1, layers), OUTSIDE beyond the edge."""
        if radius > self._margin:
            kinds = self.kinds
            self._margin = radius
            self._allocate_kinds()
            self.kinds[...] = kinds
        top, left = location[0] + self._margin - radius, location[1] + self._margin - radius
        return self._padded[top : top + 2 * radius + 1, left : left + 2 * radius + 1]

    def kind_number(self, kind: str) -> int:
        """The number of a kind in `kinds` and in windows; a kind not seen before gets the next free one."""
        return self._kind_numbers.setdefault(kind, len(self._kind_numbers) + 1)

    @property
    def kind_names(self) -> list[str]:
        """The kinds seen so far; the kind at position i has number i + 1 (0 is OUTSIDE)."""
        return list(self._kind_numbers)

    @property
    def changing(self) -> Iterable[Entity]:
        """The entities with transitions, in the order they were placed."""
        return self._live.values()

    def cells_of(self, kind: str, layer: int = -1) -> CellPool:
        """The cells of a layer (the top one unless given) that hold a kind; kept up to date from the first call on."""
        layer %= self.layers
        number = self.kind_number(kind)
        pool = self._pools.get((number, layer))
        if pool is None:
            pool = self._pools[number, layer] = CellPool()
            for row, column in np.argwhere(self.kinds[:, :, layer] == number).tolist():
                pool.add((row, column, layer))
        return pool

    def get_entities_of_kind(self, kind: str) -> list[Entity]:
        """All entities of a kind, on every layer."""
        return list(self._cells[self.kinds == self.kind_number(kind)])

    # ---- changing

    def add(self, location: Location, entity: Entity) -> None:
        """Put an entity at a location; what stood there is gone."""
        if not self.valid_location(location):
            raise WorldError(
                f"location {location} is outside the {self.height}x{self.width}x{self.layers} world:"
                " expected (row, column, layer) on the map."
            )
        self._place(location, entity)

    def remove(self, location: Location) -> Entity:
        """Take the entity at a location away and return it; a copy of the default entity takes its place."""
        entity = self.observe(location)
        self._place(location, self.default_entity.clone())
        return entity

    def move(self, entity: Entity, new_location: Location) -> bool:
        """Move an entity onto a passable one, which is gone then; returns whether it moved."""
        if not self.valid_location(new_location) or not self.observe(new_location).passable:
            return False
        old_location = entity.location
        self._place(new_location, entity)
        if old_location != new_location:
            self._place(old_location, self.default_entity.clone())
        return True

    def fill(self, layer: int, make: Callable[[], Entity]) -> None:
        """Put a new entity into every cell of a layer."""
        for row in range(self.height):
            for column in range(self.width):
                self._place((row, column, layer), make())

    def enclose(self, layer: int, make: Callable[[], Entity]) -> None:
        """Put a new entity into every cell at the edge of a layer."""
        for row in range(self.height):
            inner = row not in (0, self.height - 1)
            for column in sorted({0, self.width - 1}) if inner else range(self.width):
                self._place((row, column, layer), make())

    def scatter(self, entities: Sequence[Entity], onto: str, layer: int = -1) -> None:
        """Put entities into different random cells that hold the kind `onto`; too few such cells is an error."""
        free, count = self.cells_of(onto, layer), len(entities)
        if count > len(free):
            kinds = ", ".join(f"{number} {kind}" for kind, number in Counter(each.kind for each in entities).items())
            raise WorldError(
                f"{count} entities ({kinds}) need {count} free cells, but the {self.height}x{self.width}"
                f" world has {len(free)}: enlarge world.height or world.width, or lower their number"
                " (experiment.num_agents for agents)."
            )
        for location, entity in zip(free.draw(self.rng, count), entities, strict=True):
            self._place(location, entity)

    def spawn(self, make: Callable[[], Entity], onto: str, probability: float, layer: int = -1) -> None:
        """Each cell of kind `onto` turns into a new entity with `probability`, independently of the others.

        Drawing how many and then which is the same distribution as asking every cell, and costs only what changes.
        """
        pool = self.cells_of(onto, layer)
        for location in pool.draw(self.rng, int(self.rng.binomial(len(pool), probability))):
            self._place(location, make())

    def transition(self) -> None:
        """What the world does by itself in a turn: every entity with transitions, in the order they were placed.

        Worlds with rules of their own (items that grow anywhere, weather) extend this.
        """
        for entity in list(self._live.values()):
            if self._live.get(entity.location) is entity:  # else it is gone since the turn began
                entity.transition(self)

    # ---- inside

    def _place(self, location: Location, entity: Entity) -> None:
        entity.location = location
        self._cells[location] = entity
        number = self.kind_number(entity.kind)
        if self._pools:
            left = self._pools.get((self.kinds.item(location), location[2]))
            if left is not None:
                left.discard(location)
            entered = self._pools.get((number, location[2]))
            if entered is not None:
                entered.add(location)
        self.kinds[location] = number
        self._live.pop(location, None)
        if entity.has_transitions:
            self._live[location] = entity

    def _allocate_kinds(self) -> None:
        margin = self._margin
        shape = (self.height + 2 * margin, self.width + 2 * margin, self.layers)
        self._padded: NDArray[np.int16] = np.full(shape, OUTSIDE, dtype=np.int16)
        self.kinds: NDArray[np.int16] = self._padded[margin : margin + self.height, margin : margin + self.width]
