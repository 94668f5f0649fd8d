"""What manager and workers say to each other: one message per worker and batch, and as few answers.

Inside a message everything is a plain tuple: those are pickled several times as fast as anything with a name.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

State = str | list[NDArray[Any]]
"""What is seen: a text, or pictures."""

Build = tuple[int, bytes]
"""Have this environment: its number; what makes it and its configuration, pickled."""
Digest = tuple[int, bytes]
"""A fingerprint of the state after so many turns."""
Start = tuple[int, int, int, Sequence[Sequence[Any]], Digest | None]
"""Begin an episode: number of the environment, of the episode; seed; the actions of each turn so far, to play again; the
digest it must then come by."""
Take = tuple[int, int, Sequence[str], int]
"""Take a turn: number of the environment, of the episode; actions, how many of them the budget allows."""


class Orders(NamedTuple):
    """What a worker is to do, in this order."""

    builds: list[Build]
    starts: list[Start]
    takes: list[Take]
    together: bool
    """Whether all answers are waited for, so that none need come before the others."""
    verify: bool
    """Whether a digest is wanted of every state."""


class Turn(NamedTuple):
    """What a turn, or the start of an episode, came to. Nothing in it depends on where it was taken, `seconds` aside."""

    state: State
    reward: float = 0.0
    info: dict[str, Any] = {}  # noqa: RUF012 (never changed)
    names: Sequence[str] = ()
    """The actions executed, by name."""
    executed: Sequence[Any] = ()
    """The same as the environment takes them."""
    dropped: int = 0
    """Actions that were not known."""
    refused: int = 0
    """Actions executed that the environment itself called invalid."""
    done: bool = False
    failure: str | None = None
    """Why the episode cannot go on, if it cannot."""
    seconds: float = 0.0


Answer = tuple[int, int, int, tuple[Any, ...] | None, Digest | None]
"""What an order came to: number of the environment, of the episode; turns taken so far, which tells answers apart;
the `Turn` as a tuple, or None if environment or turn cannot be sent between processes; the newest digest there is."""
