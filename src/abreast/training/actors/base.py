"""What a loop asks of its actors.

    here        ┌ lanes 0 … L-1 ┐    the agents that learn belong to this process
    elsewhere   ┌ lanes L … 2L-1┐    agents of its own, which choose with the weights they are told to read
                …

Lanes do not depend on each other: worlds draw by lane, choices by pass and lane. So one actor may play all of them
(inline), or several may share them (process), with the same result. Seen from outside there is one, with all lanes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from abreast.display import HasTeam
from abreast.errors import AbreastError, StateError, short
from abreast.models import BaseModel
from abreast.state import State, join, part_of
from abreast.training.config import MPConfig
from abreast.worlds.playable import Playable, Played


class Play(NamedTuple):
    """An order: play a pass."""

    number: int
    epoch: int
    """The first of its epochs."""
    lanes: int
    """How many of them, each in a lane of its own."""
    versions: list[int | None]
    """Which published weights each agent chooses with; None: the newest."""
    epsilons: list[float]
    seed: int
    """Of the experiment."""


class Actors(HasTeam, Protocol):
    """They play, wherever they live."""

    def play(self, order: Play, on_turn: Callable[[], None] | None) -> list[Played]:
        """Play a pass. `on_turn` is called before each turn of the very first lane and at its end."""

    def state(self) -> State:
        """Between two passes, what cannot be got again, of all lanes (`actor_state`)."""

    def health(self) -> dict[str, Any]:
        """How they are, for the record."""

    def close(self) -> None:
        """End. All lanes are then here, where one actor would have left them; what an unfinished pass wrote elsewhere is
        forgotten.
        """


def models_of(game: Playable) -> list[BaseModel]:
    """The models of its players."""
    return [player.model for player in game.players]


def group_lanes(game: Playable, parallel: MPConfig) -> None:
    """Tell its models which lanes never choose together: those of different actors, where their number is set."""
    for model in models_of(game):
        model.streams.lanes_per_actor = parallel.lanes_per_actor


def cut_episodes(game: Playable) -> None:
    """End the episodes of an interrupted pass: other models, in the next run, write on in the same lanes."""
    for model in models_of(game):
        for lane in range(model.memory.lanes):
            model.end_episode(lane)


def actor_state(game: Playable) -> State:
    """All that an actor cannot get again, between two passes: worlds, and where choosing is."""
    return join(
        game=game.state(), **{f"player{number}": model.acting_state() for number, model in enumerate(models_of(game))}
    )


def set_actor_state(game: Playable, state: State) -> None:
    """Play on from where another actor was. What does not fit is a `StateError`."""
    try:
        game.set_state(part_of(state, "game"))
        for number, model in enumerate(models_of(game)):
            model.set_acting_state(part_of(state, f"player{number}"))
    except AbreastError:
        raise
    except Exception as error:  # a state of a file may hold anything
        raise StateError(f"the state of an actor does not fit this game: {short(error)}.") from error
