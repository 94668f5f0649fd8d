"""Shared memory: anonymous, poisoned, aligned, the same in a child."""

from pathlib import Path

import numpy as np
import pytest

from abreast.processes.memory import SharedBlock
from abreast.processes.worker import Child, Ready
from fakes import hear

LAYOUT = {"floats": ((3, 5), np.float32), "counts": ((7,), np.int64), "bytes": ((2, 2), np.uint8)}


def add_one(connection, block):
    connection.send(Ready())
    block["counts"][:] += 1
    connection.send("done")


def test_fresh_memory_is_poisoned_and_aligned():
    block = SharedBlock(LAYOUT)
    assert np.isnan(block["floats"]).all() and (block["counts"] == -1).all()
    for name in LAYOUT:
        assert block[name].ctypes.data % 64 == 0
        assert block[name].shape == LAYOUT[name][0]


def test_a_child_gets_the_same_memory():
    block = SharedBlock(LAYOUT)
    block["counts"][:] = 41
    child = Child("adder", add_one, [block])
    assert hear(child, 2) == [Ready(), "done"]
    child.end(5)
    assert (block["counts"] == 42).all()


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
