"""The last few frames an agent saw, ready for its network."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


class FrameStack:
    """A sliding window over frames per lane, oldest first; zero before the start of the episode, as in the replay."""

    def __init__(self, lanes: int, n_frames: int, frame_shape: tuple[int, ...], scale: float) -> None:
        size = int(np.prod(frame_shape))
        self._scale = scale
        self._window_LTD = np.zeros((lanes, n_frames, size), dtype=np.float32)
        self._rows_LI = torch.from_numpy(self._window_LTD).view(lanes, n_frames * size)

    def push(self, frames: Sequence[NDArray[Any]], lanes: Sequence[int]) -> torch.Tensor:
        """Add the newest frame of some lanes; returns their windows as rows for a network, valid until the next push."""
        all_lanes = len(lanes) == len(self._rows_LI)
        index: Any = slice(None) if all_lanes else list(lanes)
        newest = np.array(frames).reshape(len(frames), -1)
        if self._scale != 1.0:
            newest = newest * np.float32(self._scale)
        window_LTD = self._window_LTD[index]
        self._window_LTD[index, :-1] = window_LTD[:, 1:].copy()
        self._window_LTD[index, -1] = newest
        return self._rows_LI if all_lanes else self._rows_LI[index]

    def clear(self, lane: int | None = None) -> None:
        """A new episode begins, in one lane or in all."""
        self._window_LTD[slice(None) if lane is None else lane] = 0.0
