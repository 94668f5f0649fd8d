"""The kitchen as an environment."""

from collections.abc import Mapping

from abreast.games.kitchen.agents import Carries, Cook
from abreast.games.kitchen.entities import Counter, Dishes, Floor, Hatch, Onions, PotState
from abreast.games.kitchen.world import KitchenConfig, KitchenWorld
from abreast.games.walkers import WalkersEnv
from abreast.worlds import EmptyEntity


class KitchenEnv(WalkersEnv):
    """Cooks share a kitchen, the work and the pay."""

    world_section = KitchenConfig
    world_kind = KitchenWorld
    agent_kind = Cook
    seen_kinds = (*(kind.kind for kind in (Counter, Onions, Dishes, Hatch)), *PotState, *Carries)
    blank_kinds = (EmptyEntity.kind, Floor.kind)
    outside_kind = Counter.kind
    world: KitchenWorld
    agents: list[Cook]

    def metrics(self) -> Mapping[str, float]:
        return {"soups": float(sum(agent.soups for agent in self.agents))}
