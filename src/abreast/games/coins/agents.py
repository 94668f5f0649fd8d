"""Who picks up coins."""

from abreast.games.coins.entities import Coin
from abreast.games.coins.world import CoinsConfig
from abreast.games.walkers import Walker, walk_towards
from abreast.worlds import Gridworld


class CoinsAgent(Walker):
    """Walks onto coins; one of the other's colour costs the other."""

    settings: CoinsConfig

    def reset(self) -> None:
        super().reset()
        self.picked = self.own_picked = 0
        """Coins that it has picked up in this epoch: of either colour, and of its own."""

    def act(self, world: Gridworld, action: int) -> float:
        target = world.observe(self.movement(action))
        reward = super().act(world, action)
        if not isinstance(target, Coin):
            return reward
        self.picked += 1
        self.own_picked += target.owner == self.number
        if target.owner != self.number:
            for other in world.get_entities_of_kind(self.kind):
                if isinstance(other, CoinsAgent) and other.number == target.owner:
                    other.give(-self.settings.coin_penalty)
        return reward


def pick_own(agent: CoinsAgent, world: Gridworld) -> int:
    """Walk to coins of one's own colour, and wait while there is none."""
    return _walk_to(agent, world, (agent.number,))


def pick_all(agent: CoinsAgent, world: Gridworld) -> int:
    """Walk to every coin."""
    return _walk_to(agent, world, (0, 1))


def _walk_to(agent: CoinsAgent, world: Gridworld, owners: tuple[int, ...]) -> int:
    return walk_towards(
        agent, world, lambda cell: isinstance(coin := world.observe(cell), Coin) and coin.owner in owners
    )
