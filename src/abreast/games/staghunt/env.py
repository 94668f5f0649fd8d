"""Stag hunt as an environment."""

from typing import Any

from abreast.games.staghunt.agents import StaghuntAgent
from abreast.games.staghunt.batched import BatchedStaghunt
from abreast.games.staghunt.entities import Hare, Moss, Stag, Tree
from abreast.games.staghunt.world import StaghuntConfig, StaghuntWorld
from abreast.training import Config, Environment
from abreast.worlds import ActionSpec, EmptyEntity, OneHotObservationSpec

KINDS = [kind.kind for kind in (Tree, Hare, Stag, StaghuntAgent)]
GROUND = [kind.kind for kind in (EmptyEntity, Moss)]


class StaghuntEnv(Environment):
    """Agents hunt, alone or together."""

    world_section = StaghuntConfig
    batched_world = BatchedStaghunt
    world: StaghuntWorld

    @classmethod
    def make_world(cls, config: Config[Any, Any]) -> StaghuntWorld:
        return StaghuntWorld(config)

    def setup_agents(self) -> None:
        actions = ActionSpec(["up", "down", "left", "right", "stay"])
        for number in range(self.config.experiment.num_agents):
            radius = self.config.model_of(number).agent_vision_radius
            view = OneHotObservationSpec(KINDS, vision_radius=radius, outside=Tree.kind, blank=GROUND)
            model = self.make_model(view, actions.n_actions, number)
            self.agents.append(StaghuntAgent(view, actions, model, number, self.config.world))

    def populate_environment(self) -> None:
        self.world.lay_out()
        self.world.scatter(self.agents, onto=EmptyEntity.kind)
