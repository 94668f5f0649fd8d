"""Frozen lake: a way over slippery ice, between holes."""

from abreast.rollouts.envs.frozen_lake.config import FrozenLakeConfig
from abreast.rollouts.envs.frozen_lake.env import FrozenLakeEnv
from abreast.rollouts.envs.frozen_lake.solver import solve
from abreast.rollouts.envs.grids import legend
from abreast.rollouts.registry import EnvKind


def _legend(config: FrozenLakeConfig) -> str:
    """What the state shows, and how moves end."""
    slippery = (
        f" The ice is slippery: a move goes where you meant with a chance of {config.success_rate:.0%}, otherwise to "
        "the left or to the right of that."
    )
    return legend(config, f"{slippery * config.is_slippery} A move against the border leaves you where you are.")


KIND = EnvKind(
    name="frozen_lake",
    summary="Cross a frozen lake to the goal without falling into a hole; the ice may be slippery.",
    env=FrozenLakeEnv,
    config=FrozenLakeConfig,
    instruction=("You walk on a frozen lake, seen from above. Go to the goal and do not step into a hole."),
    legend=_legend,
    solver=solve,
)
