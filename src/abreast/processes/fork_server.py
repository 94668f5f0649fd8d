"""The process that others are forked from: it imports, once for all of them, what takes seconds, and nobody waits for it.

program            fork server                  child
  ensure ────────▶ import … import …
  ask for one ─────────────────▶ (queued)
  go on                          fork ────────▶ serve
  ◀── its number ────────────────┘
"""

import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, context, forkserver, popen_forkserver, reduction, spawn, util
from pathlib import Path
from typing import Any

UNKNOWN_CODE = 255
"""The exit code that `multiprocessing` makes up for a child whose fork server has died."""
PRELOADING = Path(__file__).parent / "preloading"
"""A folder with the module that the fork server imports first, and nothing else."""

_preload: list[str] = []
_starting = threading.Lock()


def preload_modules(names: Sequence[str]) -> None:
    """Have the fork server import these modules, beside those named before."""
    _preload.extend(name for name in names if name not in _preload)
    forkserver.set_forkserver_preload(["abreast_preloading", *_preload])


def ensure_fork_server() -> None:
    """Start it if it does not run, and tell it where this program finds its modules.

    (It would look only where a fresh interpreter does: what the program has added to `sys.path` it would not find, so that
    each child would import everything by itself, or it would find another version.)
    """
    before = os.environ.get("PYTHONPATH")
    path = [each or str(Path.cwd()) for each in sys.path if isinstance(each, str)]
    told = {"PYTHONPATH": before, "modules": _preload, "path": path}
    found = os.pathsep.join([str(PRELOADING), *([before] if before else [])])
    with _starting, _environment(PYTHONPATH=found, ABREAST_PRELOADING=json.dumps(told)):
        forkserver.ensure_running()
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
    if pid is not None:  # if it was stopped, let it go on: children would wait for it, for any time
        with suppress(ProcessLookupError):  # it is our own child: until it is waited for, its number is no other's
            os.kill(pid, signal.SIGCONT)


def has_fork_server() -> bool:
    """Whether this program has one already."""
    return getattr(forkserver._forkserver, "_forkserver_pid", None) is not None


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_Popen: Any = popen_forkserver.Popen


class _Asked(_Popen):  # type: ignore[misc]
    """A process that the fork server was asked for. Its number comes when there is one, through the same pipe as its exit
    code later: the class above waits for it, and so for all that the server imports.
    """

    _pid: int | None = None
    returncode: int | None

    def _launch(self, process: Any) -> None:
        data = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            for part in (spawn.get_preparation_data(process.name), process):
                reduction.dump(part, data)
        finally:
            context.set_spawning_popen(None)
        self.sentinel, writer = forkserver.connect_to_new_process(self._fds)
        ends_with_us = os.dup(writer)  # by which the child knows that its parent is there
        self.finalizer = util.Finalize(self, _close, (ends_with_us, self.sentinel))
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(data.getbuffer())

    @property
    def pid(self) -> int | None:
        self._hear(0.0)
        return self._pid

    def _hear(self, wait_s: float | None) -> bool:
        """Whether its number is known, or that there will be none."""
        if self._pid is None and self.returncode is None and connection.wait([self.sentinel], wait_s):
            try:
                self._pid = forkserver.read_signed(self.sentinel)
            except (OSError, EOFError):
                self.returncode = UNKNOWN_CODE
        return self._pid is not None or self.returncode is not None

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        return super().poll(flag) if self._hear(0.0 if flag == os.WNOHANG else None) else None

    def wait(self, timeout: float | None = None) -> int | None:
        return super().wait(timeout) if self._hear(timeout) else None

    def _send_signal(self, sig: int) -> None:
        self._hear(None)
        super()._send_signal(sig)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class ForkServerProcess(context.ForkServerProcess):
    """A process whose `start` does not wait; its `pid` is None until the fork server has made it."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        return _Asked(process_obj)
