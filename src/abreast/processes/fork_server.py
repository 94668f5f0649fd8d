"""Starts processes that share nothing with this one but a socket, however they are started.

program                    fork server                      child
  start ─────────────────▶ import …, import …
  a socket and a pipe ────────────────▶ (queued)
  go on                               fork ───────────────▶ run_child(its end of the socket)
  ◀─ pipe: its number, later its exit code ──┘

The fork server imports, once for all its children, what takes seconds, and nothing waits for it. It ends when its program
does: nothing else has the other end of its socket. `spawn` (a fresh interpreter for each child) and `fork` (of this very
process) are there for those who ask for them.
"""

import atexit
import importlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Literal, NoReturn

from abreast.processes.channel import CLOSE_ON_EXEC

RunChild = Callable[[int], NoReturn]
StartMethod = Literal["forkserver", "spawn", "fork"]

UNKNOWN_CODE = 256
"""Stands for the exit code of a process whose fork server died, or could not make it. No process ends with it."""
OPTIONS = {"dont_write_bytecode": "B", "ignore_environment": "E", "isolated": "I", "no_site": "S", "no_user_site": "s",
           "optimize": "O"}  # fmt: skip
"""Options of the interpreter that processes take over, as `sys.flags` and the command line name them."""
_STATUS = struct.Struct("!?q")
"""Whether the process has ended, and its exit code or its number."""


class StartedProcess:
    """A process that was asked for. Its number and, later, its exit code come through a pipe."""

    def __init__(self, status: int) -> None:
        self._status = status
        os.set_blocking(status, False)  # two threads may look at once
        self._poller = select.poll()
        self._poller.register(status, select.POLLIN)
        self._pid: int | None = None
        self._exit_code: int | None = None

    def fileno(self) -> int:
        """Readable when there is news: its number, or its end."""
        return self._status

    @property
    def pid(self) -> int | None:
        """None until it is there."""
        self.wait(0.0)
        return self._pid

    def wait(self, seconds: float) -> int | None:
        """Its exit code, minus the signal that ended it, or UNKNOWN_CODE; None if it has not ended within these seconds."""
        with suppress(BlockingIOError):
            while self._exit_code is None and self._poller.poll(1000 * seconds):
                news = os.read(self._status, _STATUS.size)
                has_ended, value = _STATUS.unpack(news) if news else (True, UNKNOWN_CODE)
                if has_ended:
                    self._exit_code = value
                else:
                    self._pid = value
        return self._exit_code

    def __del__(self) -> None:
        os.close(self._status)


def _report(status: int, has_ended: bool, value: int) -> None:
    with suppress(BrokenPipeError):  # the program does not want to know any more
        os.write(status, _STATUS.pack(has_ended, value))


class _ForkServer:
    """This program's fork server, if it has one."""

    def __init__(self) -> None:
        self.preload: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        atexit.register(self._kill)

    def ensure(self) -> socket.socket:
        """Start it if it does not run; returns the socket for requests. If it was stopped, it goes on."""
        with self._lock:
            if self.process is None or self.process.poll() is not None:  # in a fork of its program, it counts as ended
                self._requests, theirs = socket.socketpair()
                with theirs:
                    call = f"fork_server.serve_forks({theirs.fileno()}, {self.preload!r}, process.run_child)"
                    self.process = _start_interpreter(call, theirs)
            self.process.send_signal(signal.SIGCONT)
            return self._requests

    def fork(self, theirs: socket.socket) -> StartedProcess:
        """Ask for a process. Not waited for."""
        ours, status = os.pipe()
        process = StartedProcess(ours)
        try:
            self._ask(theirs.fileno(), status)
        finally:
            os.close(status)
        return process

    def _ask(self, *descriptors: int) -> None:
        try:
            socket.send_fds(self.ensure(), [b"\0"], descriptors)
        except ConnectionError:  # it was killed a moment ago
            assert self.process is not None
            self.process.wait()
            socket.send_fds(self.ensure(), [b"\0"], descriptors)

    def _kill(self) -> None:
        """Do not let the imports of a server outlive a short program."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


_server = _ForkServer()


def preload_modules(names: Iterable[str]) -> None:
    """Have the fork server import these modules, beside those named before; of no effect once it runs."""
    _server.preload += [name for name in names if name not in _server.preload]


def ensure_fork_server() -> None:
    """Start the fork server, if it does not run, and do not wait for it."""
    _server.ensure()


def fork_server_pid() -> int | None:
    """The number of this program's fork server, if it has started one."""
    return None if _server.process is None else _server.process.pid


def has_fork_server() -> bool:
    """Whether this program has one already."""
    return _server.process is not None


def start_process(
    method: StartMethod, ours: socket.socket, theirs: socket.socket, run_child: RunChild
) -> StartedProcess:
    """A process that calls `run_child`, of process.py, with the descriptor of `theirs`."""
    if method == "forkserver":
        return _server.fork(theirs)
    if method == "spawn":
        fresh = _start_interpreter(f"process.run_child({theirs.fileno()})", theirs)
        return _watched(fresh.pid, fresh.wait)
    pid = os.fork()
    if pid == 0:
        ours.close()  # otherwise it would not notice the end of its parent
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        run_child(theirs.detach())
    return _watched(pid, lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _watched(pid: int, wait: Callable[[], int]) -> StartedProcess:
    """A child of this process itself; a thread waits for its end."""
    ours, status = os.pipe()

    def report_end() -> None:
        _report(status, True, wait())
        os.close(status)

    _report(status, False, pid)
    threading.Thread(target=report_end, daemon=True).start()
    return StartedProcess(ours)


def _start_interpreter(call: str, theirs: socket.socket) -> "subprocess.Popen[bytes]":
    """A fresh interpreter that finds modules where this program does, and makes this call.

    (By itself it would not find what the program has added to `sys.path`, or find another version of it.)
    """
    path = [each or str(Path.cwd()) for each in sys.path if isinstance(each, str)]
    program = f"import sys; sys.path[:] = {path!r}; from abreast.processes import fork_server, process; {call}"
    options = [f"-{letter * getattr(sys.flags, name)}" for name, letter in OPTIONS.items() if getattr(sys.flags, name)]
    options += [f"-W{each}" for each in sys.warnoptions]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited, until `ignore_interrupts`
    try:
        return subprocess.Popen(
            [sys.executable, *options, "-c", program], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in the fork server


def ignore_interrupts() -> None:
    """Ctrl-C goes to every process of the terminal; the program decides what becomes of this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def serve_forks(descriptor: int, preload: list[str], run_child: RunChild) -> NoReturn:
    """The whole life of the fork server; `descriptor` is its end of the socket for requests."""
    ignore_interrupts()
    for name in preload:
        with suppress(Exception):  # the child that needs it says what is wrong
            importlib.import_module(name)
    requests = socket.socket(fileno=descriptor)
    wakes, woken = socket.socketpair()
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing is written to the descriptor
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    children: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests, wakes], [], [])
        if wakes in ready:
            wakes.recv(4096)
            _report_ended(children)
        if requests in ready:
            request, descriptors, *_ = socket.recv_fds(requests, 1, 2, CLOSE_ON_EXEC)
            if not request:
                os._exit(0)  # the program is gone
            pid = _fork() if len(descriptors) == 2 else None  # fewer arrive where no more files may be open
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _close(requests.detach(), wakes.detach(), woken.detach(), descriptors[1], *children.values())
                run_child(descriptors[0])
            if pid is None:
                _close(*descriptors)  # by which the program knows that there is no process
            else:
                theirs, children[pid] = descriptors
                _report(children[pid], False, pid)
                os.close(theirs)


def _fork() -> int | None:
    with suppress(OSError):  # no memory, or too many processes
        return os.fork()
    return None


def _report_ended(children: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, code = ended
            if pid in children:  # or an imported module has started it
                status = children.pop(pid)
                _report(status, True, os.waitstatus_to_exitcode(code))
                os.close(status)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
