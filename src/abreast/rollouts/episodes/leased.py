"""A single episode, in a leased environment: what `EnvStateManager.episode` returns.

with manager.episode("SimpleSokoban", seed=7) as episode:          async with manager.episode(…) as episode:
    while not episode.done:                                            while not episode.done:
        episode.step(answer(episode.state))                                await episode.step(await answer(episode.state))
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol

from abreast.errors import RolloutError
from abreast.rollouts.episodes.leases import Held, Leases
from abreast.rollouts.episodes.slot import Cache
from abreast.rollouts.registry import Tag


class Step(NamedTuple):
    """What came of a turn."""

    state: str
    reward: float
    done: bool
    info: dict[str, Any]


class Steps(Protocol):
    """What single episodes need of the manager."""

    leases: Leases

    def begin_leased(self, held: Held, seed: int | None, group_id: int | None) -> None: ...

    async def begin_leased_async(self, held: Held, seed: int | None, group_id: int | None) -> None: ...

    def step_leased(self, held: Held, answer: str | Sequence[str]) -> None: ...

    async def step_leased_async(self, held: Held, answer: str | Sequence[str]) -> None: ...

    def messages_of(self, cache: Cache) -> list[dict[str, Any]]: ...


class LeasedEpisode:
    """An episode, and all that is known of it; it may be read after its end, until the environment begins another."""

    def __init__(self, manager: Steps, held: Held) -> None:
        self._manager, self._held = manager, held
        self._slot, _ = held
        self.cache: Cache = self._slot.cache
        """As `reset` and `step` of the manager return it."""
        self.seed = self._slot.seed
        self.tag: Tag = self._slot.tag
        self.env_id = self._slot.env_id
        self.tally = self._slot.tally

    @property
    def state(self) -> str:
        """What the environment shows now."""
        return str(self.cache["history"][-1]["state"])

    @property
    def images(self) -> list[Any]:
        """The pictures it shows now, if any."""
        return list(self.cache["history"][-1].get("images", ()))

    @property
    def info(self) -> dict[str, Any]:
        """Of the newest turn; before the first turn, of the first state."""
        history = self.cache["history"]
        return dict(history[-2]["info"] if len(history) > 1 else self.cache["info"])

    @property
    def reward(self) -> float:
        """The sum so far, without penalties."""
        return self.tally.reward

    @property
    def done(self) -> bool:
        """Whether the episode is over; it also is once it was closed."""
        return self.is_closed or self._slot.terminated

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
        told = (entry.get("info", {}) for entry in self.cache["history"][-2:])
        return next((info["error"] for info in told if "error" in info), None)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat messages that ask a language model for the next turn."""
        return self._manager.messages_of(self.cache)

    @property
    def is_closed(self) -> bool:
        """Whether its environment was given back."""
        return self._slot.lease != self._held[1]

    def close(self) -> None:
        """Give the environment back. The end of the `with` does it, too."""
        self._manager.leases.give_back(self._held)

    def __del__(self) -> None:
        if self._slot.lease == self._held[1]:
            self._manager.leases.dropped.append(self._held)

    def _check(self) -> None:
        self._manager.leases.touch(self._held)
        if self._slot.terminated:
            raise RolloutError(f"the episode of environment {self.env_id} is over: begin another one.")

    def _last_step(self) -> Step:
        self._manager.leases.touch(self._held)
        entry = self.cache["history"][-2]
        return Step(self.state, entry["reward"], self._slot.terminated, entry["info"])


class SyncEpisode(LeasedEpisode):
    """Stepped by calls that wait."""

    def step(self, answer: str | Sequence[str]) -> Step:
        """Take a turn: the answer of a language model as it is, or a list of actions."""
        self._check()
        self._manager.step_leased(self._held, answer)
        return self._last_step()


class AsyncEpisode(LeasedEpisode):
    """Stepped by calls that are awaited."""

    async def step(self, answer: str | Sequence[str]) -> Step:
        """Take a turn: the answer of a language model as it is, or a list of actions."""
        self._check()
        await self._manager.step_leased_async(self._held, answer)
        return self._last_step()


class Lease:
    """`with` or `async with` begins the episode, and gives the environment back in the end, whatever happens."""

    def __init__(self, manager: Steps, tag: str, seed: int | None, group_id: int | None) -> None:
        self._manager, self._tag, self._seed, self._group_id = manager, tag, seed, group_id
        self._episode: LeasedEpisode | None = None

    def begin(self) -> SyncEpisode:
        """Begin the episode; waits for a free environment first, if necessary. Whoever calls this calls its `close`, too."""
        self._check_new()
        held = self._manager.leases.take(self._tag)
        try:
            self._manager.begin_leased(held, self._seed, self._group_id)
            self._episode = episode = SyncEpisode(self._manager, held)
        except BaseException:
            self._manager.leases.give_back(held)
            raise
        return episode

    async def begin_async(self) -> AsyncEpisode:
        """As `begin`, awaitable."""
        self._check_new()
        held = await self._manager.leases.take_async(self._tag)
        try:
            await self._manager.begin_leased_async(held, self._seed, self._group_id)
            self._episode = episode = AsyncEpisode(self._manager, held)
        except BaseException:
            self._manager.leases.give_back(held)
            raise
        return episode

    def __getattr__(self, name: str) -> Any:
        if hasattr(SyncEpisode, name) or name in ("cache", "seed", "tag", "env_id", "tally"):
            raise AttributeError(
                f"the episode has not begun, so it has no {name}: use `with manager.episode(...) as episode:`, or"
                " `episode = manager.episode(...).begin()`."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _check_new(self) -> None:
        if self._episode is not None:
            raise RolloutError("this episode was begun already: call manager.episode for another one.")

    def __enter__(self) -> SyncEpisode:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._episode is not None:
            self._episode.close()

    async def __aenter__(self) -> AsyncEpisode:
        return await self.begin_async()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._episode is not None:
            self._episode.close()
