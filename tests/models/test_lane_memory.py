"""What goes with a row: the memory before the first of its frames."""

import numpy as np
import torch

from abreast.models.lane_memory import LaneMemory


def test_each_row_gets_the_memory_before_the_first_of_its_frames():
    memory = LaneMemory(lanes=3, n_frames=3, size=1)
    seen = {0: [], 2: []}
    for turn in range(1, 7):
        lanes = [0, 2] if turn != 3 else [2]
        rows = memory.rows(torch.zeros(len(lanes), 4), lanes)
        assert rows.shape == (len(lanes), 6) and (rows[:, 5] == 1).all()
        memory.carry_on(lanes, torch.full((len(lanes), 1), float(turn)))
        for lane in lanes:
            seen[lane].append((float(memory.extras["memory"][lane, 0]), int(memory.extras["frames"][lane])))
        if turn == 4:
            memory.clear(0)
    assert seen[2] == [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3), (3, 3)]
    assert seen[0] == [(0, 1), (0, 2), (0, 3), (0, 1), (0, 2)]
    memory.clear()
    assert not memory.rows(torch.zeros(3, 4), [0, 1, 2])[:, 4].any()


def test_what_a_row_holds_fits_what_is_told():
    memory = LaneMemory(lanes=2, n_frames=3, size=5)
    for name, kind in LaneMemory.extras_dtypes(5).items():
        dtype = np.dtype(kind)
        assert (memory.extras[name].shape[1:], memory.extras[name].dtype) == (dtype.shape, dtype.base)
