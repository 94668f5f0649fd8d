"""Countdown: reach a target number with the four operations and given numbers."""

from abreast.rollouts.envs.countdown.config import CountdownConfig
from abreast.rollouts.envs.countdown.env import CountdownEnv
from abreast.rollouts.envs.countdown.solver import solve
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="countdown",
    summary="Combine all the given numbers into an expression whose value is the target; the first expression counts.",
    env=CountdownEnv,
    config=CountdownConfig,
    instruction=(
        "You see some numbers and a target. Write one arithmetic expression whose value is the target. Use every number "
        "exactly once and no other number. The first expression you give counts."
    ),
    legend=lambda config: (
        "The state lists the numbers and the target. An answer is the expression alone, made of the numbers, +, -, "
        "*, / and parentheses, for example (25 - 4) * 3."
    ),
    solver=solve,
    by_mode={"train": {"split": "train"}, "val": {"split": "val"}},
    presets={
        "ragen": {"numbering": "by_seed", "plus_minus_only": True, "max_instances": 20_000, "unreadable_ends": True}
    },
)
