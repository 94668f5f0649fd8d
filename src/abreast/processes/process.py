"""Children as processes of this machine, which share memory with their parent.

parent                                                    child
  start ───── a socket, by the fork server ─────────────▶ own the signals, die with the parent
  ─ descriptors of shared memory, then what to make ────▶ serve (child.py)
  ◀─ shared memory: signs of life ────────────────────────

Nothing here waits for the fork server, whose imports take seconds: what a child is sent lies in its socket until then.
"""

import errno
import faulthandler
import gc
import io
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from abreast.errors import WorkerError
from abreast.processes.backend import NOWHERE, ChildSpec, SignOfLife
from abreast.processes.channel import PipeChannel, frame, receive_descriptors, send_descriptors
from abreast.processes.child import NO_ORDER, Replaced, note_parent, parent_pid, serve
from abreast.processes.cores import SPIN_S, spin_wait
from abreast.processes.fork_server import (
    UNKNOWN_CODE,
    StartMethod,
    ensure_fork_server,
    ignore_interrupts,
    preload_modules,
    start_process,
)
from abreast.processes.main_module import MainModule, import_main, main_module
from abreast.processes.memory import Layout, SharedBlock, padded
from abreast.processes.pickling import Pickler, loads_with

SCRIPT_HINT = (
    '; it imports your script for what is defined there: put all that the script does under `if __name__ == "__main__":`, or'
    " move the definitions to a module"
)
MILLI = 1000
"""Seconds are shared as whole milliseconds."""
STACKS_AT = padded(24)
"""Where stacks begin, behind three integers: beats so far, the item being worked on, milliseconds allowed."""


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
        if self._start_method == "forkserver" and parent_pid() is None:
            with suppress(OSError):
                ensure_fork_server()

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> "ProcessChild":
        hint = SCRIPT_HINT if spec.needs_main else ""
        try:
            return ProcessChild(number, spec, self._start_method, hint)
        except Exception as error:  # no memory, no descriptors, a process that may have no children
            why = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(" .")
            if isinstance(error, OSError) and error.errno == errno.EMFILE:
                why += "; raise the limit (ulimit -n)"
            raise WorkerError(f"{spec.name} could not start: {why}{hint}.") from error


class _Beginning(NamedTuple):
    """The first message to a child."""

    number: int
    parent: int
    argv: list[str]
    path: list[str]
    folder: str
    main: MainModule | None
    """The user's main script, if it is to be imported."""
    layouts: Sequence[Layout]
    """Of the blocks of shared memory in the arguments, whose descriptors came before."""
    packed: bytes
    """What to make, pickled."""


class ProcessChild:
    """A process."""

    def __init__(self, number: int, spec: ChildSpec, start_method: StartMethod, hint: str) -> None:
        if parent_pid() is not None:  # it may be importing a script that starts workers
            raise RuntimeError("a worker cannot have workers of its own")
        self.name, self.hint = spec.name, hint
        packed, blocks = _pack((spec.make, spec.arguments))
        needs_main = start_method != "fork" and (spec.needs_main or b"__main__" in packed)
        self._life = _Life()
        ours, theirs = socket.socketpair()
        self._channel = PipeChannel(ours)
        self.send, self.receive = self._channel.send, self._channel.receive
        try:
            send_descriptors(ours, [self._life.descriptor, *(each.descriptor for each in blocks)])
            layouts = [block.layout for block in blocks]
            path = [each for each in sys.path if isinstance(each, str)]
            main, folder = main_module() if needs_main else None, str(Path.cwd())
            self.send(_Beginning(number, os.getpid(), sys.argv, path, folder, main, layouts, packed))
            self._process = start_process(start_method, ours, theirs, run_child)
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self.fds = (self._channel.fileno(), self._process.fileno())

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.wait(0.0) is None

    def sign_of_life(self) -> SignOfLife:
        return self._life.read()

    @property
    def was_killed(self) -> bool:
        code = self._process.wait(0.0)
        return code is not None and (code < 0 or code == UNKNOWN_CODE)

    def cause_of_death(self) -> str:
        code = self._process.wait(0.5)
        if code is None:
            return "it closed its end of the pipe"
        if code == UNKNOWN_CODE:
            return "its fork server ended, or could not fork"
        if code >= 0:
            return f"exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:  # real-time signals have none
            name = f"signal {-code}"
        return f"{name}, often out of memory" if name == "SIGKILL" else name

    def stack(self) -> str:
        with suppress(OSError):  # it has ended, or is not there yet
            if self.pid is not None:
                os.kill(self.pid, signal.SIGUSR1)
                self._process.wait(0.3)
                return self._life.read_stacks()
        return ""

    def kill(self) -> None:
        if self.pid is None:
            pass  # it is not there yet: when it is, it finds that nobody listens, and ends
        elif self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._process.wait(5)
        elif self._process.wait(0.0) == UNKNOWN_CODE:
            self._kill_orphan(self.pid)
        self._channel.close()

    def _kill_orphan(self, pid: int) -> None:
        """End a process whose fork server has died, and with it what is known of its children: it may still run, and write
        to memory that its successor uses.
        """
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) == os.getpgid(0):  # otherwise it has ended, and its number is another's by now
                os.kill(pid, signal.SIGKILL)
        _wait_hung_up(self._channel, 5.0)


def _wait_hung_up(end: Any, seconds: float | None = None) -> None:
    """Wait until no process has the other end of a socket."""
    poller = select.poll()
    poller.register(end, 0)
    poller.poll(None if seconds is None else MILLI * seconds)


class ProcessContext:
    """The child's side."""

    def __init__(self, number: int, life: "_Life", end: socket.socket) -> None:
        self.number, self.beat, self._end = number, life.beat, end

    def answer(self, key: Hashable, value: Any, last: bool = True) -> None:
        """Answer an order. What cannot be pickled raises here, before anything is sent."""
        self.send((key, value, last))

    def send(self, message: Any) -> None:
        data = frame(message)
        try:
            self._end.sendall(data)
        except OSError:
            raise Replaced from None


class _Life:
    """Signs of life in shared memory; in the same file, behind it, the stacks that a child writes when it is asked to."""

    def __init__(self, descriptor: int | None = None) -> None:
        self._block = SharedBlock({"life": ((3,), np.int64)}, descriptor)
        self.descriptor = self._block.descriptor
        self._shared, self._beats = self._block["life"], 0
        self._cells = self._shared.data  # a memoryview: half the time of an array
        if descriptor is None:
            self._shared[:] = 0, NOWHERE, 0

    def beat(self, at: int = NOWHERE, allow_s: float = 0.0) -> None:
        cells = self._cells
        self._beats += 1
        cells[1] = at
        cells[2] = int(allow_s * MILLI)
        cells[0] = self._beats

    def read(self) -> SignOfLife:
        beats, at, allowed = self._shared.tolist()
        return SignOfLife(beats, at, allowed / MILLI)

    def write_stacks_on(self, number: int) -> None:
        """Have this signal write the stacks of this process."""
        os.lseek(self.descriptor, STACKS_AT, os.SEEK_SET)
        faulthandler.register(number, file=self.descriptor)

    def read_stacks(self) -> str:
        size = os.fstat(self.descriptor).st_size
        return os.pread(self.descriptor, size, STACKS_AT).decode(errors="replace")


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


def comes_from_main(*things: Any) -> bool:
    """Whether one of these classes, functions or objects was defined in the user's main script."""
    parts = [part for thing in things for part in (thing, getattr(thing, "func", None), *getattr(thing, "args", ()))]
    return main_module() is not None and any(getattr(part, "__module__", None) == "__main__" for part in parts)


# ---- in the child


def run_child(descriptor: int) -> NoReturn:
    """The whole life of a child, however it was started; `descriptor` is its end of the socket."""
    code = 1
    try:
        ignore_interrupts()
        _serve(socket.socket(fileno=descriptor))
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except (Replaced, EOFError):
        pass  # the parent is gone
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)  # what is to be done at the exit of the process it was forked from is not to be done here


def _serve(end: socket.socket) -> None:
    life_descriptor, *descriptors = receive_descriptors(end)
    life = _Life(life_descriptor)
    life.write_stacks_on(signal.SIGUSR1)
    gc.freeze()  # what was imported is never garbage: not to look at it saves time, and memory that is shared so far
    threading.Thread(target=_die_with_parent, args=(end,), daemon=True).start()
    inbox = _SocketInbox(end)
    beginning = _Beginning(*inbox(None))
    note_parent(beginning.parent)

    def make(context: ProcessContext) -> Any:
        sys.argv, sys.path[:] = beginning.argv, beginning.path
        os.chdir(beginning.folder)
        if beginning.main is not None:
            import_main(beginning.main)
        blocks = [SharedBlock(*each) for each in zip(beginning.layouts, descriptors, strict=True)]
        work, arguments = loads_with(beginning.packed, blocks.__getitem__)
        return work(context, *arguments)

    context = ProcessContext(beginning.number, life, end)
    serve(context, inbox, context.send, make, ())


class _SocketInbox:
    """Receives orders. After an order that took little time the next is expected soon: it first waits without sleeping."""

    def __init__(self, end: socket.socket) -> None:
        self._receive = PipeChannel(end, bytes).receive
        self._arrived: deque[bytes] = deque()
        """Unpickled when its turn comes: an order may need what the work has imported."""
        poller = select.poll()
        poller.register(end, select.POLLIN)
        self._poll, self._has_message = poller.poll, partial(poller.poll, 0)
        self._received = 0.0

    def __call__(self, wait_s: float | None) -> Any:
        try:
            if wait_s is not None and not self._arrived and not self._poll(MILLI * wait_s):
                return NO_ORDER
            if not self._arrived and time.perf_counter() - self._received < SPIN_S:
                spin_wait(self._has_message)
            while not self._arrived:
                self._poll()
                self._arrived += self._receive()
        except (EOFError, OSError):
            raise Replaced from None
        self._received = time.perf_counter()
        return pickle.loads(self._arrived.popleft())


def _die_with_parent(end: socket.socket) -> None:
    """End with the parent, in the middle of whatever this process is doing.

    (The kernel could do it, but it tells children of a fork server of the end of that server, which waits for theirs, and
    others of the end of the thread that started them.)
    """
    _wait_hung_up(end)
    os._exit(1)
