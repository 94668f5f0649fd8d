"""What is kept of the episode under way, by lane, for a network: the last frames, and its memory.

Shapes: L lanes, B rows, T frames, D numbers of a frame, I = T D, S numbers of memory.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class FrameStack:
    """A sliding window over frames per lane, oldest first; zero before the start of the episode, as in the replay."""

    def __init__(self, lanes: int, n_frames: int, frame_shape: tuple[int, ...], scale: float) -> None:
        size = int(np.prod(frame_shape))
        self._scale = scale
        self._rows_LI = torch.zeros(lanes, n_frames * size)  # memory of torch's own: aligned, as rounding needs
        self._window_LTD = self._rows_LI.numpy().reshape(lanes, n_frames, size)

    def push(self, frames: Sequence[NDArray[Any]], lanes: Sequence[int]) -> Tensor:
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


class LaneMemory:
    """The memory of each lane: nothing (zero) at the start of an episode, then what the network made of each frame.

    With each row goes what learning needs to unroll the last T frames again: the memory before the first of them, and how
    many there are.
    """

    def __init__(self, lanes: int, n_frames: int, size: int) -> None:
        self._now_LS = np.zeros((lanes, size), dtype=np.float32)
        self._before_LTS = np.zeros((lanes, n_frames, size), dtype=np.float32)
        """Before each of the last frames, the newest last."""
        self._frames_L = np.zeros(lanes, dtype=np.int64)
        self.extras: dict[str, NDArray[Any]] = {
            "memory": np.zeros((lanes, size), dtype=np.float32),
            "frames": np.zeros(lanes, dtype=np.int16),
        }
        """For the next row of each lane."""

    @staticmethod
    def extras_dtypes(size: int) -> dict[str, Any]:
        """What a row holds of it."""
        return {"memory": np.dtype((np.float32, (size,))), "frames": np.int16}

    def rows(self, frames: Tensor, lanes: Sequence[int]) -> Tensor:
        """The newest frames of some lanes as rows for a torso with a memory."""
        return torch.cat([frames, torch.from_numpy(self._now_LS[list(lanes)]), torch.ones(len(lanes), 1)], dim=1)

    def carry_on(self, lanes: Sequence[int], after_BS: Tensor) -> None:
        """The network has seen a frame in these lanes, and remembers this now."""
        index, n_frames = list(lanes), self._before_LTS.shape[1]
        before_BTS = self._before_LTS[index]
        before_BTS[:, :-1] = before_BTS[:, 1:].copy()
        before_BTS[:, -1] = self._now_LS[index]
        self._before_LTS[index] = before_BTS
        self._frames_L[index] = there_B = np.minimum(self._frames_L[index] + 1, n_frames)
        self.extras["memory"][index] = before_BTS[np.arange(len(index)), n_frames - there_B]
        self.extras["frames"][index] = there_B
        self._now_LS[index] = after_BS.numpy()

    def clear(self, lane: int | None = None) -> None:
        """A new episode begins, in one lane or in all."""
        index = slice(None) if lane is None else lane
        self._now_LS[index], self._frames_L[index] = 0.0, 0
