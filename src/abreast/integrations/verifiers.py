"""verifiers: a taskset whose tasks are episodes of a tag, and the environment that plays them.

verifiers finds a taskset by the name of its module. So write one, say `my_games.py`, and run `vf-eval my_games`:

    from abreast.integrations.verifiers import AbreastEnv, AbreastTaskset
    __all__ = ["AbreastEnv", "AbreastTaskset"]

All rollouts of a task share its seed, which is the first seed and the number of the task.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from abreast.integrations.trainers import require, shared_episodes

require("verifiers")

import verifiers.v1 as vf  # noqa: E402


class AbreastConfig(vf.TasksetConfig):
    """What is played."""

    tag: str = "SimpleSokoban"
    """A tag, or an environment type."""
    first_seed: int = 0
    """The seed of the first task."""
    rollouts: dict[str, Any] | None = None
    """A configuration as for `abreast rollout`, with custom_envs, context, es_manager."""


class AbreastData(vf.TaskData):
    """One episode."""

    tag: str
    seed: int
    rollouts: dict[str, Any] | None = None


class AbreastTask(vf.Task[AbreastData, vf.State, vf.TaskConfig]):
    """An episode to be played; its score is recorded by the environment."""


class AbreastTaskset(vf.Taskset[AbreastTask, AbreastConfig]):
    """Episodes without end, one seed after the other."""

    INFINITE = True

    def load(self) -> Iterator[AbreastTask]:
        """The tasks."""
        config = self.config
        episodes = shared_episodes(config.tag, config.rollouts)  # a tag that does not exist is refused here
        for number in count():
            seed = config.first_seed + number
            data = AbreastData(
                name=f"{config.tag}#{seed}",
                prompt=None,
                system_prompt=episodes.context.system or None,
                tag=config.tag,
                seed=seed,
                rollouts=config.rollouts,
            )
            yield AbreastTask(data, config.task)


class AbreastEnvConfig(vf.EnvConfig):
    """Who plays."""

    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})


class AbreastEnv(vf.Env[AbreastEnvConfig]):
    """Plays an episode: the messages of each turn are sent as they are, and what the agent answers is stepped."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play the episode of a task, and record its score on the agent's trace."""
        episodes, data = shared_episodes(task.data.tag, task.data.rollouts), task.data
        async with (
            episodes.manager.episode(seed=data.seed) as episode,
            agents.player.interaction(task) as interaction,
        ):
            while not episode.done:
                told = episode.messages  # verifiers has those up to the last answer; an opening (`prefill`) is new too
                known = told[:-1] if episodes.context.opening else told
                begin = (
                    max((n for n, each in enumerate(known) if each["role"] in ("system", "assistant")), default=-1) + 1
                )
                segment = await interaction.turn(told[begin:])
                if segment.terminated:
                    break
                await episode.step(segment.last_reply)
        trace = interaction.trace
        trace.record_reward("score", episode.score, 1.0)
        trace.record_metric("success", float(episode.success))
        trace.record_metric("invalid_actions", float(episode.tally.invalid))
        trace.info["episode"] = {"seed": data.seed, "error": episode.error}


__all__ = ["AbreastEnv", "AbreastTaskset"]
