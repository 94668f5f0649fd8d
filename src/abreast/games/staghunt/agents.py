"""Who hunts."""

from abreast.games.staghunt.entities import Stag, neighbours
from abreast.games.staghunt.world import StaghuntConfig
from abreast.games.walkers import Walker
from abreast.worlds import Gridworld


class StaghuntAgent(Walker):
    """Walks about, catches the hares it walks onto, and attacks the stags it walks into."""

    settings: StaghuntConfig

    def act(self, world: Gridworld, action: int) -> float:
        target = world.observe(self.movement(action))
        return self._attack(target, world) if isinstance(target, Stag) else super().act(world, action)

    def _attack(self, stag: Stag, world: Gridworld) -> float:
        beside = [world.observe(cell) for cell in neighbours(stag.location)]
        hunters = [entity for entity in beside if isinstance(entity, StaghuntAgent)]
        if len(hunters) < self.settings.hunters_needed:
            return -self.settings.stag_penalty
        world.remove(stag.location)
        for hunter in hunters:
            if hunter is not self:
                hunter.give(self.settings.stag_value)
        return self.settings.stag_value
