"""Playing whole episodes, without a barrier: whichever is over, the next one begins in its place at once.

 orders: episode 0, 1, 2 ...          N tasks, one for each environment in use
   number, tag, seed, group ──▶ ┌─────────────────────────────────────────────┐
                                │ lease an environment ── policy ──▶ step ──┐ │──▶ on_ended(played)
                                │                           ▲───────────────┘ │
                                └─────────────────────────────────────────────┘
What an episode is depends on its number alone, never on the task that plays it, or on the order in which episodes end.
"""

import asyncio
import mmap
import selectors
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import closing, nullcontext
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from abreast.errors import BeginError, FailedEpisodesError, log
from abreast.processes.spans import add_call, clock, span
from abreast.rollouts.context.sampled import kept_of
from abreast.rollouts.drivers.policies.base import (
    Asked,
    EndOfInput,
    Played,
    Policy,
    Tokens,
    Unanswered,
)
from abreast.rollouts.episodes.slot import Tally
from abreast.rollouts.manager import EnvStateManager

STOP_AFTER = 16
"""So many episodes in a row without any answer, and the run stops: the rest would end likewise."""

RESERVE_BYTES = 16 << 20
"""Set aside while episodes are played, and freed when memory is used up: asyncio needs some to end its tasks, and without it
waits for ever for one whose end it could not note. The pages are never touched, so they are only addresses."""

MODEL_NS = 100_000
"""An answer that took no longer is none of a language model, and not worth a span."""
OnEnded = Callable[[Played], None]
OnTurn = Callable[[], None]
T = TypeVar("T")


class Order(NamedTuple):
    """An episode that is to be played."""

    number: int
    tag: str
    seed: int
    group_id: int


class Wait(NamedTuple):
    """In the place of an order: no episode is to begin for so many seconds."""

    seconds: float


def orders_of(manager: EnvStateManager, episodes: int | None = None) -> Iterator[Order]:
    """The first so many episodes of a manager's environments (default: one in each), as its resets would begin them."""
    first = manager.config.seed.train if manager.mode == "train" else manager.config.seed.val
    envs = [(env.tag.name, env.group_id or 0) for env in manager.envs]
    groups = envs[-1][1] + 1
    for number in range(len(envs) if episodes is None else episodes):
        (tag, group), passes = envs[number % len(envs)], number // len(envs)
        yield Order(number, tag, first + passes * groups + group, passes * groups + group)


def play_episodes(
    manager: EnvStateManager,
    policy: Policy,
    on_ended: OnEnded,
    orders: Iterable[Order | Wait] | None = None,
    *,
    slots: int | None = None,
    time_limit: float | None = None,
    on_turn: OnTurn = lambda: None,
) -> str | None:
    """Play episodes (default: one in each environment), at most `slots` at a time. If it stopped early, returns why.

    with EnvStateManager(config) as manager:
        play_episodes(manager, RandomPolicy(seed=0), lambda played: print(played.number, played.tally.reward))
    """
    return run_until_terminated(
        play_episodes_async(manager, policy, on_ended, orders, slots=slots, time_limit=time_limit, on_turn=on_turn)
    )


async def play_episodes_async(
    manager: EnvStateManager,
    policy: Policy,
    on_ended: OnEnded,
    orders: Iterable[Order | Wait] | None = None,
    *,
    slots: int | None = None,
    time_limit: float | None = None,
    on_turn: OnTurn = lambda: None,
) -> str | None:
    """As `play_episodes`, awaitable."""
    waiting: Iterator[Order | Wait] = iter(orders_of(manager) if orders is None else orders)
    players = _Players(manager, policy, on_ended, on_turn)
    limits = (slots, policy.most_episodes, len(manager.envs) or manager.config.es_manager.episodes.max)
    tasks = list[asyncio.Task[None]]()
    await policy.start()
    try:
        for _ in range(min(limit for limit in limits if limit is not None)):
            tasks.append(asyncio.create_task(players.play(waiting)))
        async with asyncio.timeout(time_limit) as until:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    except TimeoutError:
        if not until.expired():
            raise
        return f"the time limit of {time_limit:g} s is over"
    finally:
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await policy.close()
    errors = [error for task in done if not task.cancelled() and (error := task.exception()) is not None]
    # Other tasks may have met a state that the one without memory has left half-written: its error is the cause.
    for error in sorted(errors, key=lambda each: not isinstance(each, MemoryError)):
        if not isinstance(error, EndOfInput):
            raise error
    return "the input ended" if errors else None


class _Players:
    """What the tasks of a run share."""

    def __init__(self, manager: EnvStateManager, policy: Policy, on_ended: OnEnded, on_turn: OnTurn) -> None:
        self._manager, self._policy, self._on_ended, self._on_turn = manager, policy, on_ended, on_turn
        self._unanswered_in_a_row = 0
        self._logged: set[type] = set()
        """Kinds of exceptions whose traceback is in the log."""
        # Not a bytearray: malloc may hand out pages that were touched before.
        self._reserve = mmap.mmap(-1, RESERVE_BYTES, access=mmap.ACCESS_COPY)

    async def play(self, waiting: Iterator[Order | Wait]) -> None:
        """Play episodes until none is waiting. There may be millions, so the iterator makes them one by one."""
        try:
            for order in waiting:
                if isinstance(order, Wait):
                    await asyncio.sleep(order.seconds)
                    continue
                played = await self._episode(order)
                with span("record"):
                    self._on_ended(played)
                self._policy.ended(played)
                if self._unanswered_in_a_row >= STOP_AFTER:
                    raise FailedEpisodesError(
                        f"{self._unanswered_in_a_row} episodes in a row got no answer, the last because of:"
                        f" {played.error} The rollout stops here, with the episodes that ended kept."
                    )
        except MemoryError:
            self._reserve.close()
            raise

    async def _episode(self, order: Order) -> Played:
        number, name, seed, group_id = order
        answers, tokens, failure = list[str | list[str]](), Tokens(), None
        tokens_per_turn = list[Tokens | None]()
        try:
            episode = await self._manager.episode(name, seed=seed, group_id=group_id).begin_async()
        except BeginError as error:
            tag, cache = (
                self._manager.tags[name],
                {"env_id": -1, "group_id": group_id, "tag": name, "penalty": 0, "history": []},
            )
            return Played(number, group_id, seed, tag, True, str(error), False, Tally(), cache, answers, tokens)
        with closing(episode):
            while not episode.done:
                # Turns in the main process never wait: without this, neither other tasks nor Ctrl-C would have a chance.
                await asyncio.sleep(0)
                asked = clock()
                try:
                    answer = await self._policy(
                        Asked(number, seed, episode.tag, episode.cache, lambda: episode.messages)
                    )
                except (Unanswered, asyncio.CancelledError) as unanswered:
                    if (task := asyncio.current_task()) is not None and task.cancelling():
                        raise
                    self._unanswered_in_a_row += 1
                    # Libraries leak CancelledError out of time limits of their own. It would end this task without a trace.
                    failure = str(unanswered) or "the policy raised CancelledError, though nothing was stopped."
                    cause = unanswered.__cause__
                    trace = None if type(cause) in self._logged else cause
                    log.error("episode %d (%s, seed %d) cannot go on: %s", number, name, seed, failure, exc_info=trace)
                    self._logged.add(type(cause))
                    break
                if clock() - asked > MODEL_NS:
                    add_call("model", asked)
                self._unanswered_in_a_row = 0
                answers.append(answer.given)
                tokens_per_turn.append(answer.tokens)
                tokens = tokens.plus(answer.tokens or Tokens())
                await episode.step(answer.given, answer.calls)
                history = episode.cache["history"]
                kept: dict[str, Any] = {"finish_reason": answer.finish_reason, "tool_calls": list(answer.tool_calls)}
                history[-2].update({key: value for key, value in kept.items() if value})
                if answer.sampled is not None:
                    history[-2]["sampled"] = kept_of(history[:-2], answer.sampled)
                self._on_turn()
            return Played(
                number=number,
                group_id=group_id,
                seed=seed,
                tag=episode.tag,
                truncated=failure is not None or episode.truncated,
                error=failure or episode.error,
                is_unanswered=failure is not None,
                tally=episode.tally,
                cache=episode.cache,
                answers=answers,
                tokens=tokens,
                tokens_per_turn=tokens_per_turn,
                sampling=self._policy.sampling,
            )


def run_until_terminated(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`. SIGTERM, if it is handled at all, cancels the work before its handler is called; twice: at once.

    `asyncio.run` does this for Ctrl-C: tasks are cancelled first, so that they give back what they hold. A program that
    handles SIGTERM by an exception (the command line does) would have it come out of whichever task happens to run.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        return _run(work)
    taken = list[int]()

    async def watched() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def cancel(number: int, frame: FrameType | None) -> None:
            taken.append(number)
            if len(taken) > 1:
                handler(number, frame)
            loop.call_soon_threadsafe(task.cancel)

        signal.signal(signal.SIGTERM, cancel)
        try:
            return await work
        finally:
            signal.signal(signal.SIGTERM, handler)

    try:
        return _run(watched())
    except asyncio.CancelledError:
        if taken:
            handler(signal.SIGTERM, None)
        raise


def _run(work: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`. The timeline has the times in which no task could go on."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Selector())) as runner:
        return runner.run(work)


class _Selector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> Any:
        with nullcontext() if timeout is not None and timeout <= 0 else span("wait for calls"):
            return super().select(timeout)
