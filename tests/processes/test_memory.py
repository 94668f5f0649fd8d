"""Shared memory: anonymous, poisoned, aligned. (That it is the same in a child: test_team.py.)"""

from pathlib import Path

import numpy as np
import pytest

from abreast.processes.memory import SharedBlock

LAYOUT = {"floats": ((3, 5), np.float32), "counts": ((7,), np.int64), "bytes": ((2, 2), np.uint8)}


def test_fresh_memory_is_poisoned_and_aligned():
    block = SharedBlock(LAYOUT)
    assert np.isnan(block["floats"]).all() and (block["counts"] == -1).all()
    for name in LAYOUT:
        assert block[name].ctypes.data % 64 == 0
        assert block[name].shape == LAYOUT[name][0]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no /dev/shm here")
def test_nothing_has_a_name():
    before = set(Path("/dev/shm").iterdir())
    block = SharedBlock({"much": ((1_000_000,), np.float64)})
    assert set(Path("/dev/shm").iterdir()) == before
    assert block["much"].nbytes == 8_000_000


def test_descriptors_are_given_back():
    def open_files():
        return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0

    SharedBlock(LAYOUT)
    before = open_files()
    for _ in range(50):
        SharedBlock(LAYOUT)
    assert open_files() <= before + 1
