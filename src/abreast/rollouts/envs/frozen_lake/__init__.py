"""Frozen lake: a way over slippery ice, between holes."""

from abreast.rollouts.envs.frozen_lake.config import FrozenLakeConfig
from abreast.rollouts.envs.frozen_lake.env import FrozenLakeEnv
from abreast.rollouts.envs.frozen_lake.legend import legend
from abreast.rollouts.envs.frozen_lake.solver import solve
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="frozen_lake",
    summary="Cross a frozen lake to the goal without falling into a hole; the ice may be slippery.",
    env=FrozenLakeEnv,
    config=FrozenLakeConfig,
    instruction=("You walk on a frozen lake, seen from above. Go to the goal and do not step into a hole."),
    legend=legend,
    solver=solve,
)

__all__ = ["KIND", "FrozenLakeConfig", "FrozenLakeEnv"]
