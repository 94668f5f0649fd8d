"""The prisoners' dilemma as an environment."""

from collections.abc import Mapping
from typing import ClassVar

from abreast.errors import ConfigError
from abreast.games.prisoners.agents import TILES, PrisonersAgent, stand_to_cooperate, stand_to_defect
from abreast.games.prisoners.entities import CooperateTile, Floor
from abreast.games.prisoners.world import PrisonersConfig, PrisonersWorld
from abreast.games.walkers import GROUND, TOP, WalkersEnv
from abreast.training.environment import Script
from abreast.worlds import EmptyEntity, Wall


class PrisonersEnv(WalkersEnv):
    """Every turn, each agent on a tile plays against every other that is on one."""

    world_section = PrisonersConfig
    world_kind = PrisonersWorld
    agent_kind = PrisonersAgent
    seen_kinds = tuple(kind.kind for kind in (Wall, *TILES, PrisonersAgent))
    blank_kinds = (EmptyEntity.kind, Floor.kind)
    scripted: ClassVar[Mapping[str, Script]] = {"cooperate": stand_to_cooperate, "defect": stand_to_defect}
    world: PrisonersWorld
    agents: list[PrisonersAgent]

    def setup_agents(self) -> None:
        if self.config.experiment.num_agents < 2:
            raise ConfigError(
                "experiment.num_agents is 1, but a turn pays only agents who meet others: raise it to 2 or more."
            )
        super().setup_agents()

    def populate_environment(self) -> None:
        self.world.lay_out()
        free = self.world.cells_of(Floor.kind, GROUND)
        if len(self.agents) > len(free):
            self.world.scatter(self.agents, onto=Floor.kind, layer=GROUND)  # which says that there is no room
        for (row, column, _), agent in zip(free.draw(self.world.rng, len(self.agents)), self.agents, strict=True):
            self.world.add((row, column, TOP), agent)

    def after_turn(self) -> list[float]:
        """What each gets against the others, in their mean; those who are on no tile do not play."""
        choices = [agent.choice(self.world) for agent in self.agents]
        for agent, choice in zip(self.agents, choices, strict=True):
            agent.turns_cooperating += choice == CooperateTile.kind
            agent.turns_defecting += choice is not None and choice != CooperateTile.kind
        payoffs = []
        for number, mine in enumerate(choices):
            others = [other for index, other in enumerate(choices) if index != number and other is not None]
            earned = [self.world.payoff(mine, other) for other in others] if mine is not None else []
            payoffs.append(sum(earned) / len(earned) if earned else 0.0)
        return payoffs

    def metrics(self) -> Mapping[str, float]:
        """The share of turns on tiles that were spent cooperating."""
        cooperating = sum(agent.turns_cooperating for agent in self.agents)
        turns = cooperating + sum(agent.turns_defecting for agent in self.agents)
        return {"cooperation": cooperating / turns if turns else float("nan")}
