"""The policy that the command line names."""

from collections.abc import Callable

from abreast.errors import RolloutError, nearest
from abreast.plugins import is_target
from abreast.rollouts.drivers.client import OpenAIPolicy
from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.policies.base import Policy
from abreast.rollouts.drivers.policies.function import FunctionPolicy
from abreast.rollouts.drivers.policies.human import HumanPolicy
from abreast.rollouts.drivers.policies.local import RandomPolicy, SolverPolicy
from abreast.rollouts.drivers.policies.replay import ReplayPolicy
from abreast.rollouts.registry import Tag


def make_policy(config: PlayConfig, tag: Tag, seed: int = 0) -> Policy:
    """The policy of a rollout."""
    if is_target(config.policy):
        return FunctionPolicy(config.policy)
    makers: dict[str, Callable[[], Policy]] = {
        "random": lambda: RandomPolicy(seed),
        "solver": lambda: SolverPolicy(tag),
        "openai": lambda: OpenAIPolicy(config.server),
        "human": HumanPolicy,
        "replay": lambda: ReplayPolicy(config.replay),
    }
    if config.policy not in makers:
        raise RolloutError(
            f"there is no policy {config.policy!r}: {nearest(config.policy, makers)} A function of your own is"
            " MODULE:FUNCTION or FILE.py:FUNCTION."
        )
    return makers[config.policy]()
