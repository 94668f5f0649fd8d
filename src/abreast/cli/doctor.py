"""`abreast doctor`: what this machine offers, and what would go wrong on it, each with what to do.

A look is a function that returns facts by name; `LEAST` says how much of a fact is too little. A look that raises is a
problem.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.table import Column, Table

from abreast.cli.app import BOTH, app, out, show, waiting
from abreast.errors import need_posix, sentence
from abreast.processes.cores import CGROUP_ROOT
from abreast.processes.memory import SharedBlock

GB, BLOCK = 1e9, 64 << 20
"""Bytes of shared memory that are tried."""
UNLIMITED = -1
"""A limit that is none, as the system says it."""
FEW_PROCESSES = 256, "a parallel run may not start: raise it (ulimit -u, pids.max)."
LEAST = {
    "GB free": (1.0, "a worker takes about 0.2: free some."),
    "GB of the group": (1.0, "a worker takes about 0.2: give the container more."),
    "GB free here": (1.0, "runs are kept in runs/ here: free some, or give --output DIR."),
    "open files": (400, "256 requests in flight and 8 workers need about 400: raise the limit (ulimit -n 4096)."),
    "processes": FEW_PROCESSES,
    "processes of the group": FEW_PROCESSES,
    "seen by torch": (1, "install torch's CUDA build, or agents learn on the CPU."),
}
"""Facts that are a problem if they are below this, and what to do then."""


@app.command(rich_help_panel=BOTH)
def doctor() -> None:
    """Say what this machine offers, and what would go wrong on it. Exit code 1: something would."""
    problems = list[str]()
    table = Table(Column(no_wrap=True), Column(overflow="fold"), box=None, show_header=False)
    for name, look in LOOKS.items():
        try:
            with waiting(f"Looking at {name}"):  # a driver that hangs is named
                facts = look()
        except Exception as error:
            problems.append(sentence(f"{name} cannot be used: {type(error).__name__}: {error}"))
            continue
        few = [fact for fact, (least, _) in LEAST.items() if UNLIMITED < facts.get(fact, UNLIMITED) < least]
        problems += [f"{name}: {fact} {facts[fact]}: {LEAST[fact][1]}" for fact in few]
        table.add_row(name, ", ".join(f"{fact} {value}" for fact, value in facts.items() if value not in (None, -1)))
    show(table)
    out.print("\n".join(problems) or "Nothing would go wrong.")
    raise typer.Exit(1 if problems else 0)


# ---- looks


def _machine() -> dict[str, Any]:
    from abreast.bench.machine import machine_facts  # imports torch

    return {**machine_facts(), "ffmpeg": shutil.which("ffmpeg") or "not installed"}


def _gpus() -> dict[str, Any]:
    import torch

    devices = len(list(Path("/dev").glob("nvidia[0-9]*")))
    names = {str(number): torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())}
    return {"devices": devices, "seen by torch": len(names) if devices else UNLIMITED, **names}


def _memory() -> dict[str, Any]:
    sizes = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total, free = (round(int(sizes[key].split()[0]) * 1024 / GB, 1) for key in ("MemTotal", "MemAvailable"))
    group = _group_limit("memory.max")
    return {"GB in all": total, "GB free": free, "GB of the group": group if group == UNLIMITED else group / GB}


def _shared_memory() -> dict[str, Any]:
    SharedBlock({"tried": ((BLOCK,), np.uint8)})["tried"][:] = 1
    shm = Path("/dev/shm")
    return {"GB of /dev/shm": round(shutil.disk_usage(shm).total / GB, 1) if shm.is_dir() else None}


def _limits() -> dict[str, Any]:
    need_posix("worker processes need", "train without --parallel")
    import resource

    files, processes = (resource.getrlimit(each)[0] for each in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
    return {"open files": files, "processes": processes, "processes of the group": _group_limit("pids.max")}


def _disk() -> dict[str, Any]:
    tempfile.TemporaryFile(dir=".").close()
    return {"GB free here": round(shutil.disk_usage(".").free / GB, 1)}


LOOKS = {
    "machine": _machine,
    "GPUs": _gpus,
    "memory": _memory,
    "shared memory": _shared_memory,
    "limits": _limits,
    "disk": _disk,
}


def _group_limit(file: str) -> int:
    """That of the control group that a container sees as the outermost one."""
    with suppress(OSError, ValueError):
        return int((CGROUP_ROOT / file).read_text())
    return UNLIMITED
