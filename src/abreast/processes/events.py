"""What a team tells of its workers, and when it replaces them."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

from abreast.errors import WorkerError

START_S = 120.0
"""Seconds within which a worker has to be ready, unless it is said: imports can be slow."""


class Answered(NamedTuple):
    """A worker has answered an order."""

    worker: int
    key: Hashable
    value: Any
    last: bool


class Died(NamedTuple):
    """A worker has died, failed or fallen silent; it will be replaced."""

    worker: int
    cause: str
    at: int
    """The item it was at (`ChildContext.beat`), or NOWHERE."""
    silent: bool
    keys: tuple[Hashable, ...]
    """Orders it had not finished."""
    error: WorkerError
    """The same for users, with the worker's stack as its cause, if it had one."""

    @property
    def has_raised(self) -> bool:
        """Whether its work raised an error, which it would raise again."""
        return self.error.__cause__ is not None

    def given_up(self, restarts: int) -> WorkerError:
        """The error that ends the work of this worker, or a part of it, after so many restarts without progress."""
        error = WorkerError(
            f"{str(self.error).rstrip('.')}{f', and was restarted {restarts} times already' if restarts else ''}: given up."
        )
        error.__cause__ = self.error.__cause__
        return error


class Lost(Died):
    """A worker has died once too often; it will not be replaced."""


Event = Answered | Died


@dataclass(frozen=True)
class RestartPolicy:
    """When a worker is taken for dead, and how often it is replaced."""

    limit: int
    """Deaths in a row, without an answer and at no item, that are followed by a restart."""
    silence_s: float
    """Seconds without a sign of life after which a worker with outstanding orders is killed."""
    start_s: float = START_S
    """Seconds within which a worker has to be ready."""


class RemoteTraceback(Exception):
    """The stack of a child, as the cause of the error the parent raises."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"
