"""A made-up game, in which models are checked."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.checking import SEED
from abreast.models import BaseModel
from abreast.state import State
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played

TURNS = 16


class MadeUpGame(Playable):
    """What its player sees is random, and the reward depends on that and the action. Every second lane ends for good."""

    def __init__(self, model: BaseModel) -> None:
        self.players = [SimpleNamespace(model=model)]
        self.turns = 0
        self._rng = np.random.default_rng(SEED)

    def reset(self, lanes: int) -> None:
        self._lanes, self.turns, self._scores = list(range(lanes)), 0, [0.0] * lanes

    def decisions(self) -> Sequence[Decision] | None:
        if self.turns == TURNS:
            return None
        self._states = [made_up_state(self._rng) for _ in self._lanes]
        return [Decision(0, self._lanes, self._states)]

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        self.turns += 1
        rewards = [_worth(state, action) for state, action in zip(self._states, actions[0], strict=True)]
        self._scores = [score + reward for score, reward in zip(self._scores, rewards, strict=True)]
        return [Outcome(rewards, [self.turns == TURNS and lane % 2 == 1 for lane in self._lanes])], ()

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        return [Played(self.turns, [score]) for score in self._scores], ()

    def state(self) -> State:
        return State({"stream": self._rng.bit_generator.state})

    def set_state(self, state: State) -> None:
        self._rng.bit_generator.state = state.facts["stream"]


def _worth(state: NDArray[np.uint8], action: Any) -> float:
    """The reward of an action, which is a number or a vector."""
    if np.ndim(action) == 0:
        return float(state.flat[action])
    return float(np.clip(action, -1.0, 1.0) @ state.ravel()[: len(action)])


def made_up_state(rng: np.random.Generator) -> NDArray[np.uint8]:
    """An observation."""
    return rng.integers(0, 2, (5, 5, 3)).astype(np.uint8)
