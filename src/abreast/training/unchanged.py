"""Playing that leaves no trace: everything that outlives an epoch is put back, in the game and in its models."""

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from abreast.attributes import IMMUTABLE, LEFT_BY_RESET, digest, is_foreign
from abreast.errors import ConfigError
from abreast.models import BaseModel
from abreast.plain_values import Places
from abreast.state import copied
from abreast.training.actors.base import models_of

if TYPE_CHECKING:
    from abreast.training.environment import Environment
    from abreast.training.experiment import Experiment

log = logging.getLogger("abreast")


class LanesToPutBack(Protocol):
    """What evaluation asks of a game beside what `Playable` says."""

    def keep(self) -> Callable[[], None]:
        """A function that puts back everything, in all lanes, that outlives an epoch."""

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Let the next epoch follow from these seeds, one for each lane, and no others."""


def lanes_of(env: "Experiment") -> LanesToPutBack:
    """The game of an experiment, if it can be played without a trace."""
    game: Any = env.game
    if not hasattr(game, "keep") or not hasattr(game, "draw_from"):
        raise ConfigError(
            f"{env.name} cannot be evaluated: its game has no `keep` and `draw_from`, by which everything is as it was"
            " afterwards. Define both (abreast.training.unchanged says what they do)."
        )
    return game  # type: ignore[no-any-return]


@contextmanager
def unchanged(env: "Experiment") -> Iterator[Callable[[], None]]:
    """Gives a function that puts everything back as it is now; that is done at the end too.

    Inside, the models remember in memories of their own, which are empty then. Attributes of users' classes are put back as
    copies, if any has changed. One that cannot be copied stays as it is, which is told in the log.
    """
    put_back_lanes = lanes_of(env).keep()
    models = [_KeptModel(model, env.config.experiment.max_turns) for model in models_of(env.game)]

    def put_back() -> None:
        for model in models:
            model.put_back()
        put_back_lanes()

    try:
        yield put_back
    finally:
        put_back()
        for model in models:
            model.remember_again()


class KeptLane:
    """A gridworld environment of one lane, and all of it that outlives `reset`."""

    def __init__(self, lane: "Environment") -> None:
        self._lane, self._agents, self._rng = lane, list(lane.agents), lane.world.rng
        self._world = copied(lane.world.state())
        self._states = [copied(agent.state()) for agent in self._agents]
        owners = {lane.name: lane, type(lane.world).__name__: lane.world}
        owners |= {f"agent {number}": agent for number, agent in enumerate(self._agents)}
        self._ours = [
            (owner, {name: value for name, value in vars(owner).items() if name in LEFT_BY_RESET})
            for owner in owners.values()
        ]
        self._attributes = _KeptAttributes(owners, self._places)

    def _places(self) -> dict[str, object]:
        return {**self._lane._places(), "world.rng": self._rng}

    def put_back(self) -> None:
        self._lane.agents[:] = self._agents
        self._lane.world.rng = self._rng  # the object too: others may draw from it
        self._attributes.put_back()
        for owner, values in self._ours:
            for name in LEFT_BY_RESET & vars(owner).keys() - values.keys():
                del vars(owner)[name]
            vars(owner).update(values)
        self._lane.world.set_state(self._world)
        for agent, state in zip(self._agents, self._states, strict=True):
            agent.set_state(state)


class _KeptModel:
    """A model, and all that playing may change of it."""

    def __init__(self, model: BaseModel, turns: int) -> None:
        self._model, memory = model, model.memory
        self._ours = {name: value for name, value in vars(model).items() if name in model.KNOWN}
        self._acting = copied(model.acting_state())
        self._learning = copied(model.learning_state()) if is_foreign(model) else None  # ours only learn by learning
        self._attributes = _KeptAttributes({type(model).__name__: model}, model.places)
        fewest = memory.n_frames + memory.n_step
        rows = min(memory.rows_per_lane, max(turns, fewest) + 1)  # a replay may be far larger than an episode
        self._spare = memory.empty_copy(rows * memory.lanes).ring
        self._ring = memory.use(self._spare)

    def put_back(self) -> None:
        vars(self._model).update(self._ours)
        self._attributes.put_back()
        if self._learning is not None:
            self._model.set_learning_state(self._learning)
        self._model.set_acting_state(self._acting)
        self._spare.start()
        self._model.memory.use(self._spare)

    def remember_again(self) -> None:
        self._model.memory.use(self._ring)


class _KeptAttributes:
    """What users' classes have added to objects of ours. Some may refer to others, so they are put back all together.

    (Copied, not pickled as for another process: that makes, say, a text of an open file.)
    """

    def __init__(self, owners: Mapping[str, Any], places: Callable[[], Places]) -> None:
        self._owners = {key: owner for key, owner in owners.items() if is_foreign(owner)}
        self._places = places
        self._found = self._values()
        self._copies = {path: value for path, value in self._found.items() if self._can_be_copied(path, value)}
        self._copies = self._copied(self._copies)
        self._digests = self._look()

    def _values(self) -> dict[str, Any]:
        return {
            f"{key}.{name}": value
            for key, owner in self._owners.items()
            for name, value in vars(owner).items()
            if name not in owner.KNOWN
        }

    def _can_be_copied(self, path: str, value: Any) -> bool:
        if isinstance(value, IMMUTABLE):
            return False
        try:
            self._copied({path: value})
        except Exception as error:
            told = "%s cannot be copied (%s: %s), so it is not put back after an episode, and may matter to the next."
            log.warning(told, path, type(error).__name__, str(error).rstrip("."))
            return False
        return True

    def _copied(self, values: dict[str, Any]) -> dict[str, Any]:
        return copy.deepcopy(values, {id(place): place for place in self._places().values()})

    def _look(self) -> dict[str, bytes | None]:
        places, now = self._places(), self._values()
        return {path: digest(now.get(path), places) for path in self._copies}

    def put_back(self) -> None:
        for path in self._values().keys() - self._found.keys():
            key, _, name = path.rpartition(".")
            delattr(self._owners[key], name)
        has_changed = self._look() != self._digests
        for path, value in (self._found | (self._copied(self._copies) if has_changed else {})).items():
            key, _, name = path.rpartition(".")
            if has_changed or path not in self._copies:
                vars(self._owners[key])[name] = value
