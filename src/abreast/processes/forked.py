"""Trying something out in a copy of this process, which then ends: whatever it does leaves no trace here.

parent                                    copy (fork)
  wait, with a limit ◀── values, as JSON ── work(tell): may raise, print, hang, crash, count its instances
  ping ─────────────────────────────────▶ echo
  SIGKILL ──────────────────────────────▶
"""

import faulthandler
import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Tell = Callable[[Any], None]
"""Tells the parent a value that fits into JSON."""
SPARE_S = 1.0
"""A copy whose parent died ends by itself so long after its limit."""
PINGS = 25
CAN_FORK = sys.platform == "linux"
"""Elsewhere, libraries (those of macOS, say) do not survive it."""


@dataclass
class Told:
    """What a copy has told until it ended."""

    values: list[Any] = field(default_factory=list)
    fault: str | None = None
    """Why it ended before its work was done, if it did."""
    round_trip_s: float | None = None
    """How long a message takes there and back."""


def try_apart(work: Callable[[Tell], None], limit_s: float) -> Told:
    """Let a copy of this process do some work, for a limited time. What it prints is not shown."""
    if not CAN_FORK:
        return Told(fault=f"a process cannot be copied on {sys.platform}")
    ours, theirs = socket.socketpair()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads are not copied: that is what the limit is for
            pid = os.fork()
    except OSError as error:
        ours.close()
        theirs.close()
        return Told(fault=f"a copy of this process could not be made: {error}")
    if not pid:
        _be_the_copy(theirs, work, limit_s)
    theirs.close()
    try:
        return _listen(ours, pid, limit_s)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):  # a user's handler was faster
            os.waitpid(pid, 0)
        ours.close()


def _be_the_copy(pipe: socket.socket, work: Callable[[Tell], None], limit_s: float) -> None:
    """Work, and end without coming back."""
    try:
        gc.freeze()  # to look at what is there already would copy its pages
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s + SPARE_S)
        _be_silent()

        def tell(value: Any) -> None:
            pipe.sendall(json.dumps(value).encode() + b"\n")

        try:
            work(tell)
            pipe.sendall(b"\n")
            while data := pipe.recv(1):
                pipe.sendall(data)
        except BaseException as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            pipe.sendall(b"!" + json.dumps(text).encode() + b"\n")
    finally:
        os._exit(0)


def _be_silent() -> None:
    """Print nothing, wherever this process prints: descriptors, streams that are others (notebooks), logs, stacks."""
    faulthandler.disable()
    logging.disable()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    sys.stdout = sys.stderr = os.fdopen(nowhere, "w")


def _listen(pipe: socket.socket, pid: int, limit_s: float) -> Told:
    told, rest, deadline = Told(), b"", time.monotonic() + limit_s
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(1000 * left):
            told.fault = f"it took longer than {limit_s:g} s"
            return told
        data = pipe.recv(65536)
        if not data:
            told.fault = _cause_of_death(pid)
            return told
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"!"):
                told.fault = json.loads(line[1:])
                return told
            if not line:
                told.round_trip_s = _round_trip(pipe)
                return told
            told.values.append(json.loads(line))


def _round_trip(pipe: socket.socket) -> float | None:
    times = []
    pipe.settimeout(SPARE_S)
    with suppress(OSError):
        for _ in range(PINGS):
            started = time.perf_counter()
            pipe.sendall(b".")
            pipe.recv(1)
            times.append(time.perf_counter() - started)
    return median(times) if times else None


def _cause_of_death(pid: int) -> str:
    with suppress(ChildProcessError, ValueError):
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
    return "it ended"
