"""What a loop asks of its actors.

    here        ┌ actor 0: lanes 0 … L-1 ┐  the agents that learn belong to this one
    elsewhere   ┌ actor 1: lanes L … 2L-1┐  agents of its own, which choose with the weights they are told to read
                …

Every actor has worlds, bodies and random streams of its own, so it does not matter where it plays: one after the other
(inline), or all at once (process), with the same result.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from abreast.errors import AbreastError, ConfigError, StateError, short
from abreast.models import BaseModel
from abreast.state import State, join, part_of
from abreast.training.config import MPConfig
from abreast.worlds.playable import Playable, Played

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment

Factory = Callable[[], "Experiment"]
"""Builds another experiment like the first, for another actor."""


class Play(NamedTuple):
    """An order: play a pass."""

    number: int
    epoch: int
    """The first of its epochs."""
    first_epoch: int
    """The first of all actors' epochs in this pass."""
    lanes: int
    """How many of them, each in a lane of its own."""
    versions: list[int | None]
    """Which published weights each agent chooses with; None: the newest."""
    epsilons: list[float]
    seed: int
    """Of the experiment."""
    is_dealt: bool = False
    """Whether the actors were planned, so that results must not depend on how many there are."""


class Actors(Protocol):
    """They play, wherever they live."""

    def play(self, order: Play, on_turn: Callable[[], None] | None) -> list[Played]:
        """Play a pass. `on_turn` is called before each turn of the very first lane and at its end."""

    def file_states(self) -> list[State]:
        """Of each actor, between two passes: what it cannot get again, ready for a file (`actor_file_state`).

        Raises `StateError` if there is something that cannot be written.
        """

    def health(self) -> dict[str, Any]:
        """How they are, for the record."""

    def close(self) -> None:
        """End; what an unfinished pass wrote is forgotten."""


def build_game(factory: Factory, number: int, parallel: MPConfig | None = None) -> Playable:
    """The game of another actor; `parallel`: how the lanes are dealt out, if a plan says so."""
    experiment = factory()
    experiment.planned = parallel
    experiment.factory = factory  # its lanes are built by it too
    experiment.game.become_actor(number)
    return experiment.game


def models_of(game: Playable) -> list[BaseModel]:
    """The models of its players."""
    return [player.model for player in game.players]


def check_kinds(models: Sequence[BaseModel], expected: Sequence[str]) -> None:
    """Refuse models of another kind than those of the first actor, whose weights they are to choose with."""
    kinds = [type(model).__qualname__ for model in models]
    if kinds != list(expected):
        raise ConfigError(
            f"the environment's factory made models {', '.join(kinds)}, but those of the first actor are"
            f" {', '.join(expected)}: make them in setup_agents, or set env.factory to a function that builds all of it."
        )


def track(game: Playable) -> None:
    """From now on, find out which attributes of users' models choosing changes, and which learning."""
    for model in models_of(game):
        model.own_attributes.guard()


def actor_state(game: Playable) -> State:
    """All that an actor cannot get again, between two passes: worlds, and where choosing is."""
    models = {f"player{number}": model.acting_state() for number, model in enumerate(models_of(game))}
    return join(game=game.state(), **models)


def set_actor_state(game: Playable, state: State) -> None:
    """Play on from where another actor was, What does not fit is a `StateError`."""
    try:
        game.set_state(part_of(state, "game"))
        for number, model in enumerate(models_of(game)):
            model.set_acting_state(part_of(state, f"player{number}"))
    except AbreastError:
        raise
    except Exception as error:  # a state of a file may hold anything
        raise StateError(f"the state of an actor does not fit this game: {short(error)}.") from error
