"""Starts processes, and tells how they end. They have nothing of this one but an end of a socket.

program                    fork server                      child
  start ─────────────────▶ import …, import …
  its end of a socket ────────────────▶ (queued)
  go on                               fork ───────────────▶ run_child(its end)
  ◀──────────────── its exit code ─────┘

The fork server imports, once for all its children, what takes seconds, and nothing waits for it. It ends with its program,
which alone has the other end of its socket. `spawn` (a fresh interpreter for each child) and `fork` (of this very process)
are for programs that ask for them.
"""

import atexit
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, NoReturn

from abreast.processes.channel import CLOSE_ON_EXEC
from abreast.processes.life import write_exit_code

StartMethod = Literal["forkserver", "spawn", "fork"]
RunChild = Callable[[int], NoReturn]
OPTIONS = {"dont_write_bytecode": "B", "ignore_environment": "E", "isolated": "I", "no_site": "S", "no_user_site": "s"}
"""Options of the interpreter that processes take over, by their names in `sys.flags`."""


class ForkServer:
    """The fork server of this program."""

    def __init__(self) -> None:
        self.preload: list[str] = []
        """Modules that it imports."""
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """None if it was not started yet."""
        return None if self._process is None else self._process.pid

    def ensure_running(self) -> None:
        """Start it, if it does not run, and do not wait for it. If it was stopped, let it go on."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:  # as it is in a fork of this program
                self._requests, theirs = socket.socketpair()
                with theirs:
                    call = f"fork_server.serve_forks({theirs.fileno()}, {self.preload!r}, process.run_child)"
                    self._process = _start_interpreter(call, theirs)
                for last in (self._requests.close, self._process.wait, self._process.kill):  # in reverse order;
                    atexit.register(last)  # its imports need not outlive a short program
            self._process.send_signal(signal.SIGCONT)

    def fork(self, *descriptors: int) -> None:
        """Ask for a process: its end of its socket, and the file for its exit code."""
        self.ensure_running()
        try:
            socket.send_fds(self._requests, [b"\0"], descriptors)
        except ConnectionError:  # it was killed a moment ago
            assert self._process is not None
            self._process.wait()
            self.fork(*descriptors)


FORK_SERVER = ForkServer()


def start_process(
    method: StartMethod, ours: socket.socket, theirs: socket.socket, life: int, run_child: RunChild
) -> None:
    """Start a process that calls `run_child`, of process.py, with its end of the socket; its exit code goes to `life`."""
    if method == "forkserver":
        FORK_SERVER.fork(theirs.fileno(), life)
        return
    if method == "spawn":
        wait: Callable[[], int] = _start_interpreter(f"process.run_child({theirs.fileno()})", theirs).wait
    elif pid := os.fork():
        wait = partial(_wait_for, pid)
    else:
        ours.close()  # otherwise it would not notice the end of its parent
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        run_child(theirs.detach())
    descriptor = os.dup(life)
    threading.Thread(target=lambda: write_exit_code(descriptor, wait()), daemon=True).start()


def _wait_for(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _start_interpreter(call: str, theirs: socket.socket) -> "subprocess.Popen[bytes]":
    """A fresh interpreter that finds modules where this program does, and makes this call.

    (By itself it would not find what the program has added to `sys.path`, or would find another version of it.)
    """
    path = [each or str(Path.cwd()) for each in sys.path if isinstance(each, str)]
    program = f"import sys; sys.path[:] = {path!r}; from abreast.processes import fork_server, process; {call}"
    options = [f"-{letter}" for name, letter in OPTIONS.items() if getattr(sys.flags, name)]
    options += ["-O"] * sys.flags.optimize + [f"-W{each}" for each in sys.warnoptions]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited, until `ignore_interrupts`
    try:
        return subprocess.Popen(
            [sys.executable, *options, "-c", program], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in the fork server


def ignore_interrupts() -> None:
    """Ctrl-C goes to every process of the terminal; the program decides what becomes of this one. SIGTERM ends it, also if
    the program that it was forked from has a handler for it. SIGUSR1, by which a child is asked for its stacks, may come
    before it can write any.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
    signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler there is no wake-up
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    lives: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests, wakes], [], [])
        if wakes in ready:
            wakes.recv(4096)
            _write_exit_codes(lives)
        if requests not in ready:
            continue
        request, descriptors, *_ = socket.recv_fds(requests, 1, 2, CLOSE_ON_EXEC)
        if not request:
            os._exit(0)  # the program is gone
        try:
            theirs, life = descriptors  # fewer arrive where no more files may be open
            pid = os.fork()
        except (ValueError, OSError):
            _close(*descriptors)  # by which the program knows that there is no process
            continue
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _close(requests.detach(), wakes.detach(), woken.detach(), life, *lives.values())
            run_child(theirs)
        lives[pid] = life
        os.close(theirs)


def _write_exit_codes(lives: dict[int, int]) -> None:
    with suppress(ChildProcessError):  # there are no children
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if (life := lives.pop(ended[0], None)) is not None:  # otherwise an imported module has started it
                write_exit_code(life, os.waitstatus_to_exitcode(ended[1]))


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
