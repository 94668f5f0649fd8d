"""Ends what tests have started, in whichever way these end: also if pytest's time limit or SIGKILL ends their process.

    process of pytest                       guard, a process of its own
      MARK in the environment,  ──────────▶ wait for the end of pytest's process
      which all inherit that are            kill whatever has this MARK, until nothing has it
      started from here on

A process group or a signal at the death of a parent would not do: nodes of Ray and runs that are killed as a whole have
sessions of their own, and what they have started has lost its parent by then.
"""

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "STARTED_BY_TESTS_OF"
LOOK_S, QUIET_S, LONGEST_S = 0.05, 1.0, 60.0
"""How often is looked, for how long nothing must be found, and when the guard gives up."""
GUARDS = []


def start_guard():
    """Guard what this process starts from now on."""
    os.environ[MARK] = f"{os.getpid()}-{secrets.token_hex(8)}"
    command = [sys.executable, "-S", __file__, str(os.getpid()), os.environ[MARK]]
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    GUARDS.append(subprocess.Popen(command, start_new_session=True, env=unmarked, **quiet))


@contextlib.contextmanager
def running(command, **how):
    """A program that ends with the block, also where the test fails."""
    with subprocess.Popen(command, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def marked(mark):
    """The processes that have inherited the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if f"\0{MARK}={mark}\0".encode() in b"\0" + (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def guard(pid, mark):
    """Wait for the end of a process, then end what it has started."""
    with contextlib.suppress(ProcessLookupError):  # it has ended already
        select.select([os.pidfd_open(pid)], [], [])
    end = time.monotonic() + LONGEST_S
    quiet = time.monotonic() + QUIET_S
    while time.monotonic() < min(quiet, end):
        for each in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
            quiet = time.monotonic() + QUIET_S
        time.sleep(LOOK_S)


if __name__ == "__main__":
    guard(int(sys.argv[1]), sys.argv[2])
