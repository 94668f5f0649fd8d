"""The record of a turn: which phase it is in, and what it still needs.

    OVER ──reset──▶ QUEUED or SENT ──▶ TAKEN ──handed out──▶ READY, or OVER
    READY ─input──▶ QUEUED or SENT

    phase   event                               next
    QUEUED  taken in the main process           TAKEN
    QUEUED  interrupted (Ctrl-C, timeout)       QUEUED, to be replayed; after the second timeout TAKEN, as a failure
    SENT    answered                            TAKEN
    SENT    answer cannot be pickled            QUEUED, if it is a start, else TAKEN, as a failure
    QUEUED  its tag waits (auto)                SENT, to a thread
    SENT    Ctrl-C while waiting                SENT; `recv` goes on waiting
    SENT    its worker died                     SENT again; TAKEN, as a failure, after 3 deaths or 2 silences at it
    SENT    its worker is lost                  SENT to another, else QUEUED; TAKEN, as a failure, if workers died at it
    any     reset, or its lease ends            OVER

Only `Turns` (turns.py) changes a phase.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from abreast.rollouts.episodes.slot import Slot
from abreast.rollouts.episodes.waiters import Waiter

DEATHS, SILENCES = 3, 2
"""How often a worker may die, or fall silent, at one turn of an environment before its episode ends as a failure."""


class Phase(Enum):
    """Of a turn."""

    OVER = "over"
    """There is no episode, or it has ended."""
    READY = "ready"
    """The environment may be given an input."""
    QUEUED = "queued"
    """To be taken in the main process."""
    SENT = "sent"
    """Ordered from a worker."""
    TAKEN = "taken"
    """Its result is written, and not yet handed out."""


OVER, READY, QUEUED, SENT, TAKEN = Phase  # a look-up of a global takes 13 ns, of a member of an enum 85


@dataclass(slots=True)
class PendingTurn:
    """One per slot, used for every turn of it that is not abandoned: to make one takes 0.2 µs."""

    slot: Slot
    phase: Phase = OVER
    inputs: Mapping[str, Any] | None = None
    """The input; None: the start of the episode."""
    batch: int = 0
    """The key of the order it was sent with."""
    deaths: int = 0
    """How often a worker died or fell silent at it, or it took too long in the main process."""
    waiter: Waiter | None = None
    """The call of `step_async` that waits for it."""

    @property
    def is_awaited(self) -> bool:
        """Whether it is reserved for a call of `step_async`."""
        return self.waiter is not None and self.waiter.is_waiting
