"""Workers on nodes of a cluster, as a `Team` sees them.

A call of a host's method is under way or none is: results therefore come in the order of the calls. While a worker has
something to do, its host is asked, again and again, and answers when the worker has said something.
"""

import pickle
import queue
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from abreast.cluster.connection import Connection, first_line
from abreast.cluster.host import Host, Order, Report, open_share
from abreast.errors import ConfigError, WorkerError
from abreast.processes.backend import NOWHERE, STOP, Backend, Child, ChildSpec, Failed, Ready, SignOfLife
from abreast.processes.process import SCRIPT_HINT, pack

ASK_S = 0.5
"""For how long a host waits for its worker before it answers that it is still at work. Orders wait for that, too; but a
worker that is at work could not take them up."""
STACK_S = 3.0
HINT = "; what it needs has to be installed on every node"


class RayBackend:
    """Starts workers on nodes: on other ones, and the first `here` as processes of this machine (`near`); None: on any node.

    The next of a worker that was lost before it was ready is near, too: nodes have no room for it, or are being lost.
    """

    def __init__(
        self, connection: Connection, cpus: float, gpus: float, timeout_s: float, near: Backend, here: int | None = None
    ) -> None:
        connection.check_room(cpus, gpus)
        self._connection, self._timeout_s = connection, timeout_s
        self._near, self._here = near, here or 0
        self._newest: dict[int, RayChild] = {}
        self._make_host = connection.actor(
            Host, elsewhere=here is not None, num_cpus=cpus, num_gpus=gpus, max_restarts=0, max_task_retries=0,
            scheduling_strategy="SPREAD",
        )  # fmt: skip

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> Child:
        before = self._newest.pop(number, None)
        if number < self._here or (before is not None and not before.was_ready):
            return self._near.start(number, spec, wake)
        try:
            child = RayChild(number, spec, wake, self._connection, self._make_host(), self._timeout_s)
        except Exception as error:
            raise WorkerError(f"{spec.name} could not start: {type(error).__name__}: {first_line(error)}.") from error
        self._newest[number] = child
        return child


class RayChild:
    """A worker on a node."""

    fds: tuple[int, ...] = ()

    def __init__(
        self, number: int, spec: ChildSpec, wake: Callable[[], None], connection: Connection, host: Any, timeout_s: float,
    ) -> None:  # fmt: skip
        self.name, self.hint = spec.name, ""
        self._script_hint = SCRIPT_HINT if spec.needs_main else HINT
        self.pid: int | None = None
        self.was_killed = False
        self._wake, self._connection, self.host = wake, connection, host
        self._sign = SignOfLife(0, NOWHERE, 0.0)
        self._ended: str | None = None
        self._queued: list[Order] = []
        self._unanswered: set[Hashable] = {Ready}
        """Keys of orders under way; and what else it is going to say."""
        self._done: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        self._must_be_placed = time.monotonic() + timeout_s
        self._timeout_s, self._is_placed = timeout_s, False
        packed = pack(spec)
        prefixes = tuple(share.prefix for share in (*spec.reads, *spec.writes))
        layouts = [
            {name: what for name, what in block.layout.items() if name.startswith(prefixes)} for block in packed.blocks
        ]
        self._reads = [open_share(share, packed.blocks) for share in spec.reads]
        self._writes = [open_share(share, packed.blocks) for share in spec.writes]
        first = [share.first(is_read=True) for share in self._reads] + [
            share.first(is_read=False) for share in self._writes
        ]
        self._call(host.start, number, spec.name, packed._replace(blocks=[]), layouts, spec.reads, spec.writes, first)

    # ---- calls

    def _call(self, method: Any, *arguments: Any) -> None:
        self._is_under_way = True
        method.remote(*arguments).future().add_done_callback(self._note_done)

    def _note_done(self, future: "Future[Any]") -> None:
        """Called by a thread of Ray's."""
        self._done.put(future)
        self._wake()

    def _go_on(self) -> None:
        if not self._is_under_way and self._ended is None and (self._queued or self._unanswered):
            queued, self._queued = self._queued, []
            self._call(self.host.exchange, queued, ASK_S)

    # ---- for the team

    def send(self, message: Any) -> None:
        changes = [share.changes() for share in self._reads]
        self._queued.append(Order(pickle.dumps(message, pickle.HIGHEST_PROTOCOL), changes))
        self._unanswered.add(STOP if message is STOP else message[0])
        self._go_on()

    def receive(self) -> list[Any]:
        messages: list[Any] = []
        while not self._done.empty():
            self._is_under_way = False
            messages += self._result_of(self._done.get())
            self._go_on()
        if not messages and not self.is_alive:
            raise EOFError
        return messages

    def _result_of(self, done: "Future[Any]") -> list[Any]:
        try:
            result = done.result()
            if not isinstance(result, Report):
                self._is_placed = True
                self._connection.note_node(result)
                return []
        except ConfigError as error:
            self._ended = f"ConfigError: {error}"
            return []
        except self._connection.ray.exceptions.RayError as error:
            self._ended = f"the node or the actor of Ray's that it lived in is gone ({first_line(error)})"
            self._sign = self._sign._replace(at=NOWHERE)  # nothing it was at is to blame
            is_lost = isinstance(error, self._connection.ray.exceptions.RayActorError)
            self.was_killed = is_lost and not getattr(error, "actor_init_failed", False)
            return []
        for share, changes in zip(self._writes, result.changes, strict=True):
            if changes is not None:
                share.apply(changes)
        self._sign, self.pid, self._ended, self.was_killed = result.sign, result.pid, result.ended, result.was_killed
        messages = [pickle.loads(message) for message in result.messages]
        for message in messages:
            if isinstance(message, Failed):
                self.hint = self._script_hint
            elif isinstance(message, Ready):
                self._unanswered.discard(Ready)
            elif type(message) is tuple and message[2]:
                self._unanswered.discard(message[0])
        return messages

    @property
    def was_ready(self) -> bool:
        """Whether it has come to work."""
        return Ready not in self._unanswered

    @property
    def is_alive(self) -> bool:
        if not self._is_placed and self._ended is None and time.monotonic() > self._must_be_placed:
            self._ended = (
                f"no node had room for it within {self._timeout_s:g} s (cluster.start_timeout): use fewer workers, or wait"
                " until other runs have ended"
            )
        return self._ended is None

    def sign_of_life(self) -> SignOfLife:
        return self._sign

    def cause_of_death(self) -> str:
        return self._ended or "it was killed"

    def stack(self) -> str:
        with suppress(Exception):  # it is gone, or does not answer
            return str(self._connection.ray.get(self.host.stack.remote(), timeout=STACK_S))
        return ""

    def kill(self) -> None:
        self._ended = self._ended or "it was killed"
        with suppress(Exception):  # the cluster is gone
            self._connection.ray.kill(self.host)
