"""Who chooses by where it stands, and two ways to choose."""

from abreast.games.prisoners.entities import CooperateTile, DefectTile
from abreast.games.walkers import GROUND, Walker, walk_towards
from abreast.worlds import Entity, Gridworld

TILES = (CooperateTile, DefectTile)


class PrisonersAgent(Walker):
    """Walks about; the tile it stands on is its choice."""

    def reset(self) -> None:
        super().reset()
        self.turns_cooperating = self.turns_defecting = 0

    def choice(self, world: Gridworld) -> str | None:
        """The kind of the tile it stands on; None: it stands on none."""
        below = world.observe((*self.location[:2], GROUND))
        return below.kind if isinstance(below, TILES) else None


def stand_to_cooperate(agent: PrisonersAgent, world: Gridworld) -> int:
    """Walk to a tile to cooperate on, and stay there."""
    return _walk_to(agent, world, CooperateTile)


def stand_to_defect(agent: PrisonersAgent, world: Gridworld) -> int:
    """Walk to a tile to defect on, and stay there."""
    return _walk_to(agent, world, DefectTile)


def _walk_to(agent: PrisonersAgent, world: Gridworld, tile: type[Entity]) -> int:
    if agent.choice(world) == tile.kind:
        return agent.action_spec.actions.index("stay")
    return walk_towards(
        agent,
        world,
        lambda cell: world.observe(cell).passable and isinstance(world.observe((*cell[:2], GROUND)), tile),
    )
