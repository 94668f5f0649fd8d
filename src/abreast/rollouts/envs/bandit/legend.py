"""What a model is told about the states of the bandit."""

from collections.abc import Sequence

from abreast.rollouts.envs.bandit.config import BanditConfig


def legend(config: BanditConfig) -> str:
    """What the state shows; not which arm is which."""
    return "The state names the two arms. An action is the name of an arm."


def listed_actions(config: BanditConfig) -> Sequence[str]:
    """The names of the arms, if all episodes have the same two; otherwise the state names them."""
    return list(config.names.values()) if len(config.pairs) == 1 else []
