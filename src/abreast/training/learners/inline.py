"""Learners in this very thread, with the agents' own models: the sequential run, and the debug mode of any other."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any

from abreast.errors import WorkerError
from abreast.models import BaseModel
from abreast.training.learners.base import RoundResult, train_round


class InlineLearners:
    """Trains when a round is waited for. `slack`: rows that may be written between the order and then."""

    given_up: Mapping[int, WorkerError] = MappingProxyType({})
    keeps_to_windows = True
    rounds = 0

    def __init__(self, models: Sequence[BaseModel], slack: int = 0) -> None:
        self._models = dict(enumerate(models))
        self._orders: dict[int, tuple[int, Sequence[list[int]]]] = {}
        self._own_rings = [model.memory.move_rows(model.memory.make_ring(slack)) for model in models] if slack else []

    def submit(self, number: int, updates: int, written: Sequence[list[int]]) -> None:
        self._orders[number] = updates, written

    def finish(self, number: int) -> list[RoundResult]:
        updates, written = self._orders.pop(number)
        with ExitStack() as windows:
            for model, rows in zip(self._models.values(), written, strict=True):
                windows.enter_context(model.memory.window(rows))
            results = train_round(self._models, updates)
        self.rounds = number + 1
        return list(results.values())

    def acting_versions(self) -> list[int | None]:
        return [None] * len(self._models)

    def health(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        for model, ring in zip(self._models.values(), self._own_rings, strict=False):
            model.memory.move_rows(ring)
        self._own_rings = []
