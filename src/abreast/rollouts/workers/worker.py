"""What runs in a worker process: some environments, stepped one after the other as the main process orders."""

import os
import pickle
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from abreast.codec import decode_message, encode_message
from abreast.errors import StateError
from abreast.processes.backend import ChildContext
from abreast.processes.spans import span
from abreast.rollouts.episodes.episode import BUILD_S, Digest, Episode
from abreast.streams import Draws

# ---- messages: one order per worker and batch, and as few answers as possible
#
# Inside a message everything is a plain tuple, list or dict: those are pickled several times as fast as instances of
# classes.
# What a process answers is read by the codec (codec.py), so nothing of an environment is run in the main process.

AT_ANSWERS = -2
"""Stands for the environment at work while a worker sends the answers of a batch."""

Take = tuple[int, Sequence[str] | None, int]
"""A turn to take: number of the environment; its actions, or None if only the start is wanted; actions left."""
Start = tuple[int, Sequence[Sequence[Any]], Digest | None]
"""What brings an environment in step before its turn: seed; the actions of each turn so far, to be replayed; the digest it
must have after them."""
Order = tuple[list[Take], dict[int, bytes | Episode], dict[int, Start], set[int], bool, bool]
"""A batch: turns; by environment, what makes it, with its configuration, pickled, or in a thread the object itself; starts,
by environment; those of which one has killed the worker when it answered; whether all answers are waited for, so that none
need come before the others; whether a digest is wanted of every state."""
Answer = tuple[int, tuple[Any, ...] | str, Digest | None]
"""Number of the environment; the `TurnResult` as a tuple, or why environment or result cannot be sent between processes; the
newest digest there is."""


def read_answers(value: bytes | list[Answer]) -> list[Answer]:
    """The answers that a process has encoded; those of a thread are as they are."""
    answers: list[Answer] = decode_message(value) if isinstance(value, bytes) else value
    return answers


# ---- the work

FLUSH_S = 0.002
"""Answers are kept for the end of a batch, but for no longer than this if the caller may want them one by one."""
DIGEST_WORTH_S, DIGEST_EVERY = 50e-6, 16
"""A digest takes 3 µs: of every turn of an environment whose turns take longer than the first, else of every 16th turn."""


def rollout_process(context: ChildContext, memory_mb: int | None) -> "RolloutWork":
    """The work of a process of its own."""
    if sys.platform == "linux":
        # The main process finishes sending before the kernel lets a worker that was woken run in its place.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        if memory_mb is not None:
            import resource  # not there on every platform

            # Allocations beyond the limit fail with MemoryError, which costs this worker, not the machine.
            resource.setrlimit(resource.RLIMIT_DATA, (memory_mb * 2**20, memory_mb * 2**20))
    return RolloutWork(context, encode_message)


class RolloutWork:
    """The environments of one worker."""

    def __init__(self, context: ChildContext, encode: Callable[[list[Answer]], Any] = lambda answers: answers) -> None:
        """`encode`: what is sent for a list of answers; in a thread, the list itself."""
        self._context, self._encode = context, encode
        self._episodes: dict[int, Episode] = {}
        self._draws: dict[bytes, Draws] = {}
        """By what makes the environments of a tag."""
        self._unfit: dict[int, str] = {}
        """Why some environments cannot live here."""

    def obey(self, key: Hashable, order: Order) -> None:
        """Take the turns of a batch. `beat` shows which environment is at work, so that the right one is blamed."""
        takes, builds, starts, suspects, together, verify = order
        beat, episodes = self._context.beat, self._episodes
        with span("turn"):
            for env_id, recipe in builds.items():
                self._build(env_id, recipe)
            answers: list[Answer] = []
            due: list[Episode] = []
            flushed = time.perf_counter()
            for env_id, actions, budget in takes:
                beat(env_id)
                if env_id not in episodes:
                    answers.append((env_id, self._unfit[env_id], None))
                    continue
                episode = episodes[env_id]
                if not together and answers and max(episode.last_s, time.perf_counter() - flushed) > FLUSH_S:
                    beat(AT_ANSWERS)
                    self._context.answer(key, self._encoded(answers), False)  # before a turn that may take long
                    beat(env_id)
                    answers, flushed = [], time.perf_counter()
                if env_id in starts:
                    if actions is None:
                        result = episode.start(starts[env_id][0])
                    else:
                        with span("rebuild"):
                            result = episode.rebuild(*starts[env_id])
                    if result.failure is None and actions is not None:
                        result = episode.take(actions, budget)
                    episode.take_digest()
                else:
                    assert actions is not None, "a start has a seed"
                    result = episode.take(actions, budget)
                    if verify:
                        episode.take_digest()
                    elif result.seconds > DIGEST_WORTH_S or len(episode.executed) % DIGEST_EVERY == 0:
                        due.append(episode)
                answers.append((env_id, (*result,), episode.known_digest))
                if suspects:  # each is answered while its environment is still the one at work
                    self._context.answer(key, self._encoded(answers), False)
                    answers = []
            beat(AT_ANSWERS)
            self._context.answer(key, self._encoded(answers), True)
            beat()
            for episode in due:  # while the main process is at work; they go with the next answers
                episode.take_digest()

    def idle(self) -> None:
        """Nothing is done without an order."""

    def close(self) -> None:
        """Close the environments."""
        for episode in self._episodes.values():
            episode.close()

    def _build(self, env_id: int, recipe: bytes | Episode) -> None:
        if env_id in self._episodes:
            self._episodes.pop(env_id).close()
        if not isinstance(recipe, Episode):
            self._context.beat(env_id, BUILD_S)
            try:
                make, config = pickle.loads(recipe)
                recipe = Episode(make, config, self._draws.setdefault(recipe, Draws()), dies_of_memory=True)
            except MemoryError:
                raise
            except Exception as error:
                self._unfit[env_id] = f"it cannot be unpickled in a worker ({type(error).__name__}: {error})"
                return
        recipe.beat = partial(self._context.beat, env_id)
        self._episodes[env_id] = recipe

    def _encoded(self, answers: list[Answer]) -> Any:
        try:
            return self._encode(answers)
        except StateError:  # something in it cannot be sent
            return self._encode([self._sendable(answer) for answer in answers])

    def _sendable(self, answer: Answer) -> Answer:
        """The answer, or why it cannot be sent."""
        try:
            self._encode([answer])
        except StateError as error:
            return answer[0], f"what it returned cannot be sent: {error}", None
        return answer
