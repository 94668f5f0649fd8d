"""The valley of cleanup: a river on the left, an orchard on the right, a meadow between them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import pydantic
from pydantic import Field

from abreast.errors import WorldError
from abreast.games.cleanup.entities import Apple, Dirt, Grass, Orchard, Water
from abreast.games.things import Ground
from abreast.settings import Section
from abreast.training import Config, parse_config
from abreast.worlds import EmptyEntity, Entity, Gridworld, Location, Wall

GROUND, TOP, AIR = 0, 1, 2
"""The layers: water, dirt, grass and orchard; walls, apples and agents; beams."""


class CleanupConfig(Section):
    """Settings of the valley."""

    height: int = Field(11, ge=3, le=10_000)
    """Rows, the walls around included."""
    width: int = Field(13, ge=5, le=10_000)
    """Columns, the walls around included."""
    river_width: int = Field(3, ge=1)
    """Columns of river, along the left wall."""
    orchard_width: int = Field(4, ge=1)
    """Columns of orchard, along the right wall; what is left between river and orchard is meadow."""
    dirt_at_start: float = Field(0.2, ge=0, le=1)
    """Share of the river that is dirty when an episode begins."""
    dirt_prob: float = Field(0.01, ge=0, le=1)
    """Chance of a clean river cell to become dirty, each turn."""
    dirt_threshold: float = Field(0.4, gt=0, le=1)
    """Dirty share of the river from which on no apple grows."""
    apple_prob: float = Field(0.08, ge=0, le=1)
    """Chance of a bare orchard cell to bear an apple, each turn, with a spotless river; falls linearly with the dirt."""
    apple_value: float = 1.0
    """Reward for eating an apple."""
    beam_length: int = Field(3, ge=1)
    """Cells a beam reaches, unless a wall stops it earlier."""
    freeze_turns: int = Field(5, ge=1)
    """Turns for which an agent hit by a zap can do nothing."""
    zap_cost: float = Field(0.1, ge=0)
    """What a zap costs the agent that fires it, whether or not it hits."""
    hit_penalty: float = Field(1.0, ge=0)
    """What being hit by a zap costs."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        needed = self.river_width + self.orchard_width + 3  # two walls and at least one column of meadow
        if needed > self.width:
            raise ValueError(
                f"world.river_width is {self.river_width} and world.orchard_width is {self.orchard_width}, too much for"
                f" world.width {self.width}: with a wall on either side no meadow is left for the agents to start on."
                f" Raise width to {needed} or more, or lower the others."
            )
        return self


class CleanupWorld(Gridworld):
    """Dirt gathers in the river; apples grow in the orchard, the fewer the dirtier the river is."""

    def __init__(self, config: Mapping[str, Any] | Config[Any, Any]) -> None:
        self.settings: CleanupConfig = parse_config(config, CleanupConfig).world
        self.river_size: int = (self.settings.height - 2) * self.settings.river_width
        super().__init__(self.settings.height, self.settings.width, layers=3, default_entity=EmptyEntity())

    def lay_out(self) -> None:
        """Walls around; river, meadow and orchard inside; some of the river dirty, no apples yet."""
        self.enclose(TOP, Wall)
        for row in range(1, self.height - 1):
            for column in range(1, self.width - 1):
                self.add((row, column, GROUND), self._ground(column))
        dirty = round(self.settings.dirt_at_start * self.river_size)
        self.scatter([Dirt() for _ in range(dirty)], onto=Water.kind, layer=GROUND)

    def let_in(self, agents: Sequence[Entity]) -> None:
        """Put each agent on a random cell of the meadow. (`scatter` would put them into the ground, not onto it.)"""
        meadow, count = self.cells_of(Grass.kind, GROUND), len(agents)
        if count > len(meadow):
            raise WorldError(
                f"experiment.num_agents is {count}, but the meadow where agents start has {len(meadow)} cells:"
                " raise world.height or world.width, or lower num_agents."
            )
        for (row, column, _), agent in zip(meadow.draw(self.rng, count), agents, strict=True):
            self.add((row, column, TOP), agent)

    @property
    def dirty_share(self) -> float:
        """How much of the river is dirty, from 0 to 1."""
        return len(self.cells_of(Dirt.kind, GROUND)) / self.river_size

    @property
    def growth_chance(self) -> float:
        """The chance of a bare orchard cell to bear an apple this turn."""
        return self.settings.apple_prob * max(0.0, 1.0 - self.dirty_share / self.settings.dirt_threshold)

    def transition(self) -> None:
        super().transition()
        self.spawn(Dirt, onto=Water.kind, probability=self.settings.dirt_prob, layer=GROUND)
        self._grow_apples()

    def _grow_apples(self) -> None:
        # The orchard lies on the bottom layer and apples above it, so `spawn` cannot do this. Drawing from the whole
        # orchard and passing over occupied cells gives each bare cell the same chance as asking it alone.
        orchard = self.cells_of(Orchard.kind, GROUND)
        for row, column, _ in orchard.draw(self.rng, int(self.rng.binomial(len(orchard), self.growth_chance))):
            if self.observe((row, column, TOP)).kind == EmptyEntity.kind:
                self.add((row, column, TOP), Apple(self.settings.apple_value))

    def _ground(self, column: int) -> Ground:
        if column <= self.settings.river_width:
            return Water()
        return Orchard() if column >= self.width - 1 - self.settings.orchard_width else Grass()


def beam_path(world: Gridworld, start: Location, step: tuple[int, int], length: int) -> Iterator[tuple[int, int]]:
    """The (row, column) of each cell a beam crosses: `length` cells from the one after `start`, or fewer up to a wall."""
    row, column, _ = start
    for _ in range(length):
        row, column = row + step[0], column + step[1]
        if not world.valid_location((row, column, TOP)) or isinstance(world.observe((row, column, TOP)), Wall):
            return
        yield row, column
