"""Children that are processes: what only they can do."""

import gc
import os
import signal
import time
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path

import numpy as np

from abreast.processes.backend import NOWHERE, ChildSpec
from abreast.processes.memory import SharedBlock
from abreast.processes.team import Answered, Died
from processes.teams import collect, descriptors
from processes.workers import Obedient


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class TestProcesses:
    """What only a process can do."""

    def test_messages_come_before_the_death(self, make_team):
        team = make_team()
        team.submit(0, "k", ("answer and die", "last words"))
        answered, died = collect(team, 2)
        assert answered == Answered(0, "k", "last words", True)
        assert isinstance(died, Died) and died.keys == () and died.at == NOWHERE

    def test_after_sigkill_the_item_it_was_at_is_known(self, make_team):
        team = make_team(limit=0)
        for _ in range(3):  # deaths at an item are for the owner to count, not for the limit
            team.submit(0, "k", ("die at", 5))
            (died,) = collect(team)
            assert type(died) is Died and died.at == 5 and "SIGKILL, often out of memory" in died.cause

    def test_a_stopped_process_is_killed(self, make_team):
        team = make_team(silence_s=0.5)
        os.kill(team.pids[0], signal.SIGSTOP)
        team.submit(0, "k", ("echo", 1))
        (died,) = collect(team)
        assert died.silent
        team.submit(0, "k", ("echo", 1))
        assert collect(team)[0].value == 1

    def test_a_process_outlives_the_death_of_the_fork_server_by_nothing(self, make_team):
        """It is taken for dead then. One that runs notices soon that it is not wanted; one that is stopped cannot."""
        team = make_team()
        pid = team.pids[0]
        os.kill(pid, signal.SIGSTOP)
        team.submit(0, "k", ("echo", 1))
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)
        (died,) = collect(team)
        end = time.monotonic() + 2  # the kernel takes a moment to clear away what runs no more
        while _runs(pid) and time.monotonic() < end:
            time.sleep(0.01)
        assert died.keys == ("k",) and not _runs(pid)
        team.submit(0, "k", ("echo", 1))
        assert collect(team)[0].value == 1

    def test_a_stopped_fork_server_goes_on_when_it_is_needed(self, make_team):
        team = make_team()
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGSTOP)
        os.kill(team.pids[0], signal.SIGKILL)
        team.submit(0, "k", ("echo", 1))
        collect(team)
        team.submit(0, "k", ("echo", 1))
        assert collect(team)[0].value == 1

    def test_a_hang_is_reported_with_its_stack(self, make_team):
        team = make_team(silence_s=0.5)
        team.submit(0, "k", ("hang at", 3))
        (died,) = collect(team)
        assert died.at == 3 and "workers.py" in died.cause

    def test_arguments_larger_than_a_pipe_arrive(self, make_team):
        large = b"x" * 1_000_000
        team = make_team(spec=lambda number: ChildSpec("large", Obedient, (large,)))
        team.submit(0, "k", ("arguments", None))
        assert collect(team)[0].value == (large,)

    def test_shared_memory_in_arguments_is_the_same_memory(self, make_team):
        block = SharedBlock({"shared": ((4,), np.float64)})
        team = make_team(spec=lambda number: ChildSpec("writer", Writer, ({"inside": [block]},)))
        team.submit(0, "k", (2, 42.0))
        collect(team)
        assert block["shared"][2] == 42.0

    def test_messages_longer_than_a_pipe_in_both_directions(self, make_team):
        team = make_team()
        long = b"x" * 5_000_000
        for key in range(4):
            team.submit(0, key, ("echo", long))
        assert all(event.value == long for event in collect(team, 4))

    def test_no_descriptor_is_left_behind(self, make_team):
        make_team(size=2).stop()  # the fork server keeps some of its own
        gc.collect()
        before = descriptors()
        for _ in range(3):
            team = make_team(size=2)
            team.submit(0, "k", ("die at", 1))
            collect(team)
            team.submit(0, "k", ("echo", 1))
            collect(team)
            team.stop()
        del team
        gc.collect()
        assert descriptors() <= before

    def test_random_deaths_lose_no_order(self, make_team):
        """Every order is answered in the end, if its owner submits again what comes back."""
        rng = np.random.default_rng(0)
        team = make_team(size=2, limit=1000)
        left = {(worker, number) for worker in range(2) for number in range(60)}
        for worker, number in sorted(left):
            team.submit(worker, number, ("echo", number))
        answers = {}
        while left:
            if rng.random() < 0.3 and (pids := list(team.pids.values())):
                with suppress(ProcessLookupError):  # it may have died of the last one just now
                    os.kill(pids[rng.integers(len(pids))], signal.SIGKILL)
            team.wait(0.5)
            for event in team.events():
                if isinstance(event, Answered):
                    assert (event.worker, event.key) in left, "answered twice"
                    left.discard((event.worker, event.key))
                    answers[event.worker, event.key] = event.value
                else:
                    for key in event.keys:
                        team.submit(event.worker, key, ("echo", key))
        assert all(value == number for (_, number), value in answers.items())


class Writer:
    """Writes into shared memory."""

    def __init__(self, context, parts):
        self.context, self.block = context, parts["inside"][0]

    def obey(self, key, order):
        self.block["shared"][order[0]] = order[1]
        self.context.answer(key, None)

    def idle(self):
        return None

    def close(self):
        pass
