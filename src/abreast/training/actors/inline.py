"""All actors in this thread, one after the other."""

from collections.abc import Callable, Sequence
from typing import Any

from abreast.errors import ConfigError
from abreast.models import BaseModel
from abreast.models.own import note_shared
from abreast.state import State
from abreast.training.actors.base import (
    Factory,
    Play,
    actor_state,
    build_game,
    check_kinds,
    models_of,
    set_actor_state,
    track,
)
from abreast.training.collect import collect_pass
from abreast.worlds.playable import Playable, Played


class InlineActors:
    """`lanes` are those of one actor; `count` actors share a pass. `states`: where each goes on, if the run does."""

    def __init__(
        self, game: Playable, factory: Factory | None, lanes: int, count: int, states: Sequence[State] = ()
    ) -> None:
        self._lanes = lanes
        self._games = [game]
        if factory is not None:
            self._games += [build_game(factory, number) for number in range(1, count)]
            if len({id(model) for each in self._games for model in models_of(each)}) < count * len(models_of(game)):
                raise ConfigError(
                    "the factory returned an environment, or models, that another actor plays with already: let it build"
                    " new ones."
                )
            note_shared(models_of(game))
            for each in self._games:
                check_kinds(models_of(each), [type(model).__qualname__ for model in models_of(game)])
                track(each)
            for each in self._games[1:]:
                for own, model in zip(models_of(game), models_of(each), strict=True):
                    model.adopt(own.learning_state())  # attributes as they are before the first actor changes any
        for each, state in zip(self._games, states, strict=False):
            set_actor_state(each, state)

    def file_states(self) -> list[State]:
        return [actor_state(game) for game in self._games]

    def play(self, order: Play, on_turn: Callable[[], None] | None) -> list[Played]:
        played: list[Played] = []
        first = self._games[0]
        for game in self._games:
            lanes = min(self._lanes, order.lanes - len(played))
            if lanes <= 0:
                break
            if game is not first:
                on_turn = None
                for agent, (own, model) in enumerate(zip(models_of(first), models_of(game), strict=True)):
                    _follow(model, own, order.epsilons[agent])
            try:
                played += collect_pass(
                    game,
                    order.epoch + len(played),
                    lanes,
                    order.seed,
                    first_epoch=order.first_epoch,
                    is_dealt=order.is_dealt,
                    on_turn=on_turn,
                )
            except BaseException:
                _cut_episodes(game)
                raise
        return played

    def health(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        for model in models_of(self._games[0]):
            model.own_attributes.release()


def _cut_episodes(game: Playable) -> None:
    """End the episodes of an interrupted pass: other models, in the next run, write on in the same lanes."""
    for model in models_of(game):
        for lane in range(model.memory.lanes):
            model.end_episode(lane)


def _follow(model: BaseModel, leader: BaseModel, epsilon: float) -> None:
    """Choose with what another model, in this process, has learned, and remember where it does."""
    model.adopt(leader.learning_state())
    model.epsilon = epsilon  # that of the beginning of the pass, which the leader may have lowered meanwhile
    model.memory.use(leader.memory.ring)
