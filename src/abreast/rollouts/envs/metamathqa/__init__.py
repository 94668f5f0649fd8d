"""MetaMathQA: word problems, answered as often as it takes, for less reward each time."""

from abreast.rollouts.envs.metamathqa.config import MetaMathQAConfig
from abreast.rollouts.envs.metamathqa.env import MetaMathQAEnv
from abreast.rollouts.registry import EnvKind

KIND = EnvKind(
    name="metamathqa",
    summary="Answer a question of school mathematics; every wrong attempt halves the reward.",
    env=MetaMathQAEnv,
    config=MetaMathQAConfig,
    instruction=(
        "You see a question of school mathematics. Work out the result. After a wrong answer you may try again, but every "
        "wrong answer halves the reward."
    ),
    legend=lambda config: (
        "The state is the question and, after a wrong answer, how many attempts were made. An answer is the result "
        "alone, for example 42, 3/4 or Monday."
    ),
    by_mode={"train": {"split": "train"}, "val": {"split": "val"}},
    presets={"ragen": {"numbering": "python", "match": "text", "max_attempts": None}},
)
