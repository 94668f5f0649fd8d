"""Cleanup as an environment."""

from collections.abc import Mapping
from typing import Any, ClassVar

from abreast.games.cleanup.agents import ACTIONS, FACING_KINDS, FROZEN_KIND, CleanupAgent, clean, eat
from abreast.games.cleanup.entities import Apple, CleanBeam, Dirt, Grass, Orchard, Water, ZapBeam
from abreast.games.cleanup.world import CleanupConfig, CleanupWorld
from abreast.training import Config, Environment
from abreast.training.environment import Script
from abreast.worlds import ActionSpec, EmptyEntity, OneHotObservationSpec, Wall

THINGS = (Wall, Water, Dirt, Orchard, Apple, CleanBeam, ZapBeam)
GROUND = [kind.kind for kind in (EmptyEntity, Grass)]
KINDS = [*(thing.kind for thing in THINGS), *FACING_KINDS.values(), FROZEN_KIND]


class CleanupEnv(Environment):
    """Agents who all want apples, and a river that somebody has to clean."""

    world_section = CleanupConfig
    scripted: ClassVar[Mapping[str, Script]] = {"cooperate": clean, "defect": eat}
    world: CleanupWorld
    agents: list[CleanupAgent]

    @classmethod
    def make_world(cls, config: Config[Any, Any]) -> CleanupWorld:
        return CleanupWorld(config)

    def setup_agents(self) -> None:
        actions = ActionSpec(ACTIONS)
        for number in range(self.config.experiment.num_agents):
            radius = self.config.model_of(number).agent_vision_radius
            view = OneHotObservationSpec(KINDS, vision_radius=radius, blank=GROUND)
            model = self.make_model(view, actions.n_actions, number)
            self.agents.append(CleanupAgent(view, actions, model, number, self.config.world))

    def populate_environment(self) -> None:
        self.world.lay_out()
        self.world.let_in(self.agents)

    def metrics(self) -> Mapping[str, float]:
        """How dirty the river ended, and the turns that agents spent frozen."""
        return {
            "dirty_share": self.world.dirty_share,
            "timed_out": float(sum(agent.turns_missed for agent in self.agents)),
        }
