"""Workers for the tests of backends and teams, and a backend as a remote one would be."""

import logging
import os
import pickle
import queue
import signal
import threading
import time

from abreast.processes.backend import NOWHERE, ChildSpec, SignOfLife
from abreast.processes.child import NO_ORDER, serve
from abreast.processes.process import ProcessBackend


class Obedient:
    """Does what its orders say: (verb, argument)."""

    def __init__(self, context, *arguments):
        self.context, self.arguments = context, arguments
        if arguments == ("cannot start",):
            raise ValueError("nothing works here")
        self.idles = 0

    def obey(self, key, order):
        verb, argument = order
        self.context.beat(getattr(argument, "at", NOWHERE) if verb != "at" else argument)
        if verb == "echo":
            self.context.answer(key, argument)
        elif verb == "arguments":
            self.context.answer(key, self.arguments)
        elif verb == "number":
            self.context.answer(key, self.context.number)
        elif verb == "thrice":
            for part in range(3):
                self.context.answer(key, part, last=part == 2)
        elif verb == "raise":
            raise ZeroDivisionError(argument)
        elif verb == "raise at":
            self.context.beat(argument)
            raise ZeroDivisionError("at an item")
        elif verb == "die at":
            self.context.beat(argument)
            os.kill(os.getpid(), signal.SIGKILL)
        elif verb == "log and die":
            logging.getLogger("abreast").warning(argument)
            os.kill(os.getpid(), signal.SIGKILL)
        elif verb == "answer and die":
            self.context.answer(key, argument)
            os.kill(os.getpid(), signal.SIGKILL)
        elif verb == "hang at":
            self.context.beat(argument)
            time.sleep(600)
        elif verb == "sleep":
            time.sleep(argument)
            self.context.beat()
            self.context.answer(key, "awake")
        elif verb == "wait for":
            wait_for(argument)
            self.context.answer(key, "awake")
        elif verb == "beat on":
            end = time.monotonic() + argument
            while time.monotonic() < end:
                time.sleep(0.01)
                self.context.beat()
            self.context.answer(key, "beaten")
        elif verb == "allowed":
            self.context.beat(allow_s=30.0)
            time.sleep(argument)
            self.context.answer(key, "slow")
        elif verb == "write":
            argument[0][argument[1]] = argument[2]
            self.context.answer(key, "written")

    def idle(self):
        return None

    def close(self):
        pass


class Slow(Obedient):
    """Has started when this file is there."""

    def __init__(self, context, gate):
        wait_for(gate)
        super().__init__(context)


def wait_for(gate):
    while not gate.exists():
        time.sleep(0.005)


class Restless(Obedient):
    """Answers an order that stays outstanding, whenever it is idle."""

    key = None

    def obey(self, key, order):
        if order == ("go on", None):
            self.key = key
        else:
            super().obey(key, order)

    def idle(self):
        if self.key is None:
            return None
        self.idles += 1
        self.context.beat()
        self.context.answer(self.key, self.idles, last=False)
        return 0.001


class RemoteBackend:
    """Children without file descriptors and without shared memory: a thread delivers everything, pickled."""

    def start(self, number, spec, wake):
        return RemoteChild(number, pickle.dumps((spec.make, spec.arguments)), spec.name, wake)


class RemoteChild:
    """Runs `serve` in a thread that only sees bytes."""

    pid = None
    hint = ""
    fds = ()

    def __init__(self, number, recipe, name, wake):
        self.name, self.number = name, number
        self._wake, self._orders, self._messages = wake, queue.SimpleQueue(), queue.SimpleQueue()
        self._sign, self._ended, self._cut_off = SignOfLife(0, NOWHERE, 0.0), False, False
        threading.Thread(target=self._run, args=(recipe,), daemon=True).start()

    def _run(self, recipe):
        make, arguments = pickle.loads(recipe)
        serve(self, self._receive_order, self._tell, make, arguments)
        self._ended = True
        self._wake()

    def _receive_order(self, wait_s):
        try:
            return pickle.loads(self._orders.get(timeout=wait_s))
        except queue.Empty:
            return NO_ORDER

    def _tell(self, message):
        self._messages.put(pickle.dumps(message))
        self._wake()

    def beat(self, at=NOWHERE, allow_s=0.0):
        self._sign = SignOfLife(self._sign.beats + 1, at, allow_s)

    def answer(self, key, value, last=True):
        self._tell((key, value, last))

    @property
    def is_alive(self):
        return not self._ended and not self._cut_off

    def send(self, message):
        self._orders.put(pickle.dumps(message))

    def receive(self):
        ended, messages = self._ended, []
        while not self._messages.empty():
            messages.append(pickle.loads(self._messages.get()))
        if ended and not messages:
            raise EOFError
        return messages

    def sign_of_life(self):
        return self._sign

    was_killed = False

    def cause_of_death(self):
        return "the other machine is gone"

    def stack(self):
        return ""

    def kill(self):
        self._cut_off = True
        self._orders.put(pickle.dumps(None))


class Writer:
    """A child that writes when it is told to."""

    def __init__(self, context, write, *arguments):
        self._context, self._write, self._arguments = context, write, arguments

    def obey(self, key, order):
        self._write(*self._arguments)
        self._context.answer(key, "written")

    def idle(self):
        return None

    def close(self):
        pass


def start_writing(*arguments):
    child = ProcessBackend().start(0, ChildSpec("writer", Writer, arguments), lambda: None)
    child.send(("all", None))
    return child
