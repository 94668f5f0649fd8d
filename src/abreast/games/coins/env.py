"""Coins as an environment."""

from abreast.errors import ConfigError
from abreast.games.coins.agents import CoinsAgent, pick_all, pick_own
from abreast.games.coins.batched import BatchedCoins
from abreast.games.coins.entities import COINS, Floor
from abreast.games.coins.world import CoinsConfig, CoinsWorld
from abreast.games.walkers import WalkersEnv
from abreast.worlds import EmptyEntity, Wall


class CoinsEnv(WalkersEnv):
    """Two agents, and coins of two colours."""

    world_section = CoinsConfig
    world_kind = CoinsWorld
    batched_world = BatchedCoins
    agent_kind = CoinsAgent
    seen_kinds = tuple(kind.kind for kind in (Wall, *COINS, CoinsAgent))
    blank_kinds = (EmptyEntity.kind, Floor.kind)
    scripted = {"cooperate": pick_own, "defect": pick_all}
    world: CoinsWorld

    def setup_agents(self) -> None:
        if (agents := self.config.experiment.num_agents) > len(COINS):
            raise ConfigError(
                f"experiment.num_agents is {agents}, but coins have {len(COINS)} colours, one for each agent: leave it out."
            )
        super().setup_agents()

    def populate_environment(self) -> None:
        self.world.lay_out()
        self.world.scatter(self.agents, onto=EmptyEntity.kind)
