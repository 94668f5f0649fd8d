"""Chapter 8: death. Kills, hangs, restarts, and nothing left behind.

python docs/guide/08_death.py
"""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import numpy as np

from abreast.processes.backend import ChildSpec
from abreast.processes.memory import SharedBlock
from abreast.processes.process import ProcessBackend
from abreast.processes.team import Answered, Died, RestartPolicy, Team

FORK = multiprocessing.get_context("fork")
FATES = {"killed": lambda: os.kill(os.getpid(), 9), "hangs": lambda: time.sleep(600), "raises": lambda: 1 // 0}


def die_at_work(pipe, lock):
    """A learner that is killed in the middle, as the kernel does when memory runs out."""
    lock.acquire()
    FATES["killed"]()
    pipe.send("never reached")


class Learner:
    """The work of a child: it trains five agents, one after the other. At agent 3 something happens to it, once."""

    def __init__(self, context, block, fate):
        self.context, self.block, self.fate = context, block, fate

    def obey(self, key, agents):
        for agent in agents:
            self.context.beat(at=agent)  # a sign of life, and where it is
            if agent == 3 and not self.block["struck"][0]:
                self.block["struck"][0] = 1
                FATES[self.fate]()
        self.context.answer(key, f"agents {agents} are trained")

    idle = close = lambda self: None


def make_team(fate):
    spec = ChildSpec("learner", Learner, (SharedBlock({"struck": ((1,), np.uint8)}), fate))
    return Team(ProcessBackend(), lambda _: spec, 1, RestartPolicy(limit=3, silence_s=1.0))


def train(fate):
    """Order a round of training, and order it again of the successor of one that has died; returns what was told."""
    team, told = make_team(fate), []
    team.start()
    team.submit(0, "round 0", [0, 1, 2, 3, 4])
    while not any(isinstance(event, Answered) for event in told):
        team.wait(1.0)  # for messages and for deaths, whichever comes first
        for event in team.events():
            told.append(event)
            for key in event.keys if isinstance(event, Died) else ():  # what it had not finished
                team.submit(0, key, [0, 1, 2, 3, 4])
    team.stop()
    return told


def start_and_tell(pipe, way):
    """A program that starts a worker, which is busy, and tells its process id."""
    worker = FORK.Process(target=time.sleep, args=(600,)) if way == "multiprocessing" else make_team("hangs")
    worker.start()
    if way == "abreast":
        worker.submit(0, "round 0", [3])  # it does not listen any more
    pipe.send(worker.pid if way == "multiprocessing" else worker.pids[0])
    time.sleep(600)


def is_running(pid):
    try:  # Z: it has ended, and was not yet waited for (a zombie)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def outlives_its_program(way, within_s):
    """Kill a program, and look whether its worker is still there after a while."""
    ours, theirs = FORK.Pipe()
    (program := FORK.Process(target=start_and_tell, args=(theirs, way))).start()
    worker, end = ours.recv(), time.monotonic() + within_s
    program.kill()
    while (lives_on := is_running(worker)) and time.monotonic() < end:
        time.sleep(0.01)
    if lives_on:
        os.kill(worker, signal.SIGKILL)
    return lives_on


def main():
    # The pitfall: wait for data alone. The child is dead, its answer never comes, and the lock that it held is gone.
    (ours, theirs), lock = FORK.Pipe(), FORK.Lock()
    child = FORK.Process(target=die_at_work, args=(theirs, lock))
    child.start()
    child.join()
    came, has_lock = ours.poll(0.2), lock.acquire(timeout=0.2)  # without a timeout: forever
    print(f"an answer came: {came}; the child ended with {child.exitcode}; its lock can be had: {has_lock}")
    assert not came and not has_lock and child.exitcode == -signal.SIGKILL
    assert outlives_its_program("multiprocessing", within_s=0.2)
    print("multiprocessing: its program is killed, and the worker lives on")

    # Mended: deaths are events like answers, with a cause and the orders that were not finished.
    for fate in ("killed", "hangs", "raises"):
        died, answered = train(fate)
        cause = str(died.error).splitlines()[0].partition("; it was at")[0].rstrip(".")
        print(f"{cause}, at agent {died.at}. Then: {answered.value}")
        assert (died.at, died.keys, died.silent) == (3, ("round 0",), fate == "hangs")
    assert not outlives_its_program("abreast", within_s=30)
    print("abreast: its program is killed, and the worker is gone")


if __name__ == "__main__":
    main()
