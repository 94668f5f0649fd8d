"""Having turns taken, wherever environments live, and whatever happens there.

An environment lives in one process for its episode. When that process dies, or the environment has to move, it is rebuilt
from its seed by playing its actions again, and a digest tells whether it came to the same state. That happens when it is
next needed: whoever dies costs only those who are waiting.
"""

import logging
import pickle
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from abreast.errors import RolloutError, WorkerError
from abreast.processes.cores import cores
from abreast.processes.supervisor import Death
from abreast.processes.worker import comes_from_main
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.episodes.episode import Episode
from abreast.rollouts.episodes.guard import Whole
from abreast.rollouts.episodes.slot import MAIN, EnvState
from abreast.rollouts.episodes.watchdog import Patience, TookTooLong
from abreast.rollouts.registry import Tag, find_kind
from abreast.rollouts.workers.messages import Answer, Orders, Turn
from abreast.rollouts.workers.placement import Placement, Use
from abreast.rollouts.workers.pool import WorkerPool

log = logging.getLogger("abreast")

DEATHS, SILENCES = 3, 2
"""How often a worker may die, or fall silent, over one and the same turn of an environment before that is given up."""


class Fleet:
    """Environments in worker processes and here. `begin` turns, `hear` of those that are taken."""

    def __init__(self, envs: Sequence[EnvState], config: ManagerConfig, verify: bool) -> None:
        self._envs, self._config, self._verify = envs, config, verify
        self.whole = Whole()
        """Around whatever is written down of turns, here and in the manager."""
        self.verified_turns = 0
        self._staying = _staying(envs, config.sequential_env_types)
        self._cores = cores()
        workers = min(config.max_workers or min(8, self._cores), len(envs))
        self.placement = Placement(workers)
        self.pool: WorkerPool | None = None
        self._episodes: dict[int, Episode] = {}
        self._shadows: dict[int, tuple[int, Episode]] = {}
        """With `verify`: a copy of each environment, and of which of its episodes."""
        self._expected: dict[int, tuple[int, int]] = {}
        """Number of the turn under way, and the worker that takes it."""
        self._busy: dict[int, int] = {}
        """Workers, and how many turns each still has to take."""
        self._here: deque[EnvState] = deque()
        """Those whose turn is to be taken here."""
        self.finished: list[tuple[EnvState, Turn]] = []
        """Turns that are taken and not yet written down."""
        self._disagreement: RolloutError | None = None
        self._settled_for: Any = None
        self._some_are_abroad = False
        self._does_without_workers = False
        self._patience = Patience(config.step_timeout)

    def start_over(self) -> None:
        """Forget everything but the measurements: an interrupt has left nothing that can be trusted."""
        self.abandon()
        self.close()
        for env in self._envs:
            env.home, env.is_built, env.is_there = MAIN, False, False
        self._settled_for, self._some_are_abroad = None, False
        self.whole.mend()

    def close(self) -> None:
        """End the workers and close the environments."""
        self._patience.end()
        if self.pool is not None:
            self.pool.close()
            self.pool = None
        for episode in (*self._episodes.values(), *(shadow for _, shadow in self._shadows.values())):
            episode.close()
        self._episodes.clear()
        self._shadows.clear()

    # ---- turns

    def begin(self, envs: Sequence[EnvState], together: bool) -> None:
        """Have these environments take the turn they are asked to, or start: workers are told now, `hear` does the rest.

        `together`: nobody wants any of these turns before all of them are taken.
        """
        orders: dict[int, Orders] = {}
        for env in envs:
            if env.home == MAIN or env.doom is not None:
                self._here.append(env)
            else:
                if env.home not in orders:
                    orders[env.home] = Orders([], [], [], together, self._verify)
                _put_orders(env, orders[env.home])
                self._expected[env.env_id] = (len(env.executed) + (env.asked is not None), env.home)
                self._busy[env.home] = self._busy.get(env.home, 0) + 1
        for worker, each in orders.items():
            self._workers().order(worker, each)

    def hear(self, wait_s: float) -> None:
        """Take the turns that are to be taken here; else wait for those of workers. Those taken are then in `finished`."""
        self._take_all_here()
        if self._expected:
            if not self.finished:
                self._workers().wait(wait_s, looking_out=len(self._busy) < self._cores)
            with self.whole:
                for answer in self._workers().receive():
                    self._note(answer)
            self._take_all_here()  # those who have lost their worker for good
        if self._disagreement is not None:
            disagreement, self._disagreement = self._disagreement, None
            raise disagreement

    def abandon(self) -> None:
        """Nobody wants to know any more of the turns under way; what is said of them will not be heard."""
        for worker in list(self._busy):
            if self.pool is not None:
                self.pool.rest(worker)
        self._busy.clear()
        self._expected.clear()
        self._here.clear()
        self.finished.clear()

    def _take_all_here(self) -> None:
        if self._here:
            self._patience.watch()
        while self._here:
            env = self._here[0]
            turn = self._take_here(env)  # if this is interrupted, the turn is still to be taken
            with self.whole:
                self.finished.append((env, turn))
                self._here.popleft()
                env.is_there = True

    def _take_here(self, env: EnvState) -> Turn:
        """What came of the turn, or the start, of an environment that lives here."""
        while True:
            try:
                self._patience.has_raised, self._patience.extra_s = False, 0.0
                self._patience.at = env
                turn = self._try_here(env)
                self._patience.at = None  # no call, in which that might still be raised
                if not self._patience.has_raised:  # it may have been caught by the environment
                    return turn
            except TookTooLong as error:
                self._patience.at = None
                if self._patience not in error.args:
                    raise  # it is about an environment that uses a manager of its own: this one
            finally:
                self._patience.at = None
            self._was_late(env)

    def _was_late(self, env: EnvState) -> None:
        """Forget the state it is in; it may try the turn again, as in a worker."""
        self._episodes.pop(env.env_id, None)  # not closed: that might hang as well
        env.is_there = False
        env.tally.timeouts += 1
        env.blamed.append(Death(f"took longer than {self._patience.seconds:g} s", was_silent=True))
        if len(env.blamed) >= SILENCES:
            env.doom = f"its turn {env.blamed[-1].why}"

    def _try_here(self, env: EnvState) -> Turn:
        started = None if env.is_there else self._start_here(env)
        env.is_there = False  # an interrupted turn leaves a state that nobody knows
        if env.doom is not None:
            turn = Turn("", failure=env.doom)
        elif env.asked is not None and (started is None or started.failure is None):
            turn = self._episodes[env.env_id].take(env.asked["actions"], env.actions_left)
        else:
            assert started is not None, "a start was asked for"
            turn = started
        if turn.failure is not None:
            _complain(env, turn.failure)
        return turn

    def _start_here(self, env: EnvState) -> Turn | None:
        if env.doom is not None:
            return None
        if env.env_id not in self._episodes:
            self._episodes[env.env_id] = Episode(env.tag.kind.env, env.tag.config, self._patience.beat)
        return self._episodes[env.env_id].start(env.seed, env.executed, env.digest)

    def _note(self, answer: Answer) -> None:
        env_id, serial, number, fields, digest = answer
        env, expected = self._envs[env_id], self._expected.get(env_id)
        if serial != env.serial:
            return  # of an episode that was abandoned
        if fields is None:
            if expected is not None:
                self._bring_home(env)
            return
        turn = Turn._make(fields)
        if expected is not None and number == expected[0]:
            env.digest = digest
            if self._verify and turn.failure is None:
                self._compare(env, turn)
            self._finish(env, turn)
        elif turn.failure is not None and not env.terminated:
            self._doom(env, turn.failure)

    def _finish(self, env: EnvState, turn: Turn) -> None:
        _, worker = self._expected.pop(env.env_id)
        self._busy[worker] -= 1
        if not self._busy[worker]:
            del self._busy[worker]
            self._workers().rest(worker)
        if turn.failure is not None:
            _complain(env, turn.failure)
        self.finished.append((env, turn))

    # ---- misfortune

    def _worker_died(self, worker: int, culprit: int, death: Death) -> None:
        """Rebuild in the new worker whatever is waited for; the rest when it is wanted."""
        assert self.pool is not None
        there = [env for env in self._envs if env.home == worker]
        for env in there:
            env.is_built = env.is_there = False
        blamed = next((env for env in there if env.env_id == culprit and not env.terminated), None)
        if blamed is not None:
            blamed.blamed.append(death)
            blamed.tally.timeouts += death.was_silent
            if len(blamed.blamed) >= (SILENCES if death.was_silent else DEATHS):
                self._doom(blamed, f"its worker {death.why.partition(';')[0]}")
        if worker in self.pool.lost:
            for env in there:
                self._move(env, MAIN)
                if env.blamed:  # what has killed a worker is not let near the main process
                    self._doom(env, f"its worker {death.why.partition(';')[0]}")
        self._busy.pop(worker, None)
        self.begin([env for env in there if self._expected.pop(env.env_id, None)], together=False)

    def _doom(self, env: EnvState, reason: str) -> None:
        """The episode cannot go on: its turn under way, or else its next, is its last."""
        env.doom = reason
        if env.env_id in self._expected:
            self._finish(env, Turn("", failure=reason))

    def _bring_home(self, env: EnvState) -> None:
        """It, or what it returns, cannot be sent between processes: let environments of its kind live here from now on."""
        reason = "it, or what it returns, cannot be pickled: it lives in the main process from here on"
        log.warning("environment %d (%s): %s", env.env_id, env.tag.name, reason)
        self._staying.add(env.tag.name)
        self._move(env, MAIN)
        self._patience.watch()
        turn = self._take_here(env)
        env.is_there = True
        self._finish(env, turn._replace(info={**turn.info, "moved": reason}))

    def _compare(self, env: EnvState, theirs: Turn) -> None:
        """Do the same here, and see whether it comes to the same."""
        serial, shadow = self._shadows.get(env.env_id) or (0, Episode(env.tag.kind.env, env.tag.config))
        if serial != env.serial or env.asked is None or len(shadow.executed) != len(env.executed):
            self._shadows[env.env_id] = (env.serial, shadow)
            ours = shadow.start(env.seed, env.executed)
        if env.asked is not None:
            ours = shadow.take(env.asked["actions"], env.actions_left)
        ours = Turn(*pickle.loads(pickle.dumps((*ours,))))  # so that it has come the same way
        differs = [
            name
            for name, a, b in zip(Turn._fields, theirs, ours, strict=True)
            if name != "seconds" and not _are_same(a, b)
        ]
        if not differs and env.digest != shadow.take_digest():
            differs = ["the state of its random stream"]
        self.verified_turns += 1
        if differs and self._disagreement is None:  # told when all that has come is taken in
            self._disagreement = RolloutError(
                f"environment {env.env_id} ({env.tag.name}), turn {len(shadow.executed)}: its worker and the main process"
                f" disagree about its {', '.join(differs)}, so it does not depend on its seed and its actions alone."
            )

    # ---- where environments live

    def settle(self, use: Use) -> None:
        """Let every environment live where it should from its next turn on; one that moves is rebuilt there then.

        Under `auto`, if workers cannot start, all stay here: who did not ask for workers does without.
        """
        if use == "auto" and self._does_without_workers:
            use = False
        if not self._some_are_abroad and (not use or (use == "auto" and not self.placement.dear)):
            return  # all are here, and there they stay
        lost = self.pool.lost if self.pool is not None else set()
        wish = (use, self.placement.dear if use == "auto" else None, len(lost), len(self._staying), self._is_fresh)
        if wish == self._settled_for:
            return
        homes = self._homes(use, lost)
        under_way = self._expected.keys() | {env.env_id for env in self._here}
        with self.whole:
            for env in self._envs:
                home = homes.get(env.env_id, MAIN)
                if home != env.home and env.env_id not in under_way:
                    self._move(env, home)
            self._some_are_abroad = any(env.home != MAIN for env in self._envs)
        if self._some_are_abroad:
            try:
                self._workers()  # which may fail, or be interrupted: before any turn is begun
            except (WorkerError, OSError) as error:
                if use != "auto":
                    raise
                log.warning("environments stay in the main process, because workers cannot start: %s", error)
                self._does_without_workers = True
                self.settle(False)
                return
        self._settled_for = None if under_way else wish  # those under way are looked at again

    @property
    def _is_fresh(self) -> bool:
        """Whether all episodes are about to begin, so that moving costs nothing."""
        return not any(env.is_there for env in self._envs)

    def _homes(self, use: Use, lost: set[int]) -> dict[int, int]:
        dear = self.placement.dear if use == "auto" else None
        abroad = {
            env.env_id: env.tag.name
            for env in self._envs
            if use and env.tag.name not in self._staying and (dear is None or env.tag.name in dear)
        }
        now = {env.env_id: env.home for env in self._envs if env.home != MAIN}
        return now if abroad.keys() == now.keys() and not self._is_fresh else self.placement.spread(abroad, now, lost)

    def _move(self, env: EnvState, home: int) -> None:
        if env.home == MAIN and env.env_id in self._episodes:
            episode = self._episodes.pop(env.env_id)
            if env.is_there:
                env.digest = episode.take_digest()
            episode.close()
        env.home, env.is_built, env.is_there = home, False, False

    def _workers(self) -> WorkerPool:
        if self.pool is None:
            needs_main = any(comes_from_main(env.tag.kind.env, env.tag.config) for env in self._envs)
            self.pool = WorkerPool(self.placement.workers, self._config, needs_main, self._worker_died)
        return self.pool


def _complain(env: EnvState, reason: str) -> None:
    log.error("environment %d (%s) cannot go on: %s", env.env_id, env.tag.name, reason)


def _put_orders(env: EnvState, orders: Orders) -> None:
    """Add what the worker of an environment has to do for it."""
    if not env.is_built:
        orders.builds.append((env.env_id, pickle.dumps((env.tag.kind.env, env.tag.config))))
    if not env.is_there:
        orders.starts.append((env.env_id, env.serial, env.seed, tuple(env.executed), env.digest))
    if env.asked is not None:
        orders.takes.append((env.env_id, env.serial, env.asked["actions"], env.actions_left))
    env.is_built = env.is_there = True


def _are_same(a: Any, b: Any) -> bool:
    """Whether two values are equal through and through; NaN is equal to itself, and order in a set is none."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_are_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_are_same, a, b))
    return bool(a == b) or (a != a and b != b) or pickle.dumps(a) == pickle.dumps(b)


def _staying(envs: Sequence[EnvState], types: Sequence[str]) -> set[str]:
    """Tags that must not, or cannot, leave the main process."""
    names = {find_kind(name).name for name in types}
    tags: dict[str, Tag] = {env.tag.name: env.tag for env in envs}
    return {name for name, tag in tags.items() if tag.kind.name in names or not _can_be_sent(tag)}


def _can_be_sent(tag: Tag) -> bool:
    try:
        pickle.dumps((tag.kind.env, tag.config))
    except Exception as error:
        log.warning("environments of type %s stay in the main process: %s", tag.kind.name, error)
        return False
    return True
