"""The last few frames an agent saw, ready for its network."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


class FrameStack:
    """A sliding window over frames, oldest first; zero before the start of the episode, as in the replay's stacks."""

    def __init__(self, n_frames: int, frame_shape: tuple[int, ...], scale: float) -> None:
        size = int(np.prod(frame_shape))
        self._scale = scale
        self._window = np.zeros((n_frames, size), dtype=np.float32)
        self._tensor = torch.from_numpy(self._window).view(1, n_frames * size)

    def push(self, frame: NDArray[Any]) -> torch.Tensor:
        """Add the newest frame; returns the window as one row for a network, valid until the next push."""
        window = self._window
        window[:-1] = window[1:]
        window[-1] = frame.reshape(-1)
        if self._scale != 1.0:
            window[-1] *= self._scale
        return self._tensor

    def clear(self) -> None:
        """A new episode begins."""
        self._window[:] = 0.0
