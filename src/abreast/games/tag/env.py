"""Tag as an environment."""

from typing import Any

from abreast.errors import ConfigError
from abreast.games.tag.agents import TagAgent
from abreast.games.tag.entities import Crate, Grass, Role
from abreast.games.tag.world import TagConfig, TagWorld
from abreast.training import Config, Environment
from abreast.worlds import ActionSpec, EmptyEntity, OneHotObservationSpec, Wall

KINDS = [kind.kind for kind in (Wall, Crate)] + [role.value for role in Role]
GROUND = [kind.kind for kind in (EmptyEntity, Grass)]


class TagEnv(Environment):
    """Agents run from whoever is it."""

    world_section = TagConfig
    world: TagWorld
    agents: list[TagAgent]

    @classmethod
    def make_world(cls, config: Config[Any, Any]) -> TagWorld:
        return TagWorld(config)

    def setup_agents(self) -> None:
        taggers, number_of_agents = self.config.world.taggers, self.config.experiment.num_agents
        if taggers >= number_of_agents:
            raise ConfigError(
                f"world.taggers is {taggers}, but experiment.num_agents is {number_of_agents}: nobody would be left to"
                " tag. Lower world.taggers or raise experiment.num_agents."
            )
        actions = ActionSpec(["up", "down", "left", "right", "stay"])
        for number in range(number_of_agents):
            radius = self.config.model_of(number).agent_vision_radius
            view = OneHotObservationSpec(KINDS, vision_radius=radius, blank=GROUND)
            model = self.make_model(view, actions.n_actions, number)
            self.agents.append(TagAgent(view, actions, model, number, self.config.world))

    def populate_environment(self) -> None:
        self.world.lay_out()
        order = self.world.rng.permutation(len(self.agents))
        for place, number in enumerate(order):
            self.agents[number].take_role(Role.TAGGER if place < self.config.world.taggers else Role.RUNNER)
        self.world.scatter(self.agents, onto=EmptyEntity.kind)
