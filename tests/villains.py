"""Named ways to die, for the tests of those who have to live with it."""

import contextlib
import os
import random
import signal
import threading
import time
from unittest import mock

from abreast.models import DQN
from abreast.processes.team import Team


class KillsItself(DQN):
    """Its process is killed in the middle of its third update."""

    def train_step(self):
        if self.updates == 2 and not os.environ.get("ABREAST_MERCY"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().train_step()


class RaisesInTraining(DQN):
    """Its third update raises, every time."""

    def train_step(self):
        if self.updates == 2:
            raise ZeroDivisionError("a villain divides by zero")
        return super().train_step()


class HangsInTraining(DQN):
    """Its third update never ends."""

    def train_step(self):
        if self.updates == 2:
            time.sleep(3600)
        return super().train_step()


class Unpicklable(DQN):
    """Holds a lambda, which plain pickle refuses; it encloses nothing, so each side has its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.function = lambda: 1


@contextlib.contextmanager
def harm(host, how, every_s, times, when_up=False):
    """Do harm to the workers (`pids`) of the newest instance of a class, one after the other, while something runs.

    `when_up`: not before all are ready. (That one is silent at its start is noticed much later.)
    """
    hosts, stop = [], threading.Event()
    original, start = host.__init__, Team.start

    def noticed(self, *args, **kwargs):
        ready = mock.patch.object(Team, "start", lambda team, **_: start(team))
        with ready if when_up else contextlib.nullcontext():
            original(self, *args, **kwargs)
        hosts.append(self)

    def strike():
        chance = random.Random(1)
        done = 0
        while not stop.wait(every_s * chance.uniform(0.5, 1.5)) and done < times:
            pids = [pid for pid in (hosts[-1].pids if hosts else []) if pid]
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    how(chance.choice(pids))
                    done += 1

    host.__init__ = noticed
    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        host.__init__ = original
