"""Children as processes of this machine, which share memory with their parent.

parent                                                    child
  start ───── a socket, by the fork server ─────────────▶ own the signals, die with the parent
  ─ descriptors of shared memory, then what to make ────▶ serve (child.py)
  ◀─ shared memory: signs of life ────────────────────────

Nothing here waits for the fork server, whose imports take seconds: what a child is sent lies in its socket until then.
"""

import errno
import gc
import io
import logging
import multiprocessing
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
from logging.handlers import QueueHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn, cast

from abreast.errors import WorkerError, log, need_posix
from abreast.processes.backend import ChildSpec, label
from abreast.processes.channel import PipeChannel, frame, receive_descriptors
from abreast.processes.child import NO_ORDER, Replaced, note_parent, parent_pid, serve
from abreast.processes.cores import SPIN_S, spin_wait
from abreast.processes.fork_server import FORK_SERVER, StartMethod, ignore_interrupts, start_process
from abreast.processes.life import MILLI, Life
from abreast.processes.main_module import NAME_IN_CHILDREN, import_main, main_module
from abreast.processes.memory import SharedBlock
from abreast.processes.pickling import Pickler, loads_with

SCRIPT_HINT = (
    '; it imports your script for what is defined there: put all that the script does under `if __name__ == "__main__":`, or'
    " move the definitions to a module"
)
STACK_S, WRITTEN_S = 0.3, 0.05
"""How long a child is waited for that is to write where it is; and how long that takes, once it has begun."""
LATE_S = 0.5
"""How much later than the end of a child its exit code may come."""


class ProcessBackend:
    """Starts processes. `preload` names modules that the process they are forked from imports once for all of them.

    Preloading has to be asked for before the first child of this program starts; later ones import what is missing.
    """

    def __init__(self, start_method: StartMethod = "forkserver", preload: Sequence[str] = ()) -> None:
        self._start_method = start_method
        FORK_SERVER.preload += [name for name in preload if name not in FORK_SERVER.preload]

    def warm_up(self) -> None:
        """Start what children are forked from, and do not wait for it: it imports while this process does something else.

        If that fails, the first child that is started says why.
        """
        if self._start_method == "forkserver" and parent_pid() is None and hasattr(os, "fork"):
            with suppress(OSError):
                FORK_SERVER.ensure_running()

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> "ProcessChild":
        hint = SCRIPT_HINT if spec.needs_main else ""
        if parent_pid() is not None:  # it may be importing a script that starts workers
            raise WorkerError("a worker cannot have workers of its own.")
        need_posix(
            "worker processes need",
            "set multiprocessing.workers=threads (training) or es_manager.use_multiprocessing=threads (rollouts)",
        )
        try:
            return ProcessChild(number, spec.name, pack(spec, self._start_method), self._start_method, hint)
        except Exception as error:  # no memory, no descriptors, a process that may have no children
            why = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(" .")
            if isinstance(error, OSError) and error.errno == errno.EMFILE:
                why += "; raise the limit (ulimit -n)"
            raise WorkerError(f"{spec.name} could not start: {why}{hint}.") from error


class Packed(NamedTuple):
    """What a child is to make, pickled."""

    data: bytes
    """What makes its work, and the arguments, without the shared memory in them."""
    blocks: list[SharedBlock]
    """That memory, which can only be handed over when a process starts."""
    main: str | None
    """The user's main script, if the child has to import it."""
    where: tuple[list[str], list[str], str]
    """Arguments, module path and working directory of the program."""


def pack(spec: ChildSpec, start_method: StartMethod = "spawn") -> Packed:
    """What `spec` says, ready to be sent."""
    packer = _Packer(io.BytesIO())
    packer.dump((spec.make, spec.arguments))
    data = packer.file.getvalue()
    needs_main = start_method != "fork" and (spec.needs_main or b"__main__" in data)
    sys.modules.setdefault(NAME_IN_CHILDREN, sys.modules["__main__"])  # for what it sends of the script's
    where = sys.argv, [each for each in sys.path if isinstance(each, str)], str(Path.cwd())
    return Packed(data, packer.blocks, main_module() if needs_main else None, where)


class ProcessChild:
    """A process. `decode` is given the bytes of each message that it sends."""

    def __init__(
        self,
        number: int,
        name: str,
        packed: Packed,
        start_method: StartMethod,
        hint: str = "",
        decode: Callable[[memoryview], Any] = pickle.loads,
    ) -> None:
        self.name, self.hint = name, hint
        self._life = Life()
        ours, theirs = socket.socketpair()
        self._channel = PipeChannel(ours, decode)
        self.send, self.receive, self.sign_of_life = self._channel.send, self._channel.receive, self._life.read
        self.send_framed = self._channel.send_framed
        try:
            descriptors = [self._life.descriptor, *(block.descriptor for block in packed.blocks)]
            socket.send_fds(ours, [b"\0"], descriptors)
            layouts = [block.layout for block in packed.blocks]
            self.send((number, name, os.getpid(), packed.where, packed.main, layouts, packed.data))
            start_process(start_method, ours, theirs, self._life.descriptor, run_child)
        except BaseException:
            self._channel.close()
            raise
        finally:
            theirs.close()
        self.fds = (self._channel.fileno(),)

    @property
    def pid(self) -> int | None:
        return self._life.pid

    @property
    def is_alive(self) -> bool:
        return self._life.exit_code is None and not _is_hung_up(self._channel)

    @property
    def was_killed(self) -> bool:
        code = self._life.exit_code
        return code is None or code < 0

    def cause_of_death(self) -> str:
        code = self._exit_code()
        if code is None:
            return "it closed its end of the socket, or its fork server has died"
        if code >= 0:
            return f"exit code {code}"
        names = {each.value: each.name for each in signal.Signals}
        name = names.get(-code, f"signal {-code}")  # most real-time signals have no name
        return f"{name}, often out of memory" if name == "SIGKILL" else name

    def _exit_code(self) -> int | None:
        """That of a child that has ended. It comes from the fork server, a moment later; not at all if that has died."""
        _wait_until(lambda: self._life.exit_code is not None, LATE_S)
        return self._life.exit_code

    def stack(self) -> str:
        with suppress(OSError):  # it has ended
            if self.pid is not None:
                before = len(self._life.read_stacks())
                os.kill(self.pid, signal.SIGUSR1)
                _wait_until(lambda: len(self._life.read_stacks()) != before or not self.is_alive, STACK_S)
                _wait_until(lambda: not self.is_alive, WRITTEN_S)
                return self._life.read_stacks()[before:]
        return ""

    def kill(self) -> None:
        if self.pid is not None:
            if self.is_alive:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                # From then on it writes no more to memory that its successor uses.
                _wait_until(lambda: not self.is_alive, 5.0)
            self._exit_code()
        self._channel.close()  # one that is not there yet will find that nobody listens, and end


def _wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so, or for this many seconds."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.001)


def _is_hung_up(end: Any, within_ms: float | None = 0) -> bool:
    """Whether no process has the other end of a socket any more; with None, waits until it is so."""
    poller = select.poll()
    poller.register(end, 0)
    return bool(poller.poll(within_ms))


class ProcessContext:
    """The child's side."""

    def __init__(self, number: int, life: Life, end: socket.socket) -> None:
        self.number, self.beat, self._end = number, life.beat, end
        self._lock = threading.Lock()

    def answer(self, key: Hashable, value: Any, last: bool = True) -> None:
        """Answer an order. What cannot be pickled raises here, before anything is sent."""
        self.send((key, value, last))

    def send(self, message: Any) -> None:
        data = frame(message)
        try:
            with self._lock:  # another thread may log
                self._end.sendall(data)
        except OSError:
            raise Replaced from None


class _Packer(Pickler):
    """Pickles arguments, with the shared memory in them left out: it can only be handed over when a process starts."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.file, self.blocks = file, list[SharedBlock]()

    def persistent_id(self, value: Any) -> int | None:
        if not isinstance(value, SharedBlock):
            return None
        if value not in self.blocks:
            self.blocks.append(value)
        return self.blocks.index(value)


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
        with suppress(Replaced, EOFError):  # the parent is gone
            _serve(socket.socket(fileno=descriptor))
            code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else code
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)  # what is to be done at the end of the process that it was forked from is not to be done here


def _serve(end: socket.socket) -> None:
    its_life, *descriptors = receive_descriptors(end)
    life = Life(its_life)
    life.write_stacks_on(signal.SIGUSR1)
    gc.freeze()  # what was imported is never garbage: not to look at it saves time, and memory that is shared so far
    threading.Thread(target=_die_with_parent, args=(end,), daemon=True).start()
    inbox = _SocketInbox(end)
    number, name, parent, where, main, layouts, packed = inbox(None)
    note_parent(parent)

    def make(context: ProcessContext) -> Any:
        sys.argv, sys.path[:], folder = where
        os.chdir(folder)
        if main is not None:
            import_main(main)
        blocks = [SharedBlock(layout, each) for layout, each in zip(layouts, descriptors, strict=True)]
        work, arguments = loads_with(packed, blocks.__getitem__)
        return work(context, *arguments)

    context = ProcessContext(number, life, end)
    multiprocessing.current_process().name = label(name)
    # What is logged is sent to the parent, and arrives also if this process is killed.
    log.handlers[:] = [QueueHandler(cast(Any, SimpleNamespace(put_nowait=context.send)))]  # a fork has its program's
    log.setLevel(logging.INFO)
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
    _is_hung_up(end, None)
    os._exit(1)
