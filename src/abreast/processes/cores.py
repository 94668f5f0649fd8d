"""The cores of this machine: how many are ours, and how to wait without giving one up."""

import os
import time
from collections.abc import Callable
from typing import Any

LOOK_OUT_S = 200e-6
"""How long to look out for a message that is expected at once. To sleep and be woken takes 50 µs, on either side."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def look_out(is_there: Callable[[], Any]) -> bool:
    """Look again and again whether something is there, for a moment at most; others on this core come first."""
    end = time.perf_counter() + LOOK_OUT_S
    while not is_there():
        if time.perf_counter() > end:
            return False
        os.sched_yield()
    return True


def has_free_core() -> bool:
    """Whether there seems to be a core for another process beside this one. (Two that import at once on one core both take
    twice as long.)
    """
    return os.getloadavg()[0] + 1 < cores()
