"""What runs on a node: an actor of Ray's that has a worker process beside it.

It is called by one program, one call after the other. It ends with that program, with `ray.kill`, or with its node; the
worker ends with it.
"""

import os
import platform
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from abreast.processes.backend import SignOfLife
from abreast.processes.channel import framed
from abreast.processes.memory import Layout, SharedBlock
from abreast.processes.process import Packed, ProcessChild
from abreast.processes.shares import Copied, Share

SAME_NEEDED = ("abreast", "python")
"""What has to be the same on all nodes."""
CPU_KINDS = ("avx512f", "avx2", "asimd")
"""Capabilities by which libraries choose their kernels, which decide how results are rounded."""


class Order(NamedTuple):
    """A message for the worker."""

    message: bytes
    changes: Sequence[Any]
    """What was written of each share that the worker reads."""


class Report(NamedTuple):
    """What has happened since the last call."""

    messages: Sequence[bytes]
    changes: Sequence[Any]
    """What the worker has written of each of its shares, before the last of the messages."""
    sign: SignOfLife
    pid: int | None
    ended: str | None
    """Why the worker has ended, if it has."""
    was_killed: bool


class Host:
    """Starts a worker process, and passes on messages and memory."""

    def start(
        self, number: int, name: str, packed: Packed, layouts: Sequence[Layout], reads: Sequence[Share],
        writes: Sequence[Share], first: Sequence[Any],
    ) -> dict[str, str]:  # fmt: skip
        """Start worker `number` with its memory, of which `first` is what has to be there; returns what this node is."""
        blocks = [SharedBlock(layout) for layout in layouts]
        shares = [open_share(share, blocks) for share in (*reads, *writes)]
        for share, content in zip(shares, first, strict=True):
            share.apply(content)
        self._reads, self._writes = shares[: len(reads)], shares[len(reads) :]
        argv, path, folder = packed.where
        own = [each for each in sys.path if each not in path]
        here = argv, [*path, *own], folder if Path(folder).is_dir() else str(Path.cwd())
        packed = packed._replace(blocks=blocks, where=here)
        self._child = ProcessChild(number, name, packed, "spawn", decode=bytes)
        import ray  # which has made this object

        facts = node_facts()
        return {**facts, "node": f"{facts['node']} {ray.get_runtime_context().get_node_id()[:8]}"}

    def exchange(self, orders: Sequence[Order], wait_s: float) -> Report:
        """Give the worker orders, then wait until it says something, or for `wait_s` seconds."""
        for message, changes in orders:
            for share, each in zip(self._reads, changes, strict=True):
                if each is not None:
                    share.apply(each)
            with suppress(OSError):  # it has ended, which is told below
                self._child.send_framed(framed(message))
        messages, ended = list[bytes](), None
        try:
            select.select(self._child.fds, (), (), wait_s)
            messages = self._child.receive()
        except (EOFError, OSError):
            ended = self._child.cause_of_death()
        changes = [share.changes() if messages else None for share in self._writes]
        return Report(messages, changes, self._child.sign_of_life(), self._child.pid, ended, self._child.was_killed)

    def stack(self) -> str:
        """Where the worker is."""
        return self._child.stack()


def open_share(share: Share, blocks: Sequence[SharedBlock]) -> Copied:
    """One side of a share, in the block that has its arrays."""
    has = next(block for block in blocks if any(name.startswith(share.prefix) for name in block.layout))
    return share.open(has)


class Echo:
    """Answers what it is sent, to time that."""

    def echo(self, data: Any) -> Any:
        return data


def node_facts() -> dict[str, str]:
    """What results may depend on, by name."""
    facts = {"node": platform.node(), "python": platform.python_version(), "cpu": _cpu_kind()}
    for name in ("abreast", "torch", "numpy"):
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "none"
    return facts


def _cpu_kind() -> str:
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:  # not there on every platform
        return platform.machine()
    kinds = [kind for kind in CPU_KINDS if kind in flags]
    return " ".join([platform.machine(), *kinds[:1], os.environ.get("ATEN_CPU_CAPABILITY", "")]).strip()
