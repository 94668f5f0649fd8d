"""Children as processes of this machine, which share memory with their parent.

parent                                         child
  start ───── fork server, imports done ──────▶ own the signals, die with the parent
  ─ what to make, as the first message ───────▶ serve (child.py)
  ◀─ shared memory: signs of life ─────────────

Nothing here waits for the fork server, whose imports take seconds: it is asked for a process, and makes it when it can.
"""

import faulthandler
import gc
import io
import multiprocessing
import os
import pickle
import select
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from multiprocessing import connection as connections
from multiprocessing import reduction
from typing import Any, Literal

import numpy as np

from abreast.errors import WorkerError
from abreast.processes.backend import NOWHERE, ChildSpec, SignOfLife
from abreast.processes.channel import PipeChannel
from abreast.processes.child import NO_ORDER, Replaced, serve
from abreast.processes.cores import LOOK_OUT_S, look_out
from abreast.processes.fork_server import UNKNOWN_CODE, ForkServerProcess, ensure_fork_server, preload_modules
from abreast.processes.memory import SharedBlock
from abreast.processes.pickling import Pickler, loads_with, main_can_be_imported

Connection = connections.Connection
StartMethod = Literal["forkserver", "spawn", "fork"]

SCRIPT_HINT = (
    '; it imports your script for what is defined there: put all that the script does under `if __name__ == "__main__":`, or'
    " move the definitions to a module"
)
DESCRIPTORS = 16
"""What is opened to start a process, most of it only until it has started; more the first time, for the fork server."""
MILLI = 1000
"""Seconds are shared as whole milliseconds."""


class ProcessBackend:
    """Starts processes. `preload` names modules that the process they are forked from imports once for all of them.

    Preloading has to be asked for before the first child of this program starts; later ones import what is missing.
    """

    def __init__(self, start_method: StartMethod = "forkserver", preload: Sequence[str] = ()) -> None:
        self._start_method = start_method
        preload_modules(preload)

    def warm_up(self) -> None:
        """Start what children are forked from, and do not wait for it: it imports while this process does something else.

        If that fails, the first child that is started says why.
        """
        if self._start_method == "forkserver":
            with suppress(OSError):
                ensure_fork_server()

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> "ProcessChild":
        hint = SCRIPT_HINT if spec.needs_main else ""
        try:
            return ProcessChild(number, spec, self._start_method, hint)
        except Exception as error:  # no memory, no descriptors, a dead fork server, a process that may have no children
            why = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(" .")
            raise WorkerError(f"{spec.name} could not start: {why}{hint}.") from error


class ProcessChild:
    """A process."""

    def __init__(self, number: int, spec: ChildSpec, start_method: StartMethod, hint: str) -> None:
        self.name, self.hint = spec.name, hint
        _check_descriptors()
        packed, blocks = _pack((spec.make, spec.arguments))
        needs_main = spec.needs_main or (main_can_be_imported() and b"__main__" in packed)
        self._life, self._dump = _Life(), _StackDump()
        ours, theirs = multiprocessing.Pipe()
        self._channel = PipeChannel(ours)
        try:
            is_forked = start_method == "forkserver"
            kind: Any = ForkServerProcess if is_forked else multiprocessing.get_context(start_method).Process  # type: ignore[attr-defined]
            self._process = kind(
                target=_child_main, args=(theirs, self._life, self._dump, number, blocks), name=self.name, daemon=True
            )
            if is_forked:
                ensure_fork_server()
            with nullcontext() if needs_main or start_method == "fork" else _main_module_hidden():
                self._process.start()
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        # Not an argument of the process: to write more than a pipe holds, `start` would wait for the child's imports.
        with suppress(OSError):  # it is gone already, which `receive` reports
            self._channel.send_bytes(packed)
        self.fds = (self._channel.fileno(), self._process.sentinel)
        self.send, self.receive = self._channel.send, self._channel.receive

    @property
    def pid(self) -> int | None:
        return self._process.pid  # type: ignore[no-any-return]

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()  # type: ignore[no-any-return]

    def sign_of_life(self) -> SignOfLife:
        return self._life.read()

    @property
    def was_killed(self) -> bool:
        code = self._process.exitcode
        return code is not None and (code < 0 or code == UNKNOWN_CODE)

    def cause_of_death(self) -> str:
        self._process.join(0.5)
        code = self._process.exitcode
        if code is None:
            return "it closed its end of the pipe"
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:  # real-time signals have none
                name = f"signal {-code}"
            return f"{name}, often out of memory" if name == "SIGKILL" else name
        return f"exit code {code}"

    def stack(self) -> str:
        if self.pid is None or not hasattr(signal, "SIGUSR1"):
            return ""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        self._process.join(0.3)
        return self._dump.read()

    def kill(self) -> None:
        if self.pid is None:
            pass  # it is not there yet: when it is, it finds that nobody listens, and ends
        elif self._process.is_alive():
            self._process.kill()
            self._process.join(5)
        elif self._process.exitcode == UNKNOWN_CODE:
            self._kill_orphan()
        self._channel.close()

    def _kill_orphan(self) -> None:
        """End a process whose fork server has died, and with it what is known of its children: it may still run, and write
        to memory that its successor uses.
        """
        assert self.pid is not None
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(self.pid) == os.getpgid(0):  # otherwise it has ended, and its number is another's by now
                os.kill(self.pid, signal.SIGKILL)
        pipe = select.poll()
        pipe.register(self._channel.fileno(), 0)  # hung up as soon as no process has the other end
        pipe.poll(5 * MILLI)


def _check_descriptors() -> None:
    """Refuse to start where there is no room: the fork server prints a stack of its own if it is left in the middle."""
    taken: list[int] = []
    try:
        for _ in range(DESCRIPTORS):
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; raise the limit (ulimit -n)") from None
    finally:
        for descriptor in taken:
            os.close(descriptor)


class ProcessContext:
    """The child's side."""

    def __init__(self, number: int, life: "_Life", connection: Connection) -> None:
        self.number, self.beat, self._connection = number, life.beat, connection

    def answer(self, key: Hashable, value: Any, last: bool = True) -> None:
        """Answer an order. What cannot be pickled raises here, before anything is sent."""
        self.send((key, value, last))

    def send(self, message: Any) -> None:
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        try:
            self._connection.send_bytes(data)
        except OSError:
            raise Replaced from None


class _Life:
    """Signs of life in shared memory: beats so far, the item being worked on, milliseconds allowed."""

    def __init__(self) -> None:
        self._attach(SharedBlock({"life": ((3,), np.int64)}))
        self._shared[:] = 0, NOWHERE, 0

    def _attach(self, block: SharedBlock) -> None:
        self._block, self._shared, self._beats = block, block["life"], 0
        self._cells = self._shared.data  # a memoryview: half the time of an array

    def beat(self, at: int = NOWHERE, allow_s: float = 0.0) -> None:
        cells = self._cells
        self._beats += 1
        cells[1] = at
        cells[2] = int(allow_s * MILLI)
        cells[0] = self._beats

    def read(self) -> SignOfLife:
        beats, at, allowed = self._shared.tolist()
        return SignOfLife(beats, at, allowed / MILLI)

    def __getstate__(self) -> SharedBlock:
        return self._block

    def __setstate__(self, block: SharedBlock) -> None:
        self._attach(block)


class _StackDump:
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


class _Packer(Pickler):
    """Pickles arguments, with the shared memory in them left out: it can only be handed over when a process starts."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.blocks: list[SharedBlock] = []

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, SharedBlock):
            return None
        if value not in self.blocks:
            self.blocks.append(value)
        return self.blocks.index(value)


def _pack(value: Any) -> tuple[bytes, list[SharedBlock]]:
    data = io.BytesIO()
    packer = _Packer(data)
    packer.dump(value)
    return data.getvalue(), packer.blocks


def _unpack(data: bytes, blocks: Sequence[SharedBlock]) -> Any:
    return loads_with(data, blocks.__getitem__)


# ---- in the child


def _child_main(connection: Connection, life: _Life, dump: _StackDump, number: int, blocks: list[SharedBlock]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process of the terminal; the parent decides
    dump.register()
    gc.freeze()  # what was imported is never garbage: not to look at it saves time, and memory that is shared so far
    threading.Thread(target=_die_with_parent, daemon=True).start()

    def make(context: ProcessContext) -> Any:
        work, arguments = _unpack(connection.recv_bytes(), blocks)
        return work(context, *arguments)

    context = ProcessContext(number, life, connection)
    try:
        serve(context, _PipeInbox(connection), context.send, make, ())
    finally:
        connection.close()


class _PipeInbox:
    """Receives orders. After an order that took little time the next is expected soon: it first waits without sleeping."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        self._has_message = partial(poller.poll, 0)
        self._received = 0.0

    def __call__(self, wait_s: float | None) -> Any:
        try:
            if wait_s is not None and not self._connection.poll(wait_s):
                return NO_ORDER
            if time.perf_counter() - self._received < LOOK_OUT_S:
                look_out(self._has_message)
            message = self._connection.recv()
        except (EOFError, OSError):
            raise Replaced from None
        self._received = time.perf_counter()
        return message


def _die_with_parent() -> None:
    """End with the parent, in the middle of whatever this process is doing.

    (The kernel could do it, but it tells children of a fork server of the end of that server, which waits for theirs, and
    others of the end of the thread that started them.)
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def comes_from_main(*things: Any) -> bool:
    """Whether one of these classes, functions or objects was defined in the user's main script."""
    parts = [part for thing in things for part in (thing, getattr(thing, "func", None), *getattr(thing, "args", ()))]
    return main_can_be_imported() and any(getattr(part, "__module__", None) == "__main__" for part in parts)


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
"""Two threads that hide it at once would restore each other's stand-in."""
