"""One environment and its episode, in whichever process it lives: the rules of a turn, and replaying an episode.

The main process and the workers run the same code, so their results are equal. An episode is replayed only if the process it
was in has ended, or it was interrupted; an environment that raises has ended its episode.
"""

import asyncio
import copy
import math
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np
from numpy.typing import NDArray

from abreast.errors import RolloutError, log, words
from abreast.processes.cores import thread_usage
from abreast.rollouts.adapters.base import number_of
from abreast.streams import Draws, Drew, own_globals

State = str | list[NDArray[Any]]
"""What an environment shows: a text, or RGB images."""
Digest = tuple[int, bytes]
"""A fingerprint of the state after so many turns."""
Beat = Callable[[float], None]
"""Called when a part of longer work begins, with the seconds it may take beyond those of a turn."""
ATOMS = frozenset({bool, int, float, str, bytes, type(None)})
BUILD_S = 600.0
"""How much longer than a turn it may take to make an environment: one may have to import a lot, or to index a catalogue."""
LONGEST_NAME = 1000
"""Texts longer than this are not the name of an action; they are dropped without being looked up."""
SHOWN_OF_NAME = 100
"""Characters that are kept of a text that names no action, to tell the caller."""


class TurnResult(NamedTuple):
    """The result of a turn, or of the start of an episode. Only the times depend on the process it was taken in."""

    state: State
    reward: float = 0.0
    info: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    names: Sequence[str] = ()
    """The actions executed, by name."""
    executed: Sequence[Any] = ()
    """The same as the environment takes them."""
    dropped: Sequence[str] = ()
    """Actions that were not known."""
    refused: Sequence[str] = ()
    """Actions executed that the environment itself called invalid."""
    done: bool = False
    failure: str | None = None
    """Why the episode cannot go on, if it cannot."""
    seconds: float = 0.0
    """What it took; making the environment is not counted."""
    waited: float = 0.0
    """For how much of that, and of making the environment, it waited (for a network, another process) instead of computing;
    measured if it may be slow."""
    trace: str = ""
    """The traceback of the failure, if the environment raised."""
    steps: Sequence[str] = ()
    """Texts that were shown after each executed action but the last, where these are wanted; empty for a picture."""
    draws: str = ""
    """The generators of the whole process that environments of its tag were seen to draw from."""


class Episode:
    """An environment with what is needed to rebuild it: its factory, configuration, seed, and the actions executed since."""

    def __init__(
        self,
        make: Callable[[Any], Any],
        config: Any,
        draws: Draws | None = None,
        beat: Beat = lambda allow_s: None,
        *,
        dies_of_memory: bool = False,
    ) -> None:
        """`draws`: shared by the environments of a tag in a process."""
        self._make, self._config, self.beat = make, config, beat
        self._shows_each = getattr(make, "shows_each", False)
        self._draws = draws or Draws()
        self._generators = dict[str, Any]()
        """The states of generators of its own, if its tag draws from those of the whole process."""
        self._env: Any = None
        self._names = config.action_lookup
        names = self._names or {}
        self._numbers = {name.strip().casefold(): number for number, name in names.items()}
        self._numbers |= {name: self._numbers[name.strip().casefold()] for name in names.values()}  # found at once
        self._knows: Callable[[str], bool] | None = None
        """Tells texts that name an action from others, where the environment can tell (`adapters.TextAdapter`)."""
        self.executed: list[Sequence[Any]] = []
        self.known_digest: Digest | None = None
        self.last_s = float("inf")
        """What its last turn took; before there was one, it may take any time."""
        self._dies_of_memory = dies_of_memory
        """Whether its process is replaced where memory is used up: then MemoryError is no result of a turn."""
        self._making_s = 0.0
        self._seed = 0
        self._state: State = ""
        _processes.add(os.getpid())
        os._exit = _exit

    # ---- an episode

    def make(self) -> None:
        """Make the environment."""
        self._env = self._make(self._config)

    def start(self, seed: int) -> TurnResult:
        """Begin an episode. The environment is made if there is none, else only reset, or made anew if that raises."""
        self._seed, self.executed, self.known_digest = seed, [], None
        self._state = ""
        clock, was_used = Clock(), self._env is not None
        self._making_s = 0.0
        try:
            try:
                info = self._begin()
            except Exception as error:
                can_repeat = was_used or isinstance(error, Drew)
                if not can_repeat or not says(self._env, "replayable", True):
                    raise
                self.close()
                info = self._begin()
        except ENDS as error:
            return self._failed(error)._replace(seconds=clock.seconds)
        return TurnResult(
            self._state,
            info=info,
            seconds=clock.seconds - self._making_s,
            waited=clock.waited,
            draws=self._draws.names,
        )

    def rebuild(self, seed: int, executed: Sequence[Sequence[Any]], must_be: Digest | None) -> TurnResult:
        """Come to the state of an episode whose process has ended: replay the turns it has had.

        `must_be` is a digest from the first time: if the replay does not lead to it, this fails.
        """
        self._seed, self.executed, self.known_digest = seed, list(executed), must_be
        try:
            if not getattr(self._make, "replayable", True):
                raise RolloutError(NOT_REPLAYABLE)
            info = self._begin(is_replay=True)
        except Drew:
            self.close()
            return self.rebuild(seed, executed, must_be)
        except ENDS as error:
            return self._failed(error)
        return TurnResult(self._state, info=info)

    def take(self, actions: Sequence[str], budget: int, is_alone: bool = False) -> TurnResult:
        """Take a turn: execute the known actions in order, `budget` of them at most, until the episode is done.

        If it raises, the episode is over: what it has done until then may have had effects, so it is not tried again.
        `is_alone`: the shared generators are taken care of.
        """
        if self._draws.left["turn"] > 0 and not is_alone:
            return self._take_alone(actions, budget)
        clock, started = Clock() if self.last_s > SLOW_S else None, time.perf_counter()
        known, dropped = self._known(actions)
        info: dict[str, Any] = {}
        refused: list[Any] = []
        steps: list[str] = []
        total, done, count = 0.0, False, 0
        observation: Any = None
        try:
            for action in known[:budget]:
                if count and self._shows_each:
                    steps.append(shown if isinstance(shown := _seen(self._env, observation), str) else "")
                observation, reward, terminated, truncated, told = self._env.step(action)
                total += reward if type(reward) is float else number_of(reward)
                info.update(told)
                if not told.get("action_is_valid", True):
                    refused.append(action)
                count += 1
                done = bool(terminated or truncated)
                if done:
                    break
            if not math.isfinite(total):
                raise RolloutError(f"its reward is {total}, expected a finite number.")
            if count:
                self._state = _seen(self._env, observation, done)
            info = _own(info)
        except ENDS as error:
            self.close()  # its state is unknown: the next episode has a new one
            self.executed.append(())
            self.last_s = time.perf_counter() - started
            return self._failed(error)._replace(dropped=dropped, seconds=self.last_s)
        executed: Sequence[Any] = known[:count]
        self.executed.append(executed)
        names = executed if self._names is None else [self._names[number] for number in executed]
        if refused and self._names is not None:
            refused = [self._names[number] for number in refused]
        self.last_s = seconds = time.perf_counter() - started
        waited = clock.waited if clock is not None else 0.0
        result = (
            self._state, total, info, names, executed, dropped, refused or (), done, None, seconds, waited, "", steps, ""
        )  # fmt: skip
        return tuple.__new__(TurnResult, result)  # a third faster than TurnResult(…)

    def take_digest(self) -> Digest:
        """Compute the digest of its state."""
        self.known_digest = (len(self.executed), self._fingerprint())
        return self.known_digest

    def close(self) -> None:
        """Close the environment."""
        env, self._env = self._env, None
        try:
            if hasattr(env, "close"):
                env.close()
        except ENDS as error:
            if is_of_signal(error):
                raise
            log.warning("an environment (%s) could not be closed: %r", type(env).__name__, error)

    # ---- inside

    def _known(self, actions: Sequence[str]) -> tuple[list[Any], Sequence[str]]:
        """The numbers of the actions that have one (without an `action_lookup`: the texts that the environment may know),
        and the others."""
        known: list[Any] = []
        dropped: list[str] = []
        for action in actions:
            if self._names is None:
                number: Any = action if self._knows is None or self._knows(action) else None
            else:
                is_long, numbers = len(action) >= LONGEST_NAME, self._numbers
                number = None if is_long else numbers.get(action) or numbers.get(action.strip().casefold())
            if number is None:
                dropped.append(action[:SHOWN_OF_NAME])
            else:
                known.append(number)
        return known, dropped or ()

    def _failed(self, error: BaseException) -> TurnResult:
        if (self._dies_of_memory and isinstance(error, MemoryError)) or is_of_signal(error):
            raise error
        if isinstance(error, RolloutError):
            return TurnResult(self._state, failure=str(error))
        trace = "".join(traceback.format_exception(error)).rstrip()
        return TurnResult(self._state, failure=words(error, Path(__file__).parent), trace=trace)

    def _around(self, kind: str) -> AbstractContextManager[None]:
        """Return a context for a call of the environment: with generators of its own if it draws from the shared ones."""
        if self._draws.names:
            return own_globals(self._seed, self._generators)
        is_replayable = getattr(self._make, "replayable", True) and says(self._env, "replayable", True)
        return self._draws.compare(kind) if self._draws.left[kind] > 0 and is_replayable else nullcontext()

    def _take_alone(self, actions: Sequence[str], budget: int) -> TurnResult:
        """Take a turn with generators of its own, or compare the shared ones: if it draws from them, it is taken again."""
        executed = list(self.executed)
        try:
            with self._around("turn"):
                return self.take(actions, budget, is_alone=True)._replace(draws=self._draws.names)
        except Drew:
            self.close()
            rebuilt = self.rebuild(self._seed, executed, self.known_digest)
        return self.take(actions, budget) if rebuilt.failure is None else rebuilt

    def _begin(self, is_replay: bool = False) -> dict[str, Any]:
        if self._env is None:
            self.beat(BUILD_S)
            started = time.perf_counter()
            # The generators are alike for all: an environment is made once, and plays any of the episodes.
            with own_globals(0, {}) if self._draws.names else self._around("begin"):
                self.make()
            self._knows = getattr(self._env, "knows_action", None)
            self._making_s += time.perf_counter() - started
            self.beat(0.0)
        if is_replay and not says(self._env, "replayable", True):
            raise RolloutError(NOT_REPLAYABLE)
        if self._draws.left["begin"] <= 0:
            return self._reset()
        self._generators.clear()
        with self._around("begin"):
            return self._reset()

    def _reset(self) -> dict[str, Any]:
        """Reset the environment, and take the turns again that its episode has had."""
        observation, info = self._env.reset(seed=self._seed)
        for turns in range(len(self.executed) + 1):
            self.beat(0.0)  # a long replay is not silence
            for action in self.executed[turns - 1] if turns else ():
                observation, *_, info = self._env.step(action)
            if self.known_digest is not None and self.known_digest[0] == turns:
                self._state = _seen(self._env, observation)
                if (turns, self._fingerprint()) != self.known_digest:
                    raise RolloutError(DIFFERS)
        self._state = _seen(self._env, observation)
        return _own(dict(info))

    def _fingerprint(self) -> bytes:
        """A hash of what the environment shows and of the state of its random stream."""
        digest = blake2b(digest_size=16)
        for part in [self._state] if isinstance(self._state, str) else self._state:
            digest.update(part.encode(errors="surrogatepass") if isinstance(part, str) else part.tobytes())
        inside = getattr(getattr(self._env, "unwrapped", self._env), "__dict__", {})
        stream = inside.get("_np_random", inside.get("np_random"))
        if isinstance(stream, np.random.Generator):
            digest.update(pickle.dumps(stream.bit_generator.state))
        elif isinstance(stream, np.random.RandomState):  # of older environments
            digest.update(pickle.dumps(stream.get_state()))
        return digest.digest()

    @property
    def is_thread_bound(self) -> bool:
        """Whether the environment says that it belongs to the thread that made it."""
        return says(self._env, "thread_bound", False)


# ---- environments that end the program
#
# `os._exit` in the main process would end a whole rollout without a word. So wherever an environment lives, it raises
# SystemExit if it was called by one, as `sys.exit` does; the processes that an environment forks may end.

ENDS = (Exception, SystemExit, asyncio.CancelledError)
"""What ends the episode of an environment that raises it. (No turn awaits, so CancelledError is the environment's own.)"""
_processes = set[int]()
"""Those that have environments, by number: this one, and perhaps one that it was forked from."""
_really_exit = os._exit


def _exit(status: int) -> NoReturn:
    callers = traceback.walk_stack(sys._getframe(1))
    if os.getpid() in _processes and any(frame.f_globals is globals() for frame, _ in callers):
        raise SystemExit(f"os._exit({status})")
    _really_exit(status)


def is_of_signal(error: BaseException) -> bool:
    """Return True if the handler of a signal has raised SystemExit: the program is to end, whatever it was doing."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    is_exit, frames = isinstance(error, SystemExit), traceback.walk_tb(error.__traceback__)
    return is_exit and any(frame.f_code in handlers for frame, _ in frames)


SLOW_S = 1e-3
"""Turns that follow one that took longer than this are measured: whether they wait or compute."""
NOT_REPLAYABLE = (
    "the process or thread that it lived in has ended, and it says that it cannot be replayed (replayable = False)"
)
DIFFERS = (
    "replayed with the same seed and actions, it came to another state: it depends on something beside its seed and its"
    " actions (`abreast check` may find out on what)"
)


class Clock:
    """Measures a turn in the thread that takes it."""

    def __init__(self) -> None:
        self._cpu_s, self._switches = _used()
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.perf_counter() - self._started

    @property
    def waited(self) -> float:
        """For how much of that the thread has waited. (One that was preempted has not given up its core by itself, or not as
        often: on a machine with more to do than cores, that it did not run does not mean that it has waited.)"""
        cpu_s, switches = _used()
        return max(self.seconds - (cpu_s - self._cpu_s), 0.0) if switches > self._switches else 0.0


def _used() -> tuple[float, int]:
    """CPU seconds of this thread, and how much more often it has given up its core by itself than not; 1 µs."""
    used = thread_usage()
    if used is None:
        return time.thread_time(), time.perf_counter_ns()
    return used.ru_utime + used.ru_stime, used.ru_nvcsw - used.ru_nivcsw


def says(env: Any, name: str, usual: bool) -> bool:
    """What the environment says of itself (`replayable`, `thread_bound`), or one inside it: Gymnasium's wrappers do not pass
    such questions on."""
    while env is not None:
        if bool(getattr(env, name, usual)) != usual:
            return not usual
        env = getattr(env, "env", None) if isinstance(env, gymnasium.Wrapper) else getattr(env, "inner", None)
    return usual


def _seen(env: Any, observation: Any, is_over: bool = False) -> State:
    """Return the text or the images that `render` returns, or the observation without a render mode.

    An episode that is over may show nothing.
    """
    drawn = None if getattr(env, "render_mode", "text") is None else env.render()
    if drawn is None:
        drawn = "" if observation is None and is_over else observation
    if drawn is None:
        raise RolloutError("it shows None: let render return a text or pictures, or return an observation.")
    if isinstance(drawn, str):
        return drawn
    pictures = drawn if isinstance(drawn, list | tuple) else [drawn]
    if not pictures or not all(isinstance(picture, np.ndarray) for picture in pictures):
        return str(drawn)
    for picture in pictures:
        if not is_picture(picture):
            raise RolloutError(
                f"what it shows is an array of {picture.dtype} and shape {picture.shape}, expected text or pictures"
                " (height, width, 3) of uint8."
            )
    return [picture.copy() for picture in pictures]


def is_picture(value: Any) -> bool:
    """Whether it is an RGB array."""
    return isinstance(value, np.ndarray) and value.ndim == 3 and value.shape[2] == 3 and value.dtype == np.uint8


def _own(info: dict[str, Any]) -> dict[str, Any]:
    """A copy that the environment cannot change later, like one that comes from another process."""
    for key, value in info.items():
        if type(value) not in ATOMS:
            with suppress(Exception):  # what cannot be copied cannot be pickled either
                info = {**info, key: copy.deepcopy(value)}
    return info
