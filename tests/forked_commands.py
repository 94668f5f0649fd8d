"""Commands and scripts in processes of their own, which need not import torch again: they are forked from one that has."""

import multiprocessing
import os
import runpy
import signal
import sys
import time
from pathlib import Path

import quick_runs  # noqa: F401
from abreast.cli import main

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["abreast.cli", "abreast.games", "abreast.training", "torch._dynamo"])


class Command:
    """`PROGRAM ARGUMENTS` in the current folder: abreast, by whatever name, or a script. What it prints is in two files."""

    def __init__(self, arguments, program="abreast"):
        self._process = CONTEXT.Process(target=_run, args=([program, *arguments], str(Path.cwd())))
        self._process.start()

    @property
    def is_alive(self):
        return self._process.is_alive()

    def wait_for_lines(self, file, count):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (file.exists() and file.read_text().count("\n") >= count):
            assert self._process.is_alive(), Path("stderr").read_text()
            time.sleep(0.02)

    @property
    def pid(self):
        return self._process.pid

    def send(self, number):
        os.kill(self.pid, number)

    def end(self, number):
        """Send a signal; returns the exit code, and what was printed to stdout and to stderr."""
        self.send(number)
        return self.wait()

    def wait(self):
        """The exit code, and what was printed."""
        self._process.join(60)
        return self._process.exitcode, Path("stdout").read_text(), Path("stderr").read_text()


def _run(arguments, folder):
    os.chdir(folder)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests may ignore it
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    sys.argv = arguments
    if arguments[0].endswith(".py"):
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        main()
