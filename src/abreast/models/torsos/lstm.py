"""A torso with a memory (long short-term memory) that is carried from frame to frame over a whole episode.

A row that comes in:   │ frame │ frame │ … │ frame │ memory before the first of them │ how many of them are there │

The last frames of a row are those that are there: before the start of an episode there are none. When choosing, a row has
one frame; when learning, it has `n_frames`, and the memory is what it was when the first of them was seen (stored with the
row, as R2D2 does: Kapturowski et al. 2019).

Shapes: B rows, T frames, D numbers of a frame, H hidden, S = 2 H numbers of a memory, M of all memories of a network.
"""

import torch
from torch import Tensor

from abreast.models.layers import Linear, initialise_all
from abreast.models.torsos.base import Torso


class LSTM(Torso):
    """A memory of `hidden` cells; `encoder`, if any, sees each frame first."""

    def __init__(self, frame_size: int, hidden: int, number: int, memories: int, encoder: Torso | None) -> None:
        """`number`: which of the memories of its network it is, of how many."""
        super().__init__()
        self.features, self._frame_size = hidden, frame_size
        self._all_memory, self._first = memories * 2 * hidden, number * 2 * hidden
        self.encoder = encoder
        self.gates = Linear(frame_size if encoder is None else encoder.features, 4 * hidden)
        self.gates_again = Linear(hidden, 4 * hidden)

    def initialise(self, generator: torch.Generator) -> None:
        initialise_all((self.encoder, self.gates, self.gates_again), generator)
        with torch.no_grad():  # begin by keeping what is remembered
            self.gates.bias[self.features : 2 * self.features] += 1.0

    def forward(self, rows: Tensor) -> Tensor:
        """Features after the last frame, (B, H)."""
        return self.unroll(rows)[0]

    def unroll(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Features and memory after the last frame, (B, H) and (B, S)."""
        hidden, in_front = self.features, rows.shape[1] - self._all_memory - 1
        frames_BX, memory_BM, there_B1 = torch.split(rows, [in_front, self._all_memory, 1], dim=1)
        count = in_front // self._frame_size
        frames_RD = frames_BX.reshape(-1, self._frame_size)
        encoded_RF = frames_RD if self.encoder is None else self.encoder(frames_RD)
        gates_BTG = self.gates(encoded_RF).view(len(rows), count, 4 * hidden)
        told_BH, cells_BH = memory_BM[:, self._first : self._first + 2 * hidden].chunk(2, dim=1)
        for frame in range(count):
            gates_BG = gates_BTG[:, frame] + self.gates_again(told_BH)
            let_in, keep, let_out = torch.sigmoid(gates_BG[:, : 3 * hidden]).chunk(3, dim=1)
            new_cells_BH = keep * cells_BH + let_in * torch.tanh(gates_BG[:, 3 * hidden :])
            new_told_BH = let_out * torch.tanh(new_cells_BH)
            is_there_B1 = there_B1 >= count - frame
            told_BH = torch.where(is_there_B1, new_told_BH, told_BH)
            cells_BH = torch.where(is_there_B1, new_cells_BH, cells_BH)
        return told_BH, torch.cat([told_BH, cells_BH], dim=1)
