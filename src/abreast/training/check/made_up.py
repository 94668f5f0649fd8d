"""A made-up game, in which models are checked."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.checking import SEED
from abreast.models import BaseModel
from abreast.models.observation import ObservationShape, PlainObservation, is_masked
from abreast.state import State
from abreast.training.experiment import Experiment
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played

TURNS = 16


class MadeUpGame(Playable):
    """A game with random observations, and rewards that depend on observation and action. Every second lane terminates."""

    def __init__(self, *models: BaseModel) -> None:
        self.players = [SimpleNamespace(model=model) for model in models]
        self.turns = 0
        self._rng = np.random.default_rng(SEED)

    def reset(self, lanes: int) -> None:
        self._lanes, self.turns = list(range(lanes)), 0
        self._scores_LN = np.zeros((lanes, len(self.players)))

    def decisions(self) -> Sequence[Decision] | None:
        if self.turns == TURNS:
            return None
        self._asked = [self._decision(agent, player.model) for agent, player in enumerate(self.players)]
        return self._asked

    def _decision(self, agent: int, model: BaseModel) -> Decision:
        states = [made_up_state(self._rng, model.observation) for _ in self._lanes]
        legal = [np.ones(model.n_actions, np.bool_) for _ in self._lanes] if is_masked(model.observation) else None
        return Decision(agent, self._lanes, states, legal)

    def step(self, actions: Sequence[Sequence[Any]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        self.turns += 1
        is_over = [self.turns == TURNS and lane % 2 == 1 for lane in self._lanes]
        outcomes = []
        for asked, chosen in zip(self._asked, actions, strict=True):
            rewards = [_worth(state, action) for state, action in zip(asked.states, chosen, strict=True)]
            self._scores_LN[:, asked.agent] += rewards
            outcomes.append(Outcome(rewards, is_over))
        return outcomes, ()

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        return [Played(self.turns, scores.tolist()) for scores in self._scores_LN], ()

    def state(self) -> State:
        return State({"stream": self._rng.bit_generator.state})

    def set_state(self, state: State) -> None:
        self._rng.bit_generator.state = state.facts["stream"]


def _worth(state: NDArray[Any], action: Any) -> float:
    """Return the reward of an action, which is a number or a vector."""
    numbers = state.ravel()
    if np.ndim(action) == 0:
        return float(numbers[action % numbers.size])
    return float(np.clip(action, -1.0, 1.0)[: numbers.size] @ numbers[: len(action)])


def made_up_state(rng: np.random.Generator, observation: ObservationShape) -> NDArray[Any]:
    """Return a random observation."""
    shape, dtype = tuple(observation.input_size), np.dtype(observation.dtype)
    return (rng.normal(size=shape) if dtype.kind == "f" else rng.integers(0, 2, shape)).astype(dtype)


def made_up_run(experiment: Experiment) -> Experiment | None:
    """Return a run of the made-up game that is otherwise like `experiment`, with abreast's own model in place of each
    user-defined one; or None if a model is derived from none of abreast's.
    """
    own = [player.model for player in experiment.game.players]
    if any(type(model).SHIPPED is BaseModel for model in own):
        return None
    lanes = experiment.config.multiprocessing.lanes
    models = [
        type(model).SHIPPED(
            PlainObservation.of(model.observation),
            model.chooses_from,
            model.config,
            experiment.agent_seed(agent),
            lanes,
        )
        for agent, model in enumerate(own)
    ]
    return Experiment(MadeUpGame(*models), experiment.config)
