"""What manager and workers say to each other. One list of orders per worker and batch; answers come back in lists."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

State = str | list[NDArray[Any]]
"""What is seen: a text, or pictures."""


class Build(NamedTuple):
    """An order: have this environment."""

    env_id: int
    make: Callable[[Any], Any]
    config: Any


class Start(NamedTuple):
    """An order: begin an episode; if it was under way elsewhere, play it again up to where it was."""

    env_id: int
    seed: int
    executed: Sequence[Sequence[Any]] = ()
    """The actions of each turn so far."""
    digest: bytes | None = None
    """What the state has to be then; None: anything."""


class Take(NamedTuple):
    """An order: take a turn."""

    env_id: int
    actions: Sequence[str]
    budget: int
    """How many actions are left in this episode."""


class Stop(NamedTuple):
    """The last order."""


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


class Answer(NamedTuple):
    """What an order came to."""

    env_id: int
    number: int
    """Turns taken in this episode, this one included: tells an answer from one to an earlier order."""
    turn: Turn | None
    """None: it cannot be sent from one process to another."""
    digest: bytes
