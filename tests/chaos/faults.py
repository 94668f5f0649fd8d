"""Faults against the children of one run, which has to end as if there had been none."""

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from unittest import mock

from abreast.training.actors.process import ProcessActors
from abreast.training.learners.hosted import HostedLearners
from abreast.training.run.record import RunRecord
from chaos.leftovers import nothing_left
from chaos.unlucky import GAME
from fakes import outcome

FAULTS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "exits": signal.SIGUSR2}
EPOCHS_PER_FAULT = 5
PAUSE_S = 0.2
"""Longest pause before a fault: long enough for a restart, so that faults hit starts and rounds alike."""
YOUNG_S = 1.0
"""Children younger than this are killed and exit, but are not stopped."""
START_S = 10.0
"""Seconds after which a child that was stopped while it started is replaced: 120 otherwise."""
HELD_S = 20.0
"""Longest time that an epoch is held back: one in which no child is left to be harmed."""
SMALL = (
    "experiment.max_turns=8", "experiment.num_agents=3", "model.hidden_size=16", "model.batch_size=8", "model.n_frames=2",
    "model.gradient_steps=2", "model.algorithm=chaos.unlucky:UnluckyDQN", "model.buffer_capacity=512",
    "model.per_agent.1.algorithm=chaos.unlucky:UnluckyIQN", "model.per_agent.2.algorithm=chaos.unlucky:UnluckyPPO",
    "multiprocessing.num_envs=2", "multiprocessing.num_actors=2",
    "multiprocessing.num_workers=2", "multiprocessing.max_restarts=100000",
    "multiprocessing.learner_timeout=0.5", "multiprocessing.actor_timeout=0.5",
)  # fmt: skip


def faults_in_one_run(seed: int, faults: int) -> str:
    """Run once undisturbed and once with so many faults, and compare; returns what was done."""
    chance = random.Random(seed)
    schedule, mode = chance.choice(["lockstep", "pipelined"]), chance.choice(["snapshot", "double_buffer"])
    more = [f"experiment.epochs={faults * EPOCHS_PER_FAULT}", f"experiment.seed={seed}"]
    settings = [*SMALL, *more, f"multiprocessing.schedule={schedule}", f"multiprocessing.mode={mode}"]
    calm = GAME.build(GAME.configure(None, [*settings, "multiprocessing.workers=inline"]))
    expected = outcome(calm, calm.run_experiment_mp)
    first = GAME.build(GAME.configure(None, [*settings, "experiment.epochs=2"]))
    first.run_experiment_mp(animate=False, logging=False)  # starts what stays for the next run: the fork server
    del calm, first
    with nothing_left():
        env = GAME.build(GAME.configure(None, settings))
        with Striker(env, faults, chance) as striker, _short_starts():
            told = outcome(env, env.run_experiment_mp)
        assert striker.done.total() == faults, f"the run ended after {striker.done} of {faults} faults"
        assert told[0] == expected[0], "the metrics differ"
        assert told == expected, "the agents differ"
        restarts = striker.restarts
        del env, told
    return f"{schedule}, {mode}: {dict(striker.done)}, {restarts} restarts, identical"


class Striker:
    """Does harm to learners and actors of a run, in step with its epochs. The record of an epoch waits until the faults that
    belong to it have struck: a run on a fast machine would end before them.
    """

    def __init__(self, env, faults: int, chance: random.Random) -> None:
        self._env, self._faults, self._chance = env, faults, chance
        self._until = env.epochs_played + 0.9 * env.config.experiment.epochs
        self._hosts: dict[type, object] = {}
        self._originals = {kind: kind.__init__ for kind in (HostedLearners, ProcessActors)}
        self._recorded = mock.patch.object(RunRecord, "epoch", self._held(RunRecord.epoch))
        self._end = threading.Event()
        self._struck = threading.Condition()
        self._thread = threading.Thread(target=self._strike)
        self.done: Counter[str] = Counter()
        self.restarts = 0

    def __enter__(self) -> "Striker":
        for kind, original in self._originals.items():

            def noticed(host, *args, _kind=kind, _original=original, **kwargs):
                _original(host, *args, **kwargs)
                self._hosts[_kind] = host

            kind.__init__ = noticed
        self._recorded.start()
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._end.set()
        self._thread.join()
        self._recorded.stop()
        for kind, original in self._originals.items():
            kind.__init__ = original
        for host in self._hosts.values():
            self.restarts += sum(value for key, value in host.health().items() if key.endswith("restarts"))
        self._hosts.clear()

    def _held(self, record):
        def held(*arguments):
            record(*arguments)
            with self._struck:
                self._struck.wait_for(lambda: not self._is_behind(), HELD_S)

        return held

    def _is_behind(self) -> bool:
        """Whether a fault has yet to strike for the epochs that are played."""
        return self.done.total() < min(self._faults, self._faults * self._env.epochs_played / self._until)

    def _strike(self) -> None:
        known: dict[int, float] = {}
        while not self._end.wait(self._chance.uniform(0, PAUSE_S)) and self.done.total() < self._faults:
            pids = [pid for host in list(self._hosts.values()) for pid in host.pids if _runs(pid)]
            if self._is_behind() and pids:
                name, pid, now = self._chance.choice(list(FAULTS)), self._chance.choice(pids), time.monotonic()
                if name == "stopped" and now - known.setdefault(pid, now) < YOUNG_S:
                    continue  # it may be starting, where silence is found much later
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, FAULTS[name])
                    with self._struck:
                        self.done[name] += 1
                        self._struck.notify()


@contextlib.contextmanager
def _short_starts():
    """Take children that do not start for dead sooner."""
    hosts = ("abreast.training.learners.hosted", "abreast.training.actors.process")
    with contextlib.ExitStack() as stack:
        for module in hosts:
            stack.enter_context(mock.patch(f"{module}.start_s", lambda config: START_S))
        yield


def _runs(pid: int) -> bool:
    """Whether a process is neither dead nor stopped: one that is cannot be harmed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZTt"
    except OSError:
        return False
