"""A single episode, in an environment of its own: what `EnvStateManager.episode` returns.

with manager.episode("SimpleSokoban", seed=7) as episode:          async with manager.episode(…) as episode:
    while not episode.done:                                            while not episode.done:
        episode.step(answer(episode.state))                                await episode.step(await answer(episode.state))
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from abreast.errors import BeginError, RolloutError
from abreast.rollouts.context.context import Context
from abreast.rollouts.episodes.inputs import check_actions
from abreast.rollouts.episodes.pool import Pool
from abreast.rollouts.episodes.slot import Cache, Slot
from abreast.rollouts.episodes.turns import UNDER_WAY
from abreast.rollouts.episodes.waiting import Job
from abreast.rollouts.registry import Tag
from abreast.rollouts.workers.places import Use


class Step(NamedTuple):
    """What came of a turn."""

    state: str
    reward: float
    done: bool
    info: dict[str, Any]
    invalid: list[str]
    """What was wrong with it, a sentence each; empty if nothing was."""


class SingleEpisode:
    """An episode, and all that is known of it; it may be read after its end, too."""

    def __init__(self, pool: Pool, slot: Slot, context: Context) -> None:
        self._pool, self.slot, self._context = pool, slot, context
        if slot.terminated:
            raise BeginError(f"an episode of {slot.tag.name} could not begin: {slot.error}")
        self._job: Job | None = None
        """Of a turn whose caller was interrupted or cancelled: it comes before the next."""
        self._is_stepping = False
        self.cache: Cache = slot.cache
        """As `reset` and `step` of the manager return it."""
        self.seed = slot.seed
        self.tag: Tag = slot.tag
        self.env_id = slot.env_id
        self.tally = slot.tally

    @property
    def state(self) -> str:
        """What the environment shows now."""
        return str(self.cache["history"][-1]["state"])

    @property
    def images(self) -> list[Any]:
        """The pictures it shows now, if any."""
        return list(self.cache["history"][-1].get("images", ()))

    @property
    def history(self) -> list[dict[str, Any]]:
        """One entry per turn, and the newest state."""
        return self.slot.history

    @property
    def info(self) -> dict[str, Any]:
        """Of the newest turn; before the first turn, of the first state."""
        return dict(self.history[-2]["info"] if len(self.history) > 1 else self.cache["info"])

    @property
    def reward(self) -> float:
        """The sum so far, without penalties."""
        return self.tally.reward

    @property
    def penalty(self) -> float:
        """That of its invalid turns so far, 0 or less."""
        return float(self.cache["penalty"])

    @property
    def score(self) -> float:
        """Reward and penalty together."""
        return self.reward + self.penalty

    @property
    def done(self) -> bool:
        """Whether the episode is over; it also is once it was closed."""
        return self.slot.terminated or self.is_closed

    @property
    def success(self) -> bool:
        """Whether it has ended well."""
        return self.tally.success

    @property
    def truncated(self) -> bool:
        """Whether it ended without success."""
        return not self.tally.success and self.done

    @property
    def error(self) -> str | None:
        """Why it could not go on, if it could not."""
        return self.slot.error

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat messages that ask a language model for the next turn."""
        return self._context.messages(self.cache)

    @property
    def is_closed(self) -> bool:
        """Whether its environment was given back; at the end of the episode it is."""
        return not self._pool.has(self.slot)

    def close(self) -> None:
        """Give the environment back. The end of the episode and of the `with` do it, too."""
        self._pool.give_back(self.slot)

    def __del__(self) -> None:
        if self._pool.has(self.slot):
            self._pool.dropped.append(self.slot)  # nothing else: this may happen at any moment, in any thread

    def _begin(self, answer: str | Sequence[str], calls: Sequence[tuple[str, str]]) -> Job:
        """Begin a turn."""
        slot = self.slot
        self._pool.touch(slot)
        if slot.terminated:
            raise RolloutError(f"the episode of environment {self.env_id} is over: begin another one.")
        if isinstance(answer, str):
            inputs = self._context.input(self.env_id, answer, calls)
        else:
            inputs = {"actions": check_actions(self.env_id, answer)}
        self._job = job = self._pool.turns.begin({slot: inputs}, together=True)
        return job

    def _ended(self) -> Step:
        """The turn is taken; an environment whose episode is over is free."""
        slot, self._job = self.slot, None
        entry = slot.cache["history"][-2]
        if slot.terminated:
            self._pool.give_back(slot)
        else:
            self._pool.used_at[slot.env_id] = time.monotonic()
        return Step(self.state, entry["reward"], slot.terminated, entry["info"], entry.get("invalid", []))

    def _enter(self) -> Job | None:
        """Only one caller at a time; the turn that an earlier one has left, if there is one."""
        if self._is_stepping:
            raise RolloutError(UNDER_WAY)
        self._is_stepping = True
        return self._job


class SyncEpisode(SingleEpisode):
    """Stepped by calls that wait."""

    def step(self, answer: str | Sequence[str], calls: Sequence[tuple[str, str]] = ()) -> Step:
        """Take a turn: the answer of a language model as it is, or a list of actions.

        Args:
            answer: the text, or the actions.
            calls: names and arguments (JSON texts) of the `tool_calls` in a server's message, with `context.tools`.
        """
        left, turns = self._enter(), self._pool.turns
        try:
            if left is not None:
                turns.wait(left)
                self._ended()
            turns.wait(self._begin(answer, calls))
            return self._ended()
        finally:
            self._is_stepping = False


class AsyncEpisode(SingleEpisode):
    """Stepped by calls that are awaited."""

    async def step(self, answer: str | Sequence[str], calls: Sequence[tuple[str, str]] = ()) -> Step:
        """Take a turn: the answer of a language model as it is, or a list of actions.

        Args:
            answer: the text, or the actions.
            calls: names and arguments (JSON texts) of the `tool_calls` in a server's message, with `context.tools`.
        """
        left, turns = self._enter(), self._pool.turns
        try:
            if left is not None:
                await turns.wait_async(left)
                self._ended()
            await turns.wait_async(self._begin(answer, calls))
            return self._ended()
        finally:
            self._is_stepping = False


class NewEpisode:
    """`with` or `async with` begins the episode, and gives the environment back in the end, whatever happens."""

    def __init__(self, pool: Pool, context: Context, seed: int | None, group_id: int | None, use: Use) -> None:
        self._pool, self._context, self._wanted = pool, context, (seed, group_id, use)
        self._episode: SingleEpisode | None = None

    def begin(self) -> SyncEpisode:
        """Begin the episode; waits for a free environment first, if necessary. Whoever calls this calls its `close`, too."""
        slot = self._pool.claim(self._context.tag.name, blocks=True).result()
        try:
            self._pool.turns.wait(self._pool.start(slot, *self._wanted))
            self._episode = episode = SyncEpisode(self._pool, slot, self._context)
        except BaseException:
            self._pool.give_back(slot)
            raise
        return episode

    async def begin_async(self) -> AsyncEpisode:
        """As `begin`, awaitable."""
        claim = self._pool.claim(self._context.tag.name, blocks=False)
        try:
            slot = await asyncio.wrap_future(claim)
        except BaseException:  # cancelled, perhaps in the moment in which it was served
            self._pool.withdraw(claim)
            raise
        try:
            await self._pool.turns.wait_async(self._pool.start(slot, *self._wanted))
            self._episode = episode = AsyncEpisode(self._pool, slot, self._context)
        except BaseException:
            self._pool.give_back(slot)
            raise
        return episode

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise RolloutError(
            f"the episode has not begun, so it has no {name}: use `with manager.episode(...) as episode:`, or `begin()`."
        )

    __enter__ = begin
    __aenter__ = begin_async

    def __exit__(self, *error: object) -> None:
        if self._episode is not None:
            self._episode.close()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__(*error)
