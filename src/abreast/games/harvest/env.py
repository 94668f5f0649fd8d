"""Commons harvest as an environment."""

from collections.abc import Mapping
from typing import ClassVar

from abreast.games.harvest.agents import HarvestAgent, eat_all, eat_with_restraint
from abreast.games.harvest.batched import BatchedHarvest
from abreast.games.harvest.entities import Apple, Grass
from abreast.games.harvest.world import HarvestConfig, HarvestWorld
from abreast.games.walkers import WalkersEnv
from abreast.training.environment import Script
from abreast.worlds import EmptyEntity, Wall


class HarvestEnv(WalkersEnv):
    """Agents share a meadow whose apples grow back, while there are any."""

    world_section = HarvestConfig
    world_kind = HarvestWorld
    batched_world = BatchedHarvest
    agent_kind = HarvestAgent
    seen_kinds = tuple(kind.kind for kind in (Wall, Apple, HarvestAgent))
    blank_kinds = (EmptyEntity.kind, Grass.kind)
    scripted: ClassVar[Mapping[str, Script]] = {"cooperate": eat_with_restraint, "defect": eat_all}
    world: HarvestWorld

    def metrics(self) -> Mapping[str, float]:
        return {"apples_left": float(len(self.world.cells_of(Apple.kind)))}
