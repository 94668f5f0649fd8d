"""Who eats apples, and two ways to do so."""

from collections.abc import Callable

from abreast.games.harvest.entities import Apple
from abreast.games.walkers import Walker, walk_towards
from abreast.worlds import Gridworld, Location

ENOUGH = 4
"""Apples near one, for an agent that shows restraint to eat it."""


class HarvestAgent(Walker):
    """Walks about, and eats the apples it walks onto."""


def eat_with_restraint(agent: HarvestAgent, world: Gridworld) -> int:
    """Walk to apples among others, and wait while there are none."""
    near = world.apples_near()  # type: ignore[attr-defined]
    return _walk_to(agent, world, lambda cell: bool(near[cell[:2]] >= ENOUGH))


def eat_all(agent: HarvestAgent, world: Gridworld) -> int:
    """Walk to the nearest apple, be it the last."""
    return _walk_to(agent, world, lambda cell: True)


def _walk_to(agent: HarvestAgent, world: Gridworld, is_wanted: Callable[[Location], bool]) -> int:
    return walk_towards(agent, world, lambda cell: isinstance(world.observe(cell), Apple) and is_wanted(cell))
