"""TRL: environments for `GRPOTrainer`, as a class of tools or as a rollout function.

    GRPOTrainer(..., environment_factory=environment_class("SimpleSokoban", group_size=8))
    GRPOTrainer(..., rollout_func=rollout_func("SimpleSokoban"), reward_funcs=episode_score)

A group shares its seed. TRL repeats a row of the data set for each answer of a group, so only a group shares the row.
environment_class    the seed is `seed` of the row; without this column, a digest of the row and, with `group_size`, of how
                     often this row has begun a group
rollout_func         it is given prompts alone: the seed is a digest of the prompt, the trainer's step, and the place of the
                     group in the batch over all processes; in an evaluation the step does not count
"""

import asyncio
import inspect
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from abreast.errors import RolloutError
from abreast.integrations.trainers import Episodes, group_seed, require
from abreast.rollouts.context.sampled import TokenEpisode
from abreast.rollouts.context.tools import call_text, tools_of
from abreast.rollouts.episodes.single import AsyncEpisode, SyncEpisode
from abreast.rollouts.registry import Tool

Generate = Callable[[list[list[int]], Any], tuple[list[list[int]], list[list[float]] | None]]
"""Called with the tokens of prompts and the trainer; returns those of the answers, and their log-probabilities or None."""
_TYPES = {"integer": int, "number": float, "boolean": bool, "array": list, "object": dict}
OVER = "The episode is over."


def environment_class(
    tag: str, *, group_size: int | None = None, seed: int = 0, config: object = None, **es_manager: Any
) -> type:
    """A class for `environment_factory`: its methods are the tools of a tag (one, `act`, unless its type declares others).

    `group_size` is `num_generations` of the trainer. Without it the same row is the same episode, in every epoch.
    """
    require("trl")
    episodes = Episodes(tag, config, tools=True, **es_manager)
    begun, context = Counter[str](), episodes.context

    class Environment:
        _episode: SyncEpisode | None = None

        def reset(self, **row: Any) -> Any:
            self._close()
            self._episode = episodes.manager.episode(seed=self._seed(row)).begin()
            return self._shown()

        def get_reward(self) -> float:
            episode = self._begun()
            if not episode.done:  # the model has stopped calling tools: that is an answer without a legal call
                episode.step("")
            self._close()
            return episode.score

        def _seed(self, row: dict[str, Any]) -> int:
            if row.get("seed") is not None:
                return int(row["seed"])
            told = json.dumps(row, sort_keys=True, default=str)
            if group_size is None and not any(part["content"] for part in row.get("prompt") or () if "content" in part):
                raise RolloutError(
                    "the rows of the data set are empty, so they do not tell one group from another: give environment_class"
                    " a group_size, which is num_generations of the trainer, or the rows a column seed."
                )
            group = 0 if group_size is None else begun[told] // group_size
            begun[told] += 1
            return group_seed(seed, told, group)

        def _take(self, name: str, arguments: dict[str, Any]) -> Any:
            episode = self._begun()
            if episode.done:
                raise RolloutError(OVER)
            episode.step(call_text(name, json.dumps(arguments, default=str)))
            return self._shown()

        def _shown(self) -> Any:
            episode = self._begun()
            content = context.messages(episode.cache, images="pil")[-1]["content"]
            if not episode.done:
                return content
            return f"{content}\n{OVER}" if isinstance(content, str) else [*content, {"type": "text", "text": OVER}]

        def _begun(self) -> SyncEpisode:
            if self._episode is None:
                raise RolloutError("no episode has begun: call reset first.")
            return self._episode

        def _close(self) -> None:
            if self._episode is not None:
                self._episode.close()

    for tool in tools_of(context.tag):
        setattr(Environment, tool.name, _method(tool))
    Environment.__name__ = Environment.__qualname__ = "".join(filter(str.isidentifier, tag)) or "Environment"
    Environment.__doc__ = f"Episodes of {tag}, for TRL."
    return Environment


def _method(tool: Tool) -> Callable[..., Any]:
    """A method with the signature and the words from which TRL makes the tool's schema."""

    def take(self: Any, **arguments: Any) -> Any:
        return self._take(tool.name, arguments)

    if tool.name in ("reset", "get_reward") or not tool.name.isidentifier() or tool.name.startswith("_"):
        raise RolloutError(f"the tool {tool.name!r} cannot be a method for TRL: give it another name.")
    told, hints = [f"{tool.description}\n\nArgs:"], dict[str, Any]()
    for name, schema in tool.parameters.items():
        listed = schema.get("enum")
        hints[name] = Literal[tuple(listed)] if listed else _TYPES.get(str(schema.get("type")), str)
        told.append(f"    {name}: {schema.get('description', name)}")
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind, annotation=hint) for name, hint in hints.items()]
    take.__name__ = take.__qualname__ = tool.name
    take.__doc__ = "\n".join([*told, "", "Returns:", "    What the game shows now."])
    take.__annotations__ = {**hints, "return": str}
    take.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", kind), *parameters], return_annotation=str
    )
    return take


def episode_score(score: Sequence[float], **_: Any) -> list[float]:
    """The reward function beside `rollout_func`: rewards and penalties of each episode."""
    return list(score)


def rollout_func(
    tag: str,
    *,
    seed: int = 0,
    config: object = None,
    generate: Generate | None = None,
    max_tokens: int | None = None,
    template_options: dict[str, Any] | None = None,
    **es_manager: Any,
) -> "Rollouts":
    """A function for `rollout_func`: all episodes of a batch at the same time, as many turns as each needs.

    `generate` answers prompts; default: the trainer's own generation, vLLM or transformers. An episode ends before a prompt
    that would leave no room for an answer within `max_tokens` (default: the positions of the model).
    """
    require("trl")
    return Rollouts(
        Episodes(tag, config, **es_manager), seed, generate or _generate, max_tokens, template_options or {}
    )


class Rollouts:
    """Plays the episodes of a batch. Its environments stay for the next one; `close` ends them."""

    def __init__(
        self, episodes: Episodes, seed: int, generate: Generate, max_tokens: int | None, options: dict[str, Any]
    ) -> None:
        self._episodes, self._seed, self._generate = episodes, seed, generate
        self._max_tokens, self._options = max_tokens, options
        self._last: tuple[int, int] = (-1, 0)
        """The trainer's step of the last call, and how many calls that step had before it."""
        self.close = episodes.close

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """The tokens, masks and scores of an episode for each prompt."""
        seeds, run, context = self._seeds(prompts, trainer), self._episodes.run, self._episodes.context
        tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
        played = run(self._begin(seeds))
        tokens = [TokenEpisode(context, tokenizer, **self._options) for _ in played]
        room = self._room(trainer)
        try:
            waiting = list(range(len(played)))
            while waiting:
                asked = {number: tokens[number].prompt(played[number].cache) for number in waiting}
                fits = {number: ids for number, ids in asked.items() if room is None or len(ids) <= room}
                if not fits:
                    break
                answers, logprobs = self._generate(list(fits.values()), trainer)
                texts = [
                    tokens[number].write(ids, None if logprobs is None else logprobs[place])
                    for place, (number, ids) in enumerate(zip(fits, answers, strict=True))
                ]
                run(_step([played[number] for number in fits], texts))
                waiting = [number for number in fits if not played[number].done]
        finally:
            for episode in played:
                episode.close()
        return self._told(played, tokens, room)

    def _told(self, played: Sequence[AsyncEpisode], tokens: Sequence[TokenEpisode], room: int | None) -> dict[str, Any]:
        made = [each.sequence(episode.cache) for each, episode in zip(tokens, played, strict=True)]
        if not all(each.spans for each in made):
            raise RolloutError(
                f"the first prompt of {self._episodes.context.tag.name} has more than {room} tokens, which leaves no room"
                " for an answer: raise max_tokens, or take a model with more positions."
            )
        begins, has_logprobs = [each.spans[0][0] for each in made], all(each.logprobs is not None for each in made)
        cut = [(each, begin) for each, begin in zip(made, begins, strict=True)]
        return {
            "prompt_ids": [each.input_ids[:begin] for each, begin in cut],
            "completion_ids": [each.input_ids[begin:] for each, begin in cut],
            "env_mask": [each.loss_mask[begin:] for each, begin in cut],
            "logprobs": [[told or 0.0 for told in (each.logprobs or [])[begin:]] for each, begin in cut]
            if has_logprobs
            else None,
            "score": [episode.score for episode in played],
            "success": [episode.success for episode in played],
            "num_turns": [len(each.spans) for each in made],
            "episode_seed": [episode.seed for episode in played],
            "episode_error": [episode.error for episode in played],
        }

    async def _begin(self, seeds: Sequence[int]) -> list[AsyncEpisode]:
        manager = self._episodes.manager
        begun = await asyncio.gather(
            *(manager.episode(seed=seed).begin_async() for seed in seeds), return_exceptions=True
        )
        episodes = [each for each in begun if not isinstance(each, BaseException)]
        failed = next((each for each in begun if isinstance(each, BaseException)), None)
        if failed is not None:
            for episode in episodes:
                episode.close()
            raise failed
        return episodes

    def _seeds(self, prompts: Sequence[Any], trainer: Any) -> list[int]:
        is_training, step = trainer.model.training, int(trainer.state.global_step)
        size = trainer.num_generations if is_training else trainer.num_generations_eval
        first = trainer.accelerator.process_index * len(prompts)
        when: tuple[int, int] | str = "evaluation"
        if is_training:
            self._last = when = (step, self._last[1] + 1 if self._last[0] == step else 0)
        return [group_seed(self._seed, when, (first + place) // size, prompt) for place, prompt in enumerate(prompts)]

    def _room(self, trainer: Any) -> int | None:
        most = self._max_tokens or getattr(trainer.model.config, "max_position_embeddings", None)
        return None if most is None else int(most) - int(trainer.max_completion_length)


async def _step(episodes: Sequence[AsyncEpisode], texts: Sequence[str]) -> None:
    await asyncio.gather(*(episode.step(text) for episode, text in zip(episodes, texts, strict=True)))


def _generate(prompts: list[list[int]], trainer: Any) -> tuple[list[list[int]], list[list[float]] | None]:
    answers, logprobs = trainer._generate_single_turn(prompts, None, {}, 1)
    return answers, logprobs
