"""The policy that the command line names."""

from pathlib import Path

from abreast.errors import RolloutError, nearest
from abreast.plugins import is_target
from abreast.rollouts.drivers.client.chat import OpenAIPolicy
from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.policies.base import Policy
from abreast.rollouts.drivers.policies.function import FunctionPolicy
from abreast.rollouts.drivers.policies.human import HumanPolicy
from abreast.rollouts.drivers.policies.local import RandomPolicy, SolverPolicy
from abreast.rollouts.drivers.policies.replay import ReplayPolicy
from abreast.rollouts.registry import Tag

NAMES = ("random", "solver", "openai", "human", "replay")


def make_policy(config: PlayConfig, tag: Tag, seed: int = 0) -> Policy:
    """The policy of a rollout."""
    name = config.policy
    if is_target(name):
        return FunctionPolicy(name)
    if name not in NAMES:
        raise RolloutError(
            f"there is no policy {name!r}: {nearest(name, NAMES)} A function of your own is MODULE:FUNCTION or"
            " FILE.py:FUNCTION."
        )
    if name == "replay":
        if config.replay is None:
            raise RolloutError("the policy replay needs trajectories: name a run folder or a file after it.")
        return ReplayPolicy(Path(config.replay))
    if name == "openai":
        return OpenAIPolicy(config.server)
    if name == "human":
        return HumanPolicy()
    return RandomPolicy(seed) if name == "random" else SolverPolicy(tag)
