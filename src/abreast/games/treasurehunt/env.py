"""Treasure hunt as an environment."""

from typing import Any

from abreast.games.treasurehunt.agents import TreasurehuntAgent
from abreast.games.treasurehunt.batched import BatchedTreasurehunt
from abreast.games.treasurehunt.entities import Bone, Food, Gem, Sand, Wall
from abreast.games.treasurehunt.world import TreasurehuntConfig, TreasurehuntWorld
from abreast.training import Config, Environment
from abreast.worlds import ActionSpec, EmptyEntity, OneHotObservationSpec

KINDS = [kind.kind for kind in (Wall, Gem, Food, Bone, TreasurehuntAgent)]
GROUND = [kind.kind for kind in (EmptyEntity, Sand)]


class TreasurehuntEnv(Environment):
    """Agents hunt for gems."""

    world_section = TreasurehuntConfig
    batched_world = BatchedTreasurehunt
    world: TreasurehuntWorld

    @classmethod
    def make_world(cls, config: Config[Any, Any]) -> TreasurehuntWorld:
        return TreasurehuntWorld(config)

    def setup_agents(self) -> None:
        actions = ActionSpec(["up", "down", "left", "right"])
        for number in range(self.config.experiment.num_agents):
            radius = self.config.model_of(number).agent_vision_radius
            view = OneHotObservationSpec(KINDS, vision_radius=radius, blank=GROUND)
            model = self.make_model(view, actions.n_actions, number)
            self.agents.append(TreasurehuntAgent(view, actions, model, number))

    def populate_environment(self) -> None:
        self.world.lay_out()
        self.world.scatter(self.agents, onto=EmptyEntity.kind)
