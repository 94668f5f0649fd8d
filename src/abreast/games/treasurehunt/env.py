"""Treasure hunt as an environment."""

from abreast.games.treasurehunt.agents import TreasurehuntAgent
from abreast.games.treasurehunt.batched import BatchedTreasurehunt
from abreast.games.treasurehunt.entities import Bone, Food, Gem, Sand, Wall
from abreast.games.treasurehunt.world import TreasurehuntConfig, TreasurehuntWorld
from abreast.games.walkers import WalkersEnv
from abreast.worlds import EmptyEntity

KINDS = [kind.kind for kind in (Wall, Gem, Food, Bone, TreasurehuntAgent)]
GROUND = [kind.kind for kind in (EmptyEntity, Sand)]


class TreasurehuntEnv(WalkersEnv):
    """Agents hunt for gems."""

    world_section = TreasurehuntConfig
    world_kind = TreasurehuntWorld
    batched_world = BatchedTreasurehunt
    agent_kind = TreasurehuntAgent
    actions = ("up", "down", "left", "right")
    seen_kinds = KINDS
    blank_kinds = GROUND
    world: TreasurehuntWorld
