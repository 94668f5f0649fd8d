"""Who hunts."""

from abreast.agents import MovingAgent
from abreast.games.art import figures
from abreast.games.staghunt.entities import Stag, neighbours
from abreast.games.staghunt.world import StaghuntConfig
from abreast.models import BaseModel
from abreast.worlds import ActionSpec, Gridworld, ObservationSpec


class StaghuntAgent(MovingAgent):
    """Walks about, catches the hares it walks onto, and attacks the stags it walks into."""

    symbol = "@"

    def __init__(
        self, observation: ObservationSpec, actions: ActionSpec, model: BaseModel, number: int, settings: StaghuntConfig
    ) -> None:
        super().__init__(observation, actions, model)
        self.settings = settings
        self.direction_sprites = figures(number)
        self.face("down")

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
