"""The cores of this machine: how many are ours, and how to wait without giving one up."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

try:
    import resource
except ImportError:  # not there on every platform
    resource = None  # type: ignore[assignment]

SPIN_S = 200e-6
"""How long to wait without sleeping for a message that is expected at once. To sleep and be woken takes 50 µs, on either
side.
"""
CGROUP_ROOT = Path("/sys/fs/cgroup")
CGROUPS_OF_PROCESS = Path("/proc/self/cgroup")


def cores() -> int:
    """How many whole cores this process may use: by its affinity mask, and by the quota of its control groups."""
    allowed, share = allowed_cores(), quota()
    return allowed if share is None else max(1, min(allowed, math.floor(share)))


def allowed_cores() -> int:
    """How many cores the affinity mask of this process has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota() -> float | None:
    """How many cores' worth of time the control groups of this process allow, say 0.5; None: as much as there is.

    Groups lie inside each other, and the smallest quota counts. A container sees the groups from its own on.
    """
    with suppress(OSError):
        lines = CGROUPS_OF_PROCESS.read_text(encoding="utf-8", errors="replace").splitlines()
        return min((share for line in lines for share in _quotas(*line.split(":", 2))), default=None)
    return None


def _quotas(number: str, controllers: str = "", path: str = "/") -> Iterator[float]:
    """The quotas of a group, named by a line of `CGROUPS_OF_PROCESS`, and of those around it."""
    is_v2 = number == "0" and not controllers
    if not is_v2 and "cpu" not in controllers.split(","):
        return
    root = CGROUP_ROOT if is_v2 else CGROUP_ROOT / "cpu"
    inner = Path(*Path(path.lstrip("/")).parts)
    for group in (inner, *inner.parents):  # one that this container does not see is not there
        with suppress(OSError, ValueError):
            share = _v2_quota(root / group) if is_v2 else _v1_quota(root / group)
            if share is not None and share > 0:
                yield share


def _v2_quota(group: Path) -> float | None:
    most, period = (group / "cpu.max").read_text().split()
    return None if most == "max" else int(most) / max(int(period), 1)


def _v1_quota(group: Path) -> float | None:
    most, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    return None if most < 0 else most / max(period, 1)


def spin_wait(is_ready: Callable[[], Any]) -> bool:
    """Call `is_ready` until it is true, for SPIN_S seconds at most; returns whether it was. Other processes come first."""
    end = time.perf_counter() + SPIN_S
    while not is_ready():
        if time.perf_counter() > end:
            return False
        getattr(os, "sched_yield", bool)()  # where it is missing, nothing gives way
    return True


def has_free_core() -> bool:
    """Whether there seems to be a core for another process beside this one. (Two that import at once on one core both take
    twice as long.)
    """
    return hasattr(os, "getloadavg") and os.getloadavg()[0] + 1 < cores()


def thread_usage() -> "resource.struct_rusage | None":
    """Return what the system counts of this thread (`getrusage`), or None where it counts nothing; 1 µs."""
    return resource.getrusage(resource.RUSAGE_THREAD) if hasattr(resource, "RUSAGE_THREAD") else None
