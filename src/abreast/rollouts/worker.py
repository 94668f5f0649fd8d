"""A worker process: some environments, stepped one after the other as the manager orders."""

import pickle
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from abreast.processes.memory import SharedBlock
from abreast.processes.worker import Connection, Ready
from abreast.rollouts.episode import Episode
from abreast.rollouts.messages import Answer, Orders, Stop, Turn

FLUSH_S = 0.002
"""Answers are kept for the end of a batch; but for no longer than this, if somebody may want them one by one."""
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


def _obey(orders: Orders, episodes: dict[int, Episode], seat: Seat, connection: Connection) -> None:
    for env_id, recipe in orders.builds:
        if env_id in episodes:
            episodes.pop(env_id).close()
        with suppress(Exception):  # whatever it is then asked, the answer will be that it cannot live here
            episodes[env_id] = Episode(*pickle.loads(recipe))
    answers: list[Answer] = []
    flushed = time.perf_counter()
    work: list[tuple[Callable[..., Turn], Any]] = [(_start, order) for order in orders.starts]
    work += [(Episode.take, order) for order in orders.takes]
    for do, (env_id, *what) in work:
        seat.turn_to(env_id)
        episode = episodes.get(env_id)
        if episode is None:
            answers.append((env_id, 0, None, b""))
            continue
        turn = do(episode, *what)
        answers.append((env_id, len(episode.executed), (*turn,), episode.digest()))
        if not orders.together and (now := time.perf_counter()) - flushed > FLUSH_S:
            _send(connection, answers)
            answers, flushed = [], now
    if answers:
        _send(connection, answers)


def _start(episode: Episode, seed: int, executed: Sequence[Sequence[Any]], digest: bytes | None) -> Turn:
    turn = episode.start(seed, executed)
    if turn.failure is None and digest not in (None, episode.digest()):
        return Turn(turn.state, failure=DIFFERS)
    return turn


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
        env_id, number, _, digest = answer
        return env_id, number, None, digest
    return answer


def _limit_memory(megabytes: int) -> None:
    """Let allocations beyond the limit fail with MemoryError, which costs one episode, not the machine."""
    if sys.platform == "linux":
        import resource  # not there on every platform

        limit: Any = megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
