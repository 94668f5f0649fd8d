"""Continuous actions: vectors of floats between bounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ActionBox:
    """Actions that are vectors of floats, given to a model in the place of `n_actions`.

    Models choose and remember each number in units of its bounds: -1 stands for `low`, 1 for `high`. What is further out is
    brought back to the bound where it is carried out (`scaled`), not in what is remembered.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.low)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of an action in a row of experience."""
        return np.dtype((np.float32, (len(self),)))

    def scaled(self, action: NDArray[Any]) -> NDArray[np.float64]:
        """What a chosen action stands for in the environment."""
        low, high = np.array(self.low), np.array(self.high)
        share = (np.clip(action, -1.0, 1.0).astype(np.float64) + 1.0) / 2.0
        scaled: NDArray[np.float64] = np.clip(low + share * (high - low), low, high)
        return scaled
