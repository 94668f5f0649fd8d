"""verl: an agent loop, registered as `abreast` when this module is imported.

    actor_rollout_ref.rollout.agent.agent_loop_config_path: agent.yaml        # in agent.yaml:
    - {name: abreast, _target_: abreast.integrations.verl.AbreastAgentLoop, tag: SimpleSokoban}

A row may name another `tag` and a `seed`, itself or in `extra_info`. Without a seed, the group of a row shares one that is a
digest of the row's `index` and prompt, so the same row is the same episode in every epoch and every process.
"""

import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from abreast.errors import RolloutError
from abreast.integrations.trainers import group_seed, require, shared_episodes
from abreast.rollouts.context.sampled import TokenEpisode

require("verl")

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register  # noqa: E402


@register("abreast")
class AbreastAgentLoop(AgentLoopBase):
    """One episode; environments of a tag are shared by all loops of a process, and stepped in its workers."""

    def __init__(self, *args: Any, tag: str | None = None, rollouts: Any = None, seed: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._tag, self._rollouts, self._seed = tag, rollouts, seed

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the episode of a row."""
        told = row.get("extra_info")
        extra: Mapping[str, Any] = told if isinstance(told, Mapping) else {}
        tag = row.get("tag", extra.get("tag", self._tag))
        if tag is None:
            raise RolloutError(
                "no tag is named: give one in the agent's configuration, or in the rows (extra_info.tag)."
            )
        given = row.get("seed", extra.get("seed"))
        seed = group_seed(self._seed, str(row.get("index")), row.get("raw_prompt")) if given is None else int(given)
        episodes, request = shared_episodes(str(tag), self._rollouts), uuid4().hex
        tokens = TokenEpisode(episodes.context, self.tokenizer, **self.apply_chat_template_kwargs)
        most, spent = self.rollout_config.response_length, {"generate_sequences": 0.0, "tool_calls": 0.0}
        first, preempted = 0, -1
        async with episodes.manager.episode(seed=seed) as episode:
            while not episode.done:
                prompt = tokens.prompt(episode.cache)
                first = first or len(prompt)
                if first > self.rollout_config.prompt_length:  # verl could not put it into a batch
                    raise RolloutError(
                        f"the first prompt of {tag} has {first:,} tokens, but rollout.prompt_length is"
                        f" {self.rollout_config.prompt_length:,}: raise it."
                    )
                if len(prompt) - first >= most:
                    break
                began = time.perf_counter()
                sampled = await self.server_manager.generate(
                    request_id=request, prompt_ids=prompt, sampling_params=dict(sampling_params)
                )
                answered = time.perf_counter()
                preempted = max(preempted, -1 if sampled.num_preempted is None else sampled.num_preempted)
                await episode.step(tokens.write(sampled.token_ids, sampled.log_probs or None))
                spent["generate_sequences"] += answered - began
                spent["tool_calls"] += time.perf_counter() - answered
        made, end = tokens.sequence(episode.cache), first + most
        logprobs = None if made.logprobs is None else [told or 0.0 for told in made.logprobs[first:end]]
        info = {"success": float(episode.success), "invalid_actions": float(episode.tally.invalid)}
        return AgentLoopOutput(
            prompt_ids=made.input_ids[:first],
            response_ids=made.input_ids[first:end],
            response_mask=made.loss_mask[first:end],
            response_logprobs=logprobs,
            reward_score=episode.score,
            num_turns=2 * len(made.spans),
            metrics={**spent, "num_preempted": preempted},
            extra_fields={
                "turn_scores": episodes.context.rewards(episode.cache),
                "tool_rewards": [],
                "episode_seed": seed,
                "episode_error": episode.error,
                "reward_extra_info": info,
            },
        )
