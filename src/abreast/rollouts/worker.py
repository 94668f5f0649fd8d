"""A worker process: some environments, stepped one after the other as the manager orders."""

import pickle
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from abreast.processes.memory import SharedBlock
from abreast.processes.worker import Connection, Ready
from abreast.rollouts.episode import Episode
from abreast.rollouts.messages import Answer, Build, Start, Stop, Take, Turn

FLUSH_S = 0.002
"""Answers are kept for the end of a batch, but not longer than this: whoever waits for the first need not wait for all."""
NOBODY = -1


@dataclass
class Seat:
    """What a worker is given. In shared memory it shows which environment it is at, and since when."""

    number: int
    block: SharedBlock
    memory_mb: int | None

    def turn_to(self, env_id: int) -> None:
        """Show that this environment's turn begins."""
        self.block["at"][self.number] = env_id
        self.block["heartbeats"][self.number] = time.monotonic()


def rollout_worker(connection: Connection, seat: Seat) -> None:
    """The work of a worker process."""
    if seat.memory_mb is not None:
        _limit_memory(seat.memory_mb)
    episodes: dict[int, Episode] = {}
    seat.turn_to(NOBODY)
    connection.send(Ready())
    while not isinstance(orders := connection.recv(), Stop):
        _obey(orders, episodes, seat, connection)
        seat.turn_to(NOBODY)


def _obey(
    orders: Iterable[Build | Start | Take], episodes: dict[int, Episode], seat: Seat, connection: Connection
) -> None:
    answers: list[Answer] = []
    flushed = time.perf_counter()
    for order in orders:
        seat.turn_to(order.env_id)
        if isinstance(order, Build):
            if order.env_id in episodes:
                episodes[order.env_id].close()
            episodes[order.env_id] = Episode(order.make, order.config)
            continue
        episode = episodes[order.env_id]
        if isinstance(order, Start):
            answers.append(_start(order, episode))
        else:
            turn = episode.take(order.actions, order.budget)
            answers.append(Answer(order.env_id, len(episode.executed), turn, episode.digest()))
        now = time.perf_counter()
        if now - flushed > FLUSH_S:
            _send(connection, answers)
            answers, flushed = [], now
    if answers:
        _send(connection, answers)


def _start(order: Start, episode: Episode) -> Answer:
    turn = episode.start(order.seed, order.executed)
    digest = episode.digest()
    if turn.failure is None and order.digest not in (None, digest):
        turn = Turn(turn.state, failure=DIFFERS)
    return Answer(order.env_id, len(order.executed), turn, digest)


DIFFERS = (
    "played again with the same seed and actions, it came to another state: it does not depend on its seed and its"
    " actions alone (`abreast check` tells more)"
)


def _send(connection: Connection, answers: list[Answer]) -> None:
    try:
        data = pickle.dumps(answers, pickle.HIGHEST_PROTOCOL)
    except Exception:
        data = pickle.dumps([_sendable(answer) for answer in answers], pickle.HIGHEST_PROTOCOL)
    connection.send_bytes(data)


def _sendable(answer: Answer) -> Answer:
    try:
        pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return answer._replace(turn=None)
    return answer


def _limit_memory(megabytes: int) -> None:
    """Let allocations beyond the limit fail with MemoryError, which costs one episode, not the machine."""
    if sys.platform == "linux":
        import resource  # not there on every platform

        limit: Any = megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
