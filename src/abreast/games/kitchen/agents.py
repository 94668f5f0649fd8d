"""Who cooks."""

from enum import StrEnum

from abreast.games.art import figures
from abreast.games.kitchen.entities import Dishes, Hatch, Onions, Pot, PotState
from abreast.games.kitchen.world import KitchenConfig
from abreast.games.walkers import Walker
from abreast.worlds import Entity, Gridworld
from abreast.worlds.sprites import Pixels


class Carries(StrEnum):
    """What a cook has in its hands; the value is its kind, so everybody who sees the cook sees it."""

    NOTHING = "Cook"
    ONION = "CookWithOnion"
    DISH = "CookWithDish"
    SOUP = "CookWithSoup"


COLOURS = {Carries.ONION: (217, 164, 65), Carries.DISH: (247, 247, 244), Carries.SOUP: (143, 209, 79)}


class Cook(Walker):
    """Walks about; walking into something uses it."""

    kind = Carries.NOTHING.value
    settings: KitchenConfig

    def reset(self) -> None:
        super().reset()
        self.soups = 0
        """Served by this agent in this epoch."""
        self._hold(Carries.NOTHING)

    def act(self, world: Gridworld, action: int) -> float:
        target = world.observe(self.movement(action))
        reward = self._use(target, world)
        if reward is None:
            return super().act(world, action)
        world.add(self.location, self)  # its kind may have changed
        return reward

    def _use(self, target: Entity, world: Gridworld) -> float | None:
        """Use what stands there; None: there is nothing to use."""
        if isinstance(target, Onions | Dishes):
            if self.carries is not Carries.SOUP:
                self._hold(Carries.ONION if isinstance(target, Onions) else Carries.DISH)
            return 0.0
        if isinstance(target, Pot):
            return self._use_pot(target, world)
        if isinstance(target, Hatch):
            return self._serve(world) if self.carries is Carries.SOUP else 0.0
        return None

    def _use_pot(self, pot: Pot, world: Gridworld) -> float:
        if self.carries is Carries.ONION and pot.has_room:
            pot.add_onion(world)
            self._hold(Carries.NOTHING)
            return self.settings.onion_reward
        if self.carries is Carries.DISH and pot.state is PotState.READY:
            pot.empty(world)
            self._hold(Carries.SOUP)
            return self.settings.dish_reward
        return 0.0

    def _serve(self, world: Gridworld) -> float:
        self._hold(Carries.NOTHING)
        self.soups += 1
        for cook in {cook for kind in Carries for cook in world.get_entities_of_kind(kind.value)} - {self}:
            cook.give(self.settings.soup_value)  # type: ignore[attr-defined]
        return self.settings.soup_value

    def _hold(self, what: Carries) -> None:
        self.carries, self.kind = what, what.value
        self.direction_sprites = {facing: _with(what, figure) for facing, figure in figures(self.number).items()}
        self.face(self.facing)


def _with(what: Carries, figure: Pixels) -> Pixels:
    if what is Carries.NOTHING:
        return figure
    holding = figure.copy()
    holding[4:7, 2:6] = (*COLOURS[what], 255)
    return holding
