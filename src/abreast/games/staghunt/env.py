"""Stag hunt as an environment."""

from abreast.games.staghunt.agents import StaghuntAgent
from abreast.games.staghunt.batched import BatchedStaghunt
from abreast.games.staghunt.entities import Hare, Moss, Stag, Tree
from abreast.games.staghunt.world import StaghuntConfig, StaghuntWorld
from abreast.games.walkers import WalkersEnv
from abreast.worlds import EmptyEntity

KINDS = [kind.kind for kind in (Tree, Hare, Stag, StaghuntAgent)]


class StaghuntEnv(WalkersEnv):
    """Agents hunt, alone or together."""

    world_section = StaghuntConfig
    world_kind = StaghuntWorld
    batched_world = BatchedStaghunt
    agent_kind = StaghuntAgent
    seen_kinds = KINDS
    blank_kinds = (EmptyEntity.kind, Moss.kind)
    outside_kind = Tree.kind
    world: StaghuntWorld
