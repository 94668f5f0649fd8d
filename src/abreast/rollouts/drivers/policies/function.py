"""A policy that is a function of the user's own: MODULE:FUNCTION or FILE.py:FUNCTION.

    def play(messages): return "<answer>Up</answer>"            # a text, as a language model writes it ...
    def play(cache, tag): return ["Up", "Left"]                 # ... or actions
    async def play(messages): return await my_server(messages)  # many turns at the same time
    def play(batch): return my_model([asked.messages for asked in batch])   # all turns that wait now: one answer for each

It is given what its parameters are named after. A class is made once, without arguments, and then called likewise. Functions
that are not async are called in one thread, one call at a time.
"""

import asyncio
import inspect
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from abreast.errors import RolloutError, short, words
from abreast.plugins import import_target
from abreast.rollouts.drivers.policies.base import Answer, Asked, Policy, Unanswered
from abreast.rollouts.signatures import parameters_of

HERE = Path(__file__).parent
GATHER_S = 0.005
"""How long a batch waits for more turns after the first: a few times what a turn in a worker takes."""

PARAMETERS: dict[str, Callable[[Asked], Any]] = {
    "messages": lambda asked: asked.messages,
    "cache": lambda asked: asked.cache,
    "tag": lambda asked: asked.tag.name,
    "seed": lambda asked: asked.seed,
    "number": lambda asked: asked.number,
}


class FunctionPolicy(Policy):
    """Calls a function for each turn, or for all turns that wait."""

    def __init__(self, target: str) -> None:
        self._name, thing = target, import_target(target, "policy", RolloutError)
        if inspect.isclass(thing):
            try:
                thing = thing()
            except Exception as error:
                raise RolloutError(f"the policy {target} cannot be made: it raised {words(error, HERE)}.") from error
        if not callable(thing):
            raise RolloutError(f"the policy {target} is {short(thing)}: expected a function, as in FILE.py:FUNCTION.")
        self._function, self._wanted = thing, _wanted(target, thing)
        self._is_async = any(map(inspect.iscoroutinefunction, (thing, type(thing).__call__)))
        self._calls: queue.SimpleQueue[tuple[dict[str, Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting: list[Asked] = []
        """Turns that the next batch holds."""
        self._batch: asyncio.Task[list[Answer]] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, asked: Asked) -> Answer:
        if self._wanted is not None:
            return self._checked(await self._call({name: PARAMETERS[name](asked) for name in self._wanted}))
        if self._batch is None:
            self._batch = asyncio.create_task(self._answer_batch())
        self._waiting.append(asked)
        batch, place = self._batch, len(self._waiting) - 1
        return (await asyncio.shield(batch))[place]  # an episode that is stopped leaves the answers of others alone

    async def close(self) -> None:
        """End the thread, as soon as a call that is under way returns."""
        if self._thread is not None:
            self._calls.put(None)

    async def _answer_batch(self) -> list[Answer]:
        """The answers to all turns that wait when the batch before it is answered."""
        await asyncio.sleep(GATHER_S)
        async with self._one_at_a_time:
            taken, self._waiting, self._batch = self._waiting, [], None
            return self._checked_batch(await self._call({"batch": taken}), len(taken))

    async def _call(self, arguments: dict[str, Any]) -> Any:
        try:
            return await (self._function(**arguments) if self._is_async else self._call_in_thread(arguments))
        except Exception as error:
            raise Unanswered(f"the policy {self._name} raised {words(error, HERE)}.") from error

    async def _call_in_thread(self, arguments: dict[str, Any]) -> Any:
        """Call the function in a thread that is a daemon, so that a call that never returns does not keep the program."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="policy", daemon=True)
            self._thread.start()
        future: Future[Any] = Future()
        self._calls.put((arguments, future))
        return await asyncio.wrap_future(future)

    def _serve(self) -> None:
        """What the thread runs."""
        while (call := self._calls.get()) is not None:
            arguments, future = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._function(**arguments))
            except BaseException as raised:  # SystemExit too: it would end this thread, and be seen nowhere
                can_be_passed_on = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
                future.set_exception(raised if can_be_passed_on else RuntimeError(repr(raised)))

    def _checked(self, given: Any) -> Answer:
        if isinstance(given, str):
            return Answer(given)
        if isinstance(given, list | tuple) and all(isinstance(action, str) for action in given):
            return Answer(list(given))
        raise RolloutError(
            f"the policy {self._name} returned {short(given)}: expected a text, or a list of actions that are texts."
        )

    def _checked_batch(self, given: Any, size: int) -> list[Answer]:
        if not isinstance(given, list | tuple) or len(given) != size:
            told = f"{len(given)} answers" if isinstance(given, list | tuple) else short(given)
            raise RolloutError(
                f"the policy {self._name} returned {told} for a batch of {size}: expected a list of {size} texts."
            )
        return [self._checked(each) for each in given]


def _wanted(target: str, function: Callable[..., Any]) -> list[str] | None:
    """The parameters by which a function is called; None: it takes a batch."""
    given = (parameters_of(function) or {}).values()
    parameters = [each for each in given if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    named = [each.name for each in parameters if each.kind is not each.POSITIONAL_ONLY]
    required = [each.name for each in parameters if each.default is each.empty]
    if "batch" in named and set(required) <= {"batch"}:
        return None
    wanted = [name for name in named if name in PARAMETERS]
    if not wanted or not set(required) <= set(wanted):
        takes = f"takes {', '.join(required or named)}" if named else "takes nothing that is known"
        raise RolloutError(
            f"the policy {target} {takes}: expected parameters named {', '.join(PARAMETERS)}, or batch alone."
        )
    return wanted
