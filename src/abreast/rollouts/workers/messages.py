"""What the main process and a worker send each other: one order per worker and batch, and as few answers as possible.

Inside a message everything is a plain tuple, list or dict: those are pickled several times as fast as instances of classes.
"""

from collections.abc import Sequence
from typing import Any

from abreast.rollouts.episodes.episode import Digest, Episode

Take = tuple[int, Sequence[str] | None, int]
"""A turn to take: number of the environment; its actions, or None if only the start is wanted; actions left."""
Start = tuple[int, Sequence[Sequence[Any]], Digest | None]
"""What brings an environment in step before its turn: seed; the actions of each turn so far, to be replayed; the digest it
must have after them."""
Order = tuple[list[Take], dict[int, bytes | Episode], dict[int, Start], bool, bool]
"""A batch: turns; by environment, what makes it, with its configuration, pickled, or in a thread the object itself; starts,
by environment; whether all answers are waited for, so that none need come before the others; whether a digest is wanted of
every state."""
Answer = tuple[int, tuple[Any, ...] | str | Episode, Digest | None]
"""Number of the environment; the `TurnResult` as a tuple, or why environment or result cannot be sent between processes, or,
of a thread, an environment that belongs to another thread; the newest digest there is."""
