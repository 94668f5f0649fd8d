"""What a model is told about the states of countdown."""

from abreast.rollouts.envs.countdown.config import CountdownConfig


def legend(config: CountdownConfig) -> str:
    """What the state shows, and what an answer looks like."""
    return (
        "The state lists the numbers and the target. An answer is the expression alone, made of the numbers, +, -, "
        "*, / and parentheses, for example (25 - 4) * 3."
    )
