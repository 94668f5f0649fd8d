"""Child processes: how one is started, what it does before its work, and how it tells what happened.

parent                                      child
  start ───── forkserver, imports done ────▶ own the signals, die with the parent, one compute thread
  ◀──────────────────────────────── Ready ─  set up
  ─ messages ──────────────────────────────▶ work(connection)
  ◀─────────────────────── Failed(traceback) or the end of the connection
"""

import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import connection as connections
from multiprocessing import reduction
from typing import Any, Literal

from abreast.errors import WorkerError
from abreast.processes.line import Line

Connection = connections.Connection
StartMethod = Literal["forkserver", "spawn", "fork"]
Work = Callable[..., None]
"""Called in the child as work(connection, *arguments); sends Ready when it is set up, and returns when told to stop."""


@dataclass(frozen=True)
class Ready:
    """The child is set up and waits for messages."""


@dataclass(frozen=True)
class Failed:
    """The child's work raised; this is its last message."""

    error: str
    traceback: str
    culprit: int | None = None
    """Which part of its work is to blame, if the error says so (attribute `culprit`)."""


@dataclass(frozen=True)
class Stop:
    """The last order a child is given: finish."""


class RemoteTraceback(Exception):
    """The stack of a child, as the cause of the error the parent raises."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


SCRIPT_HINT = (
    '; it imports your script for what is defined there: put all that the script does under `if __name__ == "__main__":`, or'
    " move the definitions to a module"
)


class Child:
    """A worker: a process or, for `threads`, a thread that runs the same work.

    `needs_main` says that an argument is of a class defined in the user's main script, which the child then imports.
    """

    def __init__(
        self,
        name: str,
        work: Work,
        arguments: Sequence[Any],
        *,
        as_thread: bool = False,
        needs_main: bool = False,
        start_method: StartMethod = "forkserver",
    ) -> None:
        self.name, self.as_thread = name, as_thread
        self.hint = SCRIPT_HINT if needs_main else ""
        """What may be the matter if it does not start."""
        try:
            self._start(work, tuple(arguments), needs_main, start_method)
        except Exception as error:  # no memory, no descriptors, a dead fork server, a process that may have no children
            why = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(" .")
            raise WorkerError(f"{name} could not start: {why}{self.hint}.") from error

    def _start(self, work: Work, arguments: tuple[Any, ...], needs_main: bool, start_method: StartMethod) -> None:
        ours, theirs = multiprocessing.Pipe()
        self.line = Line(ours)
        if self.as_thread:
            self._thread = threading.Thread(target=_run, args=(theirs, work, arguments), name=self.name, daemon=True)
            self._thread.start()
            return
        try:
            self._dump = _Dump()
            context: Any = multiprocessing.get_context(start_method)
            self._process = context.Process(
                target=_child_main, args=(theirs, self._dump, work, arguments), name=self.name, daemon=True
            )
            with nullcontext() if needs_main or start_method == "fork" else _main_module_hidden():
                self._process.start()
        except BaseException:
            self.line.close()
            raise
        finally:
            theirs.close()

    @property
    def pid(self) -> int | None:
        return None if self.as_thread else self._process.pid

    @property
    def sentinel(self) -> Any:
        """Something to wait on that is ready when the child is gone; a thread's connection ends with it."""
        return self.line if self.as_thread else self._process.sentinel

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() if self.as_thread else self._process.is_alive()

    def cause_of_death(self) -> str:
        """What ended the child, in words."""
        if self.as_thread:
            return "its thread ended"
        self._process.join(5)
        code = self._process.exitcode
        if code is not None and code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:  # real-time signals have none
                name = f"signal {-code}"
            return f"{name}, often out of memory" if name == "SIGKILL" else name
        return f"exit code {code}"

    def stack(self) -> str:
        """Where the child is now, if it can still say; for one that has stopped answering."""
        if self.as_thread or self.pid is None or not hasattr(signal, "SIGUSR1"):
            return ""
        os.kill(self.pid, signal.SIGUSR1)
        self._process.join(0.3)
        return self._dump.read()

    def end(self, patience: float) -> None:
        """Wait for the child to end by itself, then make it: terminate after `patience` seconds, kill a second later."""
        if self.as_thread:
            self._thread.join(patience)
        else:
            self._process.join(patience)
            if self._process.is_alive():
                self._process.terminate()
                self._process.join(1.0)
        self.kill()

    def kill(self) -> None:
        """End it at once. (A thread cannot be killed: it ends with its connection.)"""
        if not self.as_thread and self._process.is_alive():
            self._process.kill()
            self._process.join(5)
        self.line.close()


_preload: list[str] = []


def start_server(preload: Sequence[str]) -> None:
    """Say what the process that children are forked from imports once for all of them, beside what was said before.

    Once the first child has started it is too late: later ones then import for themselves what is missing.
    """
    _preload.extend(name for name in preload if name not in _preload)
    multiprocessing.get_context("forkserver").set_forkserver_preload(_preload)


class _Dump:
    """An anonymous file into which faulthandler writes a child's stacks."""

    _descriptor = -1

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("abreast-stacks") if hasattr(os, "memfd_create") else os.dup(2)

    def register(self) -> None:
        if hasattr(signal, "SIGUSR1"):
            faulthandler.register(signal.SIGUSR1, file=self._descriptor)

    def read(self) -> str:
        size = os.fstat(self._descriptor).st_size
        return os.pread(self._descriptor, size, 0).decode(errors="replace")

    def __getstate__(self) -> Any:
        return reduction.DupFd(self._descriptor)

    def __setstate__(self, handle: Any) -> None:
        self._descriptor = handle.detach()

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _child_main(connection: Connection, dump: _Dump, work: Work, arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to everybody in the terminal; the parent decides
    dump.register()
    gc.freeze()  # what was imported is never garbage: not to look at it saves time, and memory that is shared so far
    threading.Thread(target=_die_with_parent, daemon=True).start()
    _run(connection, work, arguments)


def _run(connection: Connection, work: Work, arguments: Sequence[Any]) -> None:
    try:
        work(connection, *arguments)
    except (EOFError, ConnectionError):
        pass  # the parent is gone, or has given this child up
    except Exception as error:
        try:
            culprit = getattr(error, "culprit", None)
            connection.send(Failed(f"{type(error).__name__}: {error}", traceback.format_exc(), culprit))
        except OSError:
            sys.stderr.write(traceback.format_exc())
    finally:
        connection.close()


def _die_with_parent() -> None:
    """Look out for the end of the parent, and end then, in the middle of whatever this process is at.

    (The kernel could do it, but tells children of a fork server of *its* end, which waits for theirs, and others of the
    end of the thread that started them.)
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def comes_from_main(*things: Any) -> bool:
    """Whether one of these classes, functions or objects was defined in the user's main script."""
    parts = [part for thing in things for part in (thing, getattr(thing, "func", None), *getattr(thing, "args", ()))]
    return any(getattr(part, "__module__", None) == "__main__" for part in parts)


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Children import the user's main script again unless it is hidden, and a script without a guard would start anew."""
    with _hiding:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


_hiding = threading.Lock()
"""Two threads that hide it at once would bring back each other's stand-in."""
