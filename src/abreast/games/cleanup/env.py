"""Cleanup as an environment."""

from collections.abc import Mapping
from typing import ClassVar

from abreast.games.cleanup.agents import ACTIONS, FACING_KINDS, FROZEN_KIND, CleanupAgent, clean, eat
from abreast.games.cleanup.entities import Apple, CleanBeam, Dirt, Grass, Orchard, Water, ZapBeam
from abreast.games.cleanup.world import CleanupConfig, CleanupWorld
from abreast.games.walkers import WalkersEnv
from abreast.training.environment import Script
from abreast.worlds import EmptyEntity, Wall

THINGS = (Wall, Water, Dirt, Orchard, Apple, CleanBeam, ZapBeam)


class CleanupEnv(WalkersEnv):
    """Agents who all want apples, and a river that somebody has to clean."""

    world_section = CleanupConfig
    world_kind = CleanupWorld
    agent_kind = CleanupAgent
    actions = ACTIONS
    seen_kinds = (*(thing.kind for thing in THINGS), *FACING_KINDS.values(), FROZEN_KIND)
    blank_kinds = (EmptyEntity.kind, Grass.kind)
    scripted: ClassVar[Mapping[str, Script]] = {"cooperate": clean, "defect": eat}
    world: CleanupWorld
    agents: list[CleanupAgent]

    def populate_environment(self) -> None:
        self.world.lay_out()
        self.world.let_in(self.agents)

    def metrics(self) -> Mapping[str, float]:
        """How dirty the river ended, and the turns that agents spent frozen."""
        return {
            "dirty_share": self.world.dirty_share,
            "timed_out": float(sum(agent.turns_missed for agent in self.agents)),
        }
