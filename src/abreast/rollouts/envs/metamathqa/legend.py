"""What a model is told about the states of MetaMathQA."""

from abreast.rollouts.envs.metamathqa.config import MetaMathQAConfig


def legend(config: MetaMathQAConfig) -> str:
    """What the state shows, and what an answer looks like."""
    return (
        "The state is the question and, after a wrong answer, how many attempts were made. An answer is the result "
        "alone, for example 42, 3/4 or Monday."
    )
