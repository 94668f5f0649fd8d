"""Children that are processes: what only they can do."""

import gc
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import abreast
from abreast.errors import WorkerError
from abreast.processes.backend import NOWHERE, ChildSpec
from abreast.processes.fork_server import FORK_SERVER
from abreast.processes.memory import SharedBlock
from abreast.processes.team import Answered, Died
from processes.teams import collect, descriptors
from processes.workers import Obedient, Slow


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

    def test_one_that_is_killed_at_its_start_is_replaced_if_it_is_not_waited_for(self, make_team):
        team = make_team(spec=lambda number: ChildSpec("slow", Slow), start=False)
        team.start(wait=False)
        team.submit(0, "k", ("echo", 1))
        while 0 not in team.pids:
            time.sleep(0.01)
        os.kill(team.pids[0], signal.SIGKILL)
        (died,) = collect(team)
        assert "could not start: SIGKILL" in died.cause and died.keys == ("k",)
        team.submit(0, "k", ("echo", 2))
        assert collect(team) == [Answered(0, "k", 2, True)]

    def test_one_that_ends_by_itself_at_its_start_is_an_error(self, make_team):
        team = make_team(spec=lambda number: ChildSpec("leaver", Leaver), start=False)
        team.start(wait=False)
        with pytest.raises(WorkerError, match="leaver could not start: exit code 3"):
            collect(team)

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
        os.kill(FORK_SERVER.pid, signal.SIGKILL)
        (died,) = collect(team)
        end = time.monotonic() + 2  # the kernel takes a moment to clear away what runs no more
        while _runs(pid) and time.monotonic() < end:
            time.sleep(0.01)
        assert died.keys == ("k",) and not _runs(pid)
        team.submit(0, "k", ("echo", 1))
        assert collect(team)[0].value == 1

    def test_a_stopped_fork_server_goes_on_when_it_is_needed(self, make_team):
        team = make_team()
        os.kill(FORK_SERVER.pid, signal.SIGSTOP)
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


class TestTheForkServer:
    """What children are forked from, in programs of their own."""

    def test_it_imports_where_its_program_does_while_nobody_waits(self, tmp_path):
        printed = program(tmp_path, FORKING)
        assert float(printed["started after"]) < 1 and printed["imported by the fork server"] == "True"

    def test_its_program_may_end_before_it_is_ready(self, tmp_path):
        began = time.monotonic()
        assert program(tmp_path, FORKING.partition("team.submit")[0]) == {}
        assert time.monotonic() - began < 20

    def test_its_environment_is_that_of_its_program(self, tmp_path):
        printed = program(tmp_path, FORKING)
        assert printed["environment"] == "[]" and printed["path"] == "True"


def program(folder, text):
    """What a program prints, by name. It finds a module that takes long to import through `sys.path` alone."""
    (folder / "inside").mkdir(exist_ok=True)
    (folder / "inside" / "slow_import.py").write_text("import os, time\ntime.sleep(2)\nIMPORTED_BY = os.getpid()\n")
    (folder / "inside" / "work.py").write_text(WORK)
    tests = str(Path(__file__).parent.parent)
    (folder / "program.py").write_text(
        text.format(tests=tests, inside=str(folder / "inside"), path=[str(Path(abreast.__file__).parent.parent)])
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return dict(line.split(": ") for line in done.stdout.splitlines())


WORK = """
import os, sys

class Work:
    def __init__(self, context):
        self.context = context

    def obey(self, key, order):
        import slow_import
        names = [name for name in os.environ if name in ("PYTHONPATH", "ABREAST_PRELOADING")]
        self.context.answer(key, (slow_import.IMPORTED_BY != os.getpid(), names, sys.path))

    def idle(self):
        return None

    def close(self):
        pass
"""
FORKING = """
import sys, time
sys.path[:0] = [{inside!r}, {tests!r}, *{path!r}]
from abreast.processes.backend import ChildSpec
from abreast.processes.process import ProcessBackend
from abreast.processes.team import RestartPolicy, Team
from work import Work

backend = ProcessBackend(preload=["slow_import"])
began = time.perf_counter()
backend.warm_up()
team = Team(backend, lambda number: ChildSpec("work", Work), 1, RestartPolicy(0, 30.0))
team.start(wait=False)
team.submit(0, "k", None)
print("started after:", time.perf_counter() - began)
while not (events := team.events()):
    team.wait()
there, names, path = events[0].value
print("imported by the fork server:", there)
print("environment:", names)
print("path:", path == sys.path)
team.stop()
"""


class Leaver(Obedient):
    """Ends its process while it starts."""

    def __init__(self, context):
        os._exit(3)


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
