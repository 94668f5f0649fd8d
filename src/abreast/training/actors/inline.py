"""One actor in this thread, with all lanes."""

import time
from collections.abc import Callable
from typing import Any

from abreast.state import State
from abreast.training.actors.base import Play, actor_state, cut_episodes, models_of
from abreast.training.collect import collect_pass
from abreast.worlds.playable import Playable, Played


class InlineActors:
    """Plays every lane of the game."""

    def __init__(self, game: Playable) -> None:
        self._game = game
        self.pass_s = self.computing_s = 0.0
        """Seconds of the last pass, and those of them in which this thread used a core."""

    def play(self, order: Play, on_turn: Callable[[], None] | None) -> list[Played]:
        started, computing = time.perf_counter(), time.thread_time()
        try:
            played = collect_pass(self._game, order.epoch, order.lanes, order.seed, on_turn=on_turn)
        except BaseException:
            cut_episodes(self._game)
            raise
        self.pass_s, self.computing_s = time.perf_counter() - started, time.thread_time() - computing
        return played

    def state(self) -> State:
        return actor_state(self._game)

    def health(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        for model in models_of(self._game):
            model.own_attributes.release()
