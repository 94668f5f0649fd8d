"""Frozen lake: a way over slippery ice, between holes."""

from abreast.rollouts.envs.frozen_lake.config import FrozenLakeConfig
from abreast.rollouts.envs.frozen_lake.env import FrozenLakeEnv
from abreast.rollouts.envs.frozen_lake.solver import solve
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="frozen_lake",
    summary="Cross a frozen lake to the goal without falling into a hole; the ice may be slippery.",
    env=FrozenLakeEnv,
    config=FrozenLakeConfig,
    instruction=(
        "You walk on a frozen lake, seen from above. Go to the goal and do not step into a hole. "
        "P is you, _ is ice, O is a hole, G is the goal; X is you in a hole, √ is you on the goal. "
        "The ice may be slippery: then a move may take you to the left or right of where you meant to go. "
        "A move against the border leaves you where you are. The moves are Left, Down, Right and Up."
    ),
    solver=solve,
)

__all__ = ["KIND", "FrozenLakeConfig", "FrozenLakeEnv"]
