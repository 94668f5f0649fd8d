"""What a run asks of the experiment that is run. Parts that `Experiment` stands on take this, or less."""

from collections.abc import Callable
from typing import Any, Protocol

from abreast.training.config import Config, MPConfig
from abreast.worlds.playable import Playable

Factory = Callable[[], Any]
"""Builds another experiment like the first (a `Runnable`), for an actor in another process."""


class Runnable(Protocol):
    """An experiment."""

    config: Config[Any, Any]
    epochs_played: int

    @property
    def game(self) -> Playable:
        """What is played."""

    @property
    def name(self) -> str:
        """What it is called in messages and folders."""

    @property
    def target(self) -> str | None:
        """Where its game is found again, if that can be said (`Config.game`)."""

    @property
    def factory(self) -> Factory | None:
        """None, or a `WorldError` that says why, where it cannot be built again."""

    @property
    def is_batched(self) -> bool:
        """Whether all lanes are played at once on a device, in a batched world."""

    def check_parallel(self, parallel: MPConfig) -> None:
        """Refuse settings of a parallel run that it cannot keep to."""
