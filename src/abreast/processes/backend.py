"""How a child is started and talked to. Code above this layer does not know whether a child is a process, a thread, or on
another machine.

    parent: Team                         child
      Backend.start(spec) ─────────────▶ work = make(context, *arguments)
      Child.send((key, order)) ────────▶ work.obey(key, order)
      Child.receive() ◀───────────────── context.answer(key, value, last)
      Child.sign_of_life() ◀──────────── context.beat(at)
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from abreast.processes.shares import Share

NOWHERE = -1
"""Stands for the item a child is at when it is at none."""
STOP = None
"""The last message to a child."""


class Work(Protocol):
    """What a child does; made in the child, as make(context, *arguments)."""

    def obey(self, key: Hashable, order: Any) -> None:
        """Carry out an order, and answer it under its key."""

    def idle(self) -> float | None:
        """Called whenever there is no order; returns seconds until the next call. None: wait for an order."""
        return None

    def close(self) -> None:
        """Called when the parent says stop."""
        return


class ChildContext(Protocol):
    """The child's side of the connection to its parent."""

    number: int
    """Which worker of its team it is."""

    def beat(self, at: int = NOWHERE, allow_s: float = 0.0) -> None:
        """Show a sign of life, and the item (an agent, an environment) being worked on; the next beat may come `allow_s`
        seconds later than usual.
        """

    def answer(self, key: Hashable, value: Any, last: bool = True) -> None:
        """Answer an order; `last` says that no further answer to it follows."""


class SignOfLife(NamedTuple):
    """What a child showed last."""

    beats: int
    """How many so far."""
    at: int
    allow_s: float


@dataclass(frozen=True)
class ChildSpec:
    """What to start."""

    name: str
    """What it is called in messages to users."""
    make: Callable[..., Work]
    arguments: tuple[Any, ...] = ()
    needs_main: bool = False
    """Whether the arguments hold something defined in the user's main script, which the child then imports."""
    reads: tuple[Share, ...] = ()
    """What it reads of the shared memory in its arguments,"""
    writes: tuple[Share, ...] = ()
    """and what it writes there."""


def label(name: str) -> str:
    """What log lines of a child are marked with: its name, without what it works on."""
    return name.partition(" of ")[0]


@dataclass(frozen=True)
class Ready:
    """A child's first message: its work is made."""


@dataclass(frozen=True)
class Failed:
    """A child's last message: its work raised."""

    error: str
    traceback: str


class Child(Protocol):
    """A child that was started, as its parent sees it. No method blocks, `kill` and `stack` aside, which take a moment."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def hint(self) -> str:
        """What may be the matter if it does not start."""

    @property
    def fds(self) -> tuple[int, ...]:
        """Readable when there is something to receive, or the child is gone. A child that has none calls `wake` instead."""

    @property
    def is_alive(self) -> bool: ...

    def send(self, message: Any) -> None:
        """Send a message; OSError if the child is gone."""

    def receive(self) -> list[Any]:
        """All messages that have arrived whole; EOFError if there will be no more."""

    def sign_of_life(self) -> SignOfLife: ...

    @property
    def was_killed(self) -> bool:
        """Whether it did not end by itself: another may fare better."""

    def cause_of_death(self) -> str:
        """Why the child ended, as part of a sentence."""

    def stack(self) -> str:
        """Where the child is now, if it can tell; for one that has stopped answering."""

    def kill(self) -> None:
        """End it at once and release what it holds. A child that cannot be killed (a thread) is cut off."""


class Backend(Protocol):
    """Starts children of one kind."""

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> Child:
        """Start worker `number`; raises WorkerError if that fails. `wake` may be called from any thread."""
