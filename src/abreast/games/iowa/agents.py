"""Who gambles."""

from abreast.games.iowa.entities import DECKS, Deck
from abreast.games.iowa.world import IowaConfig
from abreast.games.walkers import Walker
from abreast.worlds import Gridworld


class IowaAgent(Walker):
    """Walks about; walking into a deck turns a card of it."""

    settings: IowaConfig

    def reset(self) -> None:
        super().reset()
        self.cards_of = dict.fromkeys((deck.kind for deck in DECKS), 0)
        """How many cards it has turned, by deck."""

    def act(self, world: Gridworld, action: int) -> float:
        deck = world.observe(self.movement(action))
        if not isinstance(deck, Deck):
            return super().act(world, action)
        self.cards_of[deck.kind] += 1
        return deck.draw(world) * self.settings.scale
