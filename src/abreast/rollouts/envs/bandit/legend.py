"""What a model is told about the states of the bandit."""

from abreast.rollouts.envs.bandit.config import BanditConfig


def legend(config: BanditConfig) -> str:
    """What the state shows; not which arm is which."""
    return "The state names the two arms. An action is the name of an arm."
