"""Countdown: reach a target number with the four operations and given numbers."""

from abreast.rollouts.envs.countdown.config import CountdownConfig
from abreast.rollouts.envs.countdown.env import CountdownEnv
from abreast.rollouts.envs.countdown.legend import legend
from abreast.rollouts.envs.countdown.solver import solve
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="countdown",
    summary="Combine all the given numbers into an expression whose value is the target; one answer.",
    env=CountdownEnv,
    config=CountdownConfig,
    instruction=(
        "You see some numbers and a target. Write one arithmetic expression whose value is the target. Use every number "
        "exactly once and no other number. You have one try."
    ),
    legend=legend,
    solver=solve,
)

__all__ = ["KIND", "CountdownConfig", "CountdownEnv"]
