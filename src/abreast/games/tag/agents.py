"""Who plays tag."""

from abreast.games.tag.entities import Role, players
from abreast.games.tag.world import TagConfig
from abreast.games.walkers import Walker
from abreast.worlds import Gridworld


class TagAgent(Walker):
    """Walks about; while it is it, walking into a runner passes the tag on."""

    kind = Role.RUNNER.value
    symbol = Role.RUNNER.symbol
    role = Role.RUNNER
    settings: TagConfig
    safe_turns_left = 0

    def take_role(self, role: Role) -> None:
        """Be and look like this role. The world reads it when the agent is placed."""
        self.role = role
        self.kind, self.symbol = role.value, role.symbol
        self.direction_sprites = players(self.number, role)
        self.face(self.facing)

    def become(self, role: Role, world: Gridworld) -> None:
        """Change roles in the middle of the game."""
        self.take_role(role)
        world.add(self.location, self)

    def act(self, world: Gridworld, action: int) -> float:
        self._lose_safety(world)
        reward = -self.settings.it_cost if self.role is Role.TAGGER else 0.0
        destination = self.movement(action)
        other = world.observe(destination)
        if self.role is Role.TAGGER and isinstance(other, TagAgent) and other.role is Role.RUNNER:
            self._tag(other, world)
            reward += self.settings.tag_reward
        else:
            world.move(self, destination)
        return reward

    def _tag(self, other: "TagAgent", world: Gridworld) -> None:
        other.become(Role.TAGGER, world)
        other.give(-self.settings.tag_penalty)
        self.safe_turns_left = self.settings.safe_turns
        self.become(Role.SAFE if self.safe_turns_left else Role.RUNNER, world)

    def _lose_safety(self, world: Gridworld) -> None:
        """Counted in own turns: each other agent then misses exactly `safe_turns` chances, whatever the turn order."""
        if self.role is Role.SAFE:
            self.safe_turns_left -= 1
            if self.safe_turns_left == 0:
                self.become(Role.RUNNER, world)
