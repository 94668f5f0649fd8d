"""Tag as an environment."""

from abreast.errors import ConfigError
from abreast.games.tag.agents import TagAgent
from abreast.games.tag.entities import Crate, Grass, Role
from abreast.games.tag.world import TagConfig, TagWorld
from abreast.games.walkers import WalkersEnv
from abreast.worlds import EmptyEntity, Wall

KINDS = [kind.kind for kind in (Wall, Crate)] + [role.value for role in Role]


class TagEnv(WalkersEnv):
    """Agents run from whoever is it."""

    world_section = TagConfig
    world_kind = TagWorld
    agent_kind = TagAgent
    seen_kinds = KINDS
    blank_kinds = (EmptyEntity.kind, Grass.kind)
    world: TagWorld
    agents: list[TagAgent]

    def setup_agents(self) -> None:
        taggers, number_of_agents = self.config.world.taggers, self.config.experiment.num_agents
        if taggers >= number_of_agents:
            raise ConfigError(
                f"world.taggers is {taggers}, but experiment.num_agents is {number_of_agents}: nobody would be left to"
                " tag. Lower world.taggers or raise experiment.num_agents."
            )
        super().setup_agents()

    def populate_environment(self) -> None:
        self.world.lay_out()
        order = self.world.rng.permutation(len(self.agents))
        for place, number in enumerate(order):
            self.agents[number].take_role(Role.TAGGER if place < self.config.world.taggers else Role.RUNNER)
        self.world.scatter(self.agents, onto=EmptyEntity.kind)
