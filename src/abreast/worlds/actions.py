"""Names of actions, and the numbers models choose."""

from collections.abc import Sequence

from abreast.errors import ConfigError


class ActionSpec:
    """The actions an agent can choose from: names for people, numbers 0 … n-1 for models."""

    def __init__(self, actions: Sequence[str]) -> None:
        if not actions or len(set(actions)) != len(actions):
            raise ConfigError(f"the actions are {list(actions)!r}, expected at least one and no name twice.")
        self.actions = tuple(actions)
        self.n_actions = len(self.actions)

    def get_readable_action(self, action: int) -> str:
        """The name of action number `action`."""
        return self.actions[action]
