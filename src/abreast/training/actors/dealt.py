"""Lanes of one actor, dealt out to several by a plan. Seen from outside there is still one, with all lanes.

So a checkpoint does not say how many actors there were, and a run can go on with any other plan; and when a run has ended,
the game has its lanes where a run with one actor would have left them.
"""

from collections.abc import Callable, Sequence
from typing import Any

from abreast.state import State, join, part_of
from abreast.training.actors.base import Play
from abreast.training.actors.process import ProcessActors
from abreast.worlds.playable import Played


def deal(state: State, actors: int, lanes: int, players: int) -> list[State]:
    """The state of an actor with all lanes, as states of so many actors with so many lanes each."""
    acting = {f"player{number}": part_of(state, f"player{number}") for number in range(players)}
    game = part_of(state, "game")
    return [
        join(
            game=join(**{f"lane{lane}": part_of(game, f"lane{actor * lanes + lane}") for lane in range(lanes)}),
            **acting,
        )
        for actor in range(actors)
    ]


def gather(states: Sequence[State], lanes: int, players: int) -> State:
    """States of actors with so many lanes each, as that of one with all lanes."""
    acting = {f"player{number}": part_of(states[0], f"player{number}") for number in range(players)}
    return join(game=join(**{f"lane{number}": each for number, each in enumerate(lanes_of(states, lanes))}), **acting)


def lanes_of(states: Sequence[State], lanes: int) -> list[State]:
    """The lanes of actors with so many each, in order."""
    return [part_of(state, f"game.lane{lane}") for state in states for lane in range(lanes)]


class DealtActors:
    """Actors of a plan."""

    def __init__(self, actors: ProcessActors, lanes: int, players: int) -> None:
        self._actors, self._lanes, self._players = actors, lanes, players

    def play(self, order: Play, on_turn: Callable[[], None] | None) -> list[Played]:
        return self._actors.play(order._replace(is_dealt=True), on_turn)

    def file_states(self) -> list[State]:
        return [gather(self._actors.file_states(), self._lanes, self._players)]

    def health(self) -> dict[str, Any]:
        return self._actors.health()

    @property
    def pids(self) -> list[int]:
        """Process ids of the other actors."""
        return self._actors.pids

    @property
    def elsewhere(self) -> dict[int, State]:
        """Where each lane of the other actors was after its last pass."""
        lanes = self._lanes
        return {
            (worker + 1) * lanes + number: lane
            for worker, state in self._actors.states.items()
            for number, lane in enumerate(lanes_of([state], lanes))
        }

    def close(self) -> None:
        self._actors.close()
