"""What is known of a child, in a file that it shares with its parent and with the fork server.

beats so far · the item it is at · milliseconds allowed · its number │ its exit code │ its stacks, when asked for them
└────────────────────────── written by the child ──────────────────┘   by its server   by faulthandler
"""

import faulthandler
import os
import sys

import numpy as np

from abreast.processes.backend import NOWHERE, SignOfLife
from abreast.processes.memory import SharedBlock, padded

MILLI = 1000
"""Seconds are shared as whole milliseconds."""
UNKNOWN_CODE = 256
"""Stands for the exit code of a process that has not ended. None ends with it."""
EXIT_CODE_AT = 32
STACKS_AT = padded(EXIT_CODE_AT + 8)


class Life:
    """The parent's view of it, or with its descriptor the child's."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._block = SharedBlock({"life": ((5,), np.int64)}, descriptor)
        self.descriptor, self._shared, self._beats = self._block.descriptor, self._block["life"], 0
        self._cells = self._shared.data  # a memoryview: half the time of an array
        self._shared[:] = 0, NOWHERE, 0, 0 if descriptor is None else os.getpid(), UNKNOWN_CODE

    @property
    def pid(self) -> int | None:
        """None if the child is not there yet."""
        return int(self._shared[3]) or None

    @property
    def exit_code(self) -> int | None:
        """Minus the signal that ended it; None if it has not ended, or its fork server has died."""
        code = int(self._shared[4])
        return None if code == UNKNOWN_CODE else code

    def beat(self, at: int = NOWHERE, allow_s: float = 0.0) -> None:
        """Show a sign of life."""
        cells = self._cells
        self._beats += 1
        cells[1] = at
        cells[2] = int(allow_s * MILLI)
        cells[0] = self._beats

    def read(self) -> SignOfLife:
        """The last sign of life."""
        beats, at, allowed, *_ = self._shared.tolist()
        return SignOfLife(beats, at, allowed / MILLI)

    def write_stacks_on(self, number: int) -> None:
        """Have this signal write the stacks of this process."""
        os.lseek(self.descriptor, STACKS_AT, os.SEEK_SET)
        faulthandler.register(number, file=self.descriptor)

    def read_stacks(self) -> str:
        """What was written."""
        return os.pread(self.descriptor, os.fstat(self.descriptor).st_size, STACKS_AT).decode(errors="replace")


def write_exit_code(descriptor: int, code: int) -> None:
    """Say how the child that shares this file has ended."""
    os.pwrite(descriptor, code.to_bytes(8, sys.byteorder, signed=True), EXIT_CODE_AT)
    os.close(descriptor)
