"""One actor in this thread, with all lanes."""

import time
from collections.abc import Callable
from typing import Any

from abreast.processes.cores import thread_usage
from abreast.state import State
from abreast.training.actors.base import Play, actor_state, cut_episodes
from abreast.training.collect import collect_pass
from abreast.worlds.playable import Playable, Played


class InlineActors:
    """Plays every lane of the game."""

    team = None

    def __init__(self, game: Playable) -> None:
        self._game = game
        self.pass_s = self.computing_s = 0.0
        """Seconds of the last pass, without those in which other programs had its core, and seconds in which it used one."""

    def play(self, order: Play, on_turn: Callable[[], None] | None) -> list[Played]:
        started, computing, waits = time.perf_counter(), time.thread_time(), _waits()
        try:
            played = collect_pass(self._game, order.epoch, order.lanes, order.seed, on_turn=on_turn)
        except BaseException:
            cut_episodes(self._game)
            raise
        self.pass_s = self.computing_s = time.thread_time() - computing
        if _waits() - waits >= max(each.turns for each in played):  # in every turn: for something that is no core
            self.pass_s = time.perf_counter() - started
        return played

    def state(self) -> State:
        return actor_state(self._game)

    def health(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        """All lanes are here already."""


def _waits() -> int:
    """How often this thread has given up its core by itself, where that is known."""
    used = thread_usage()
    return 0 if used is None else used.ru_nvcsw
