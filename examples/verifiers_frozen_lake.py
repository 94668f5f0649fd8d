"""FrozenLake as a taskset of verifiers. Its tasks, and an episode of each that is played here without a model.

pip install "abreast[verifiers]"
python examples/verifiers_frozen_lake.py
cd examples && vf-eval verifiers_frozen_lake --env.taskset.tag FrozenLake -n 8 -r 4 -m MODEL \\
    --env.player.runtime.type subprocess --push False           # verifiers' own command; its default runtime is a service
"""

import asyncio
from contextlib import asynccontextmanager
from itertools import islice
from types import SimpleNamespace
from typing import Any

from abreast.integrations.verifiers import AbreastConfig, AbreastEnv, AbreastTaskset

__all__ = ["AbreastEnv", "AbreastTaskset"]


class AlwaysRight:
    """In the place of an agent of verifiers, whose answers a model writes."""

    def __init__(self) -> None:
        self.scores: dict[str, float] = {}
        self.trace = SimpleNamespace(
            info={},
            record_reward=lambda name, value, weight: self.scores.update({name: value}),
            record_metric=lambda name, value: self.scores.update({name: value}),
        )

    @asynccontextmanager
    async def interaction(self, task: Any) -> Any:
        yield self

    async def turn(self, message: str) -> Any:
        return SimpleNamespace(last_reply="<think>Why not?</think><answer>Right</answer>", terminated=False)


async def main() -> None:
    taskset = AbreastTaskset(AbreastConfig(id="verifiers_frozen_lake", tag="FrozenLake"))
    env = AbreastEnv.__new__(AbreastEnv)  # made by verifiers otherwise, with its agents
    for task in islice(taskset, 3):
        player = AlwaysRight()
        await env.run(task, SimpleNamespace(player=player))
        print(task.data.name, player.scores)


if __name__ == "__main__":
    asyncio.run(main())
