"""What the main process and a worker send each other: one order per worker and batch, and as few answers as possible.

Inside a message everything is a plain tuple, list or dict: those are pickled several times as fast as instances of classes.
What a process answers is read by the codec (codec.py), so nothing of an environment is run in the main process.
"""

from collections.abc import Sequence
from typing import Any

from abreast.codec import Names, decode_message
from abreast.rollouts.episodes.episode import Digest, Episode

NAMES = Names(())
"""What an answer may hold beside numbers, texts, lists and dicts: arrays, and what else the codec lists."""
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
    answers: list[Answer] = decode_message(value, NAMES) if isinstance(value, bytes) else value
    return answers
