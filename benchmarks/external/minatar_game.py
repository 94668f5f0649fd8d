"""A game of MinAtar (the package minatar) as a Gymnasium environment: pictures of 10 by 10 cells."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from minatar import Environment


class MinAtar(gymnasium.Env[Any, int]):
    """Without sticky actions; an episode is cut after 1,000 steps."""

    def __init__(self, game: str) -> None:
        self._game = Environment(game, sticky_action_prob=0.0)
        self.action_space = Discrete(self._game.num_actions())
        self.observation_space = Box(0, 1, self._game.state_shape(), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self._game.seed(seed)
        self._game.reset()
        self._steps = 0
        return self._game.state().astype(np.float32), {}

    def step(self, action: int) -> Any:
        reward, over = self._game.act(action)
        self._steps += 1
        return self._game.state().astype(np.float32), float(reward), bool(over), self._steps == 1000, {}


def make(game: str = "breakout") -> MinAtar:
    return MinAtar(game)
