"""Whether this process may open as many files, pipes and sockets as a rollout needs."""

from pathlib import Path

from abreast.errors import RolloutError
from abreast.processes.cores import cores
from abreast.rollouts.config import ManagerConfig

NEEDED, NEEDED_FOR_WORKERS, NEEDED_PER_WORKER = 10, 10, 6
"""Measured, with Python 3.11 on Linux: 7 without workers, 21 with one, 39 with four."""


def check_descriptors(config: ManagerConfig, slots: int, connections: int, setting: str = "in_flight") -> None:
    """Refuse a rollout that would fail in its middle, in the words of whichever library lacks a descriptor first.

    `slots` are episodes at the same time, `connections` those to a server or its clients, `setting` what limits them.
    """
    workers = min(config.max_workers or min(8, cores()), slots) if config.use_multiprocessing is True else 0
    needed = NEEDED + connections + (NEEDED_FOR_WORKERS + NEEDED_PER_WORKER * workers if workers else 0)
    try:
        import resource  # not there on every platform

        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = needed if limit == resource.RLIM_INFINITY else max(0, limit - len(list(Path("/dev/fd").iterdir())))
    except (ImportError, OSError):
        return
    if free < needed:
        counts = {"max_workers": workers, setting: connections}
        less = " or ".join(f"lower {key} from {count}" for key, count in counts.items() if count)
        raise RolloutError(
            f"this process may open {free} more files, and this rollout needs about {needed}: raise the limit (ulimit -n)"
            f"{f', or {less}' if less else ''}."
        )
