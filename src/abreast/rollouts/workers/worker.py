"""A worker process: some environments, stepped one after the other as the manager orders."""

import os
import pickle
import select
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from abreast.processes.cores import LOOK_OUT_S, look_out
from abreast.processes.memory import SharedBlock
from abreast.processes.worker import Connection, Ready, Stop
from abreast.rollouts.episodes.episode import BUILD_S, Episode
from abreast.rollouts.workers.messages import Answer, Orders, Turn

FLUSH_S = 0.002
"""Answers are kept for the end of a batch; but for no longer than this, if somebody may want them one by one."""
NOBODY = -1
DIGEST_WORTH_S, DIGEST_EVERY = 50e-6, 16
"""A digest takes 3 µs: of every turn of an environment that takes its time, of some turns of one that takes none."""


@dataclass
class Seat:
    """What a worker is given. In shared memory it shows which environment it is at, and since when."""

    number: int
    block: SharedBlock
    memory_mb: int | None

    def take(self) -> None:
        """Prepare this process for its work."""
        if sys.platform == "linux":
            _give_way()
            if self.memory_mb is not None:
                _limit_memory(self.memory_mb)

    def turn_to(self, env_id: int, patience: float = 0.0) -> None:
        """Show that this environment's turn begins; it may take so much longer than others."""
        self.block["at"][self.number] = env_id
        self.block["heartbeats"][self.number] = time.monotonic() + patience


def rollout_worker(connection: Connection, seat: Seat) -> None:
    """The work of a worker process."""
    seat.take()
    episodes: dict[int, Episode] = {}
    seat.turn_to(NOBODY)
    connection.send(Ready())
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    while not isinstance(message := connection.recv(), Stop):
        began = time.perf_counter()
        _obey(Orders._make(message), episodes, seat, connection)
        if time.perf_counter() - began < LOOK_OUT_S:  # who is asked for little is asked again soon
            look_out(partial(poller.poll, 0))
    for episode in episodes.values():
        episode.close()


def _obey(orders: Orders, episodes: dict[int, Episode], seat: Seat, connection: Connection) -> None:
    for env_id, recipe in orders.builds:
        if env_id in episodes:
            episodes.pop(env_id).close()
        seat.turn_to(NOBODY, patience=BUILD_S)
        with suppress(Exception):  # whatever it is then asked, the answer will be that it cannot live here
            make, config = pickle.loads(recipe)
            episodes[env_id] = Episode(make, config, partial(seat.turn_to, env_id))
    answers: list[Answer] = []
    due: list[Episode] = []
    started = {order[0] for order in orders.starts}
    flushed = time.perf_counter()
    work: list[tuple[Callable[..., Turn], Any]] = [(Episode.start, order) for order in orders.starts]
    work += [(Episode.take, order) for order in orders.takes]
    for do, (env_id, serial, *what) in work:
        seat.turn_to(env_id)
        episode = episodes.get(env_id)
        if episode is None:
            answers.append((env_id, serial, 0, None, None))
            continue
        if not orders.together and answers and max(episode.last_s, time.perf_counter() - flushed) > FLUSH_S:
            connection.send_bytes(_packed(answers))  # before a turn that may take long
            answers, flushed = [], time.perf_counter()
        turn = do(episode, *what)
        if orders.verify or env_id in started:
            episode.take_digest()
        elif turn.seconds > DIGEST_WORTH_S or len(episode.executed) % DIGEST_EVERY == 0:
            due.append(episode)
        answers.append((env_id, serial, len(episode.executed), (*turn,), episode.known_digest))
    data = _packed(answers)
    seat.turn_to(NOBODY)  # before anybody hears of it: what kills this process from now on is no environment's fault
    if answers:
        connection.send_bytes(data)
    for episode in due:  # now that nobody waits for the answers; they go with the next ones
        episode.take_digest()


def _packed(answers: list[Answer]) -> bytes:
    try:
        return pickle.dumps(answers, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return pickle.dumps([_sendable(answer) for answer in answers], pickle.HIGHEST_PROTOCOL)


def _sendable(answer: Answer) -> Answer:
    try:
        pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception:
        env_id, serial, number, _, digest = answer
        return env_id, serial, number, None, digest
    return answer


def _give_way() -> None:
    """Let the main process finish sending before the kernel lets a worker that was woken run in its place."""
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _limit_memory(megabytes: int) -> None:
    """Let allocations beyond the limit fail with MemoryError, which costs one episode, not the machine."""
    import resource  # not there on every platform

    resource.setrlimit(resource.RLIMIT_DATA, (megabytes * 2**20, megabytes * 2**20))
