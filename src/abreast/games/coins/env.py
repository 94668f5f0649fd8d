"""Coins as an environment."""

from collections.abc import Mapping
from typing import ClassVar

from abreast.games.coins.agents import CoinsAgent, pick_all, pick_own
from abreast.games.coins.batched import BatchedCoins
from abreast.games.coins.entities import COINS, Floor
from abreast.games.coins.world import CoinsConfig, CoinsWorld
from abreast.games.walkers import WalkersEnv
from abreast.training.environment import Script
from abreast.worlds import EmptyEntity, Wall


class CoinsEnv(WalkersEnv):
    """Coins of two colours, those of agents 0 and 1; all coins that others pick up are somebody else's."""

    world_section = CoinsConfig
    world_kind = CoinsWorld
    batched_world = BatchedCoins
    agent_kind = CoinsAgent
    seen_kinds = tuple(kind.kind for kind in (Wall, *COINS, CoinsAgent))
    blank_kinds = (EmptyEntity.kind, Floor.kind)
    scripted: ClassVar[Mapping[str, Script]] = {"cooperate": pick_own, "defect": pick_all}
    world: CoinsWorld
    agents: list[CoinsAgent]

    def metrics(self) -> Mapping[str, float]:
        """Coins picked up, and the share of them that were of the colour of who picked them up."""
        picked = sum(agent.picked for agent in self.agents)
        own = sum(agent.own_picked for agent in self.agents)
        return {"coins": float(picked), "own_colour": own / picked if picked else float("nan")}
