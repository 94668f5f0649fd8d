"""What a run may not leave behind: processes, descriptors, shared memory, files."""

import contextlib
import gc
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Held(NamedTuple):
    """What this process and its descendants hold at a moment."""

    processes: frozenset[int]
    descriptors: int
    blocks: int
    """Blocks of our shared memory that are mapped or open here."""
    shared: frozenset[str]
    """Names in /dev/shm."""


def descendants(pid: int) -> list[int]:
    """Living descendants of a process, those that only wait to be reaped aside."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(stat.parent.name))
    found = parents.get(pid, [])
    for child in found:
        found = found + parents.get(child, []) if child in parents else found
    return found


def descriptors(pid: int) -> int:
    """Open descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208


def memory_kb(pid: int, what: str = "RssAnon") -> int:
    """Memory of a process that is no file's, in kB."""
    found = re.search(rf"^{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found[1]) if found else 0


def held() -> Held:
    """What is held now, garbage aside."""
    gc.collect()
    pid = os.getpid()
    maps = Path(f"/proc/{pid}/maps").read_text().count("memfd:abreast")
    links = [os.path.realpath(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]  # noqa: PTH208
    blocks = maps + sum("memfd:abreast" in link for link in links)
    others = [child for child in descendants(pid) if Path(f"/proc/{child}").exists()]
    return Held(frozenset(others), descriptors(pid), blocks, frozenset(os.listdir("/dev/shm")))  # noqa: PTH208


@contextlib.contextmanager
def nothing_left(wait_s: float = 5.0) -> Iterator[None]:
    """Fail unless all that is held afterwards was held before. (What ends takes a moment: it is given `wait_s`.)"""
    before = held()
    yield
    deadline = time.monotonic() + wait_s
    while not _is_within(after := held(), before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert after.processes <= before.processes, f"processes are left: {after.processes - before.processes}"
    assert after.descriptors <= before.descriptors, f"{after.descriptors} descriptors, {before.descriptors} before"
    assert after.blocks <= before.blocks, f"{after.blocks} blocks of shared memory, {before.blocks} before"
    assert after.shared <= before.shared, f"shared memory is left: {after.shared - before.shared}"


def _is_within(after: Held, before: Held) -> bool:
    return (
        after.processes <= before.processes
        and after.descriptors <= before.descriptors
        and after.blocks <= before.blocks
        and after.shared <= before.shared
    )


def listing(*folders: Path) -> dict[str, tuple[int, int]]:
    """Every file below some folders, with its size and when it was changed."""
    found = {}
    for path in (path for folder in folders for path in folder.rglob("*")):
        with contextlib.suppress(OSError):
            stat = path.lstat()
            found[str(path)] = (stat.st_size, stat.st_mtime_ns)
    return found
