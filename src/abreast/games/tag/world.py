"""The yard of tag."""

from pydantic import Field

from abreast.games.tag.entities import Crate, Grass
from abreast.games.walkers import GROUND, TOP, TwoLayerWorld
from abreast.settings import Section
from abreast.worlds import EmptyEntity, Wall


class TagConfig(Section):
    """Settings of the yard and of the rules played in it."""

    height: int = Field(10, ge=3, le=10_000)
    """Rows, the walls around included."""
    width: int = Field(10, ge=3, le=10_000)
    """Columns, the walls around included."""
    obstacles: int = Field(5, ge=0)
    """Crates in the yard, somewhere else each epoch."""
    taggers: int = Field(1, ge=1)
    """Agents that are it, drawn anew each epoch; at least one agent must not be."""
    safe_turns: int = Field(2, ge=0)
    """Turns for which whoever passed the tag on cannot be tagged; 0: it can be tagged back at once."""
    tag_reward: float = Field(5.0, ge=0)
    """Reward for tagging somebody."""
    tag_penalty: float = Field(10.0, ge=0)
    """Cost of being tagged."""
    it_cost: float = Field(0.5, ge=0)
    """Cost of each turn begun as it."""


class TagWorld(TwoLayerWorld):
    """Grass, walls around, and crates here and there."""

    section = TagConfig
    settings: TagConfig

    def lay_out(self) -> None:
        """Grass everywhere, walls around, crates in new places."""
        self.fill(GROUND, Grass)
        self.enclose(TOP, Wall)
        self.scatter([Crate() for _ in range(self.settings.obstacles)], onto=EmptyEntity.kind)
