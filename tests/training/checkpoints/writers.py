"""What other processes do in the tests of checkpoints. What they print, they send."""

import gc
import os
import random
import resource
import signal
import time
from pathlib import Path

import numpy as np

from abreast.errors import CheckpointError
from abreast.state import State
from abreast.training.checkpoints.folder import list_checkpoints, remove_old, write_checkpoint
from fakes import checkpoint_facts


def state(size, number=0):
    return State({"number": number}, {"a": np.full(size, number)})


def write_too_much(run, pipe):
    """Meet the limit of the size of a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        write_checkpoint(run / "checkpoints" / "epoch_000002", "run", checkpoint_facts(2), {"run": state(10**6)})
    except CheckpointError as error:
        pipe.send(str(error))


def read_too_much(run):
    """Print what is said of 100 MB where memory has room for 1.2 times as much, and then for half as much.

    In an interpreter of its own: in a fork of a process with threads, their stacks become room at any moment.
    """
    for room in (1.2, 0.5):
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(room * 10**8), -1))
        try:
            list_checkpoints(run)[0].check()
        except CheckpointError as error:
            print(error)


def write_much(run, pipe):
    """Send how many kilobytes of memory writing 100 MB took."""
    big = State({}, {"a": np.ones(5 * 10**7, np.uint8), "b": np.ones(5 * 10**7, np.uint8)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    write_checkpoint(run / "checkpoints" / "epoch_000001", "run", checkpoint_facts(1), {"run": big})
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def write_until_killed(run, begun):
    """Write new checkpoints, replace them by their equals, and remove old ones; `begun` is told of each."""
    newest = max(found.epochs for found in list_checkpoints(run))
    for epochs in range(newest + 1, newest + 10_000):
        for _ in range(2):
            parts = {"agent_0": state(5_000, epochs), "run": state(10, epochs)}
            write_checkpoint(run / "checkpoints" / f"epoch_{epochs:06d}", "run", checkpoint_facts(epochs), parts)
            write_checkpoint(run / "checkpoints" / "final", "agents", checkpoint_facts(epochs), parts)
        remove_old(run, 2)
        os.write(begun, b"x")


def kill_writers(run, pipe, kills):
    """Kill one writer after the other at random moments; send the newest epochs that each left, in whole checkpoints."""
    chance = random.Random(kills)
    write_checkpoint(run / "checkpoints" / "epoch_000000", "run", checkpoint_facts(0), {"agent_0": state(10)})
    for _ in range(kills):
        wrote, begun = os.pipe()
        writer = os.fork()
        if not writer:
            try:
                write_until_killed(run, begun)
            finally:
                os._exit(1)
        os.close(begun)
        os.read(wrote, 1)  # however slow it is, it has written one
        time.sleep(chance.random() * 0.1)
        os.kill(writer, signal.SIGKILL)
        os.close(wrote)
        assert os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) == -signal.SIGKILL
        found = list_checkpoints(run)
        for each in found:
            if isinstance(each, CheckpointError):
                raise each
            each.check()
            assert each.part("agent_0").facts["number"] == each.epochs
        pipe.send(max(each.epochs for each in found))
