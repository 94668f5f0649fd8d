"""Children that are processes: what only they can do."""

import gc
import os
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import abreast
from abreast.errors import WorkerError
from abreast.files import logged_to
from abreast.processes.backend import NOWHERE, ChildSpec
from abreast.processes.fork_server import FORK_SERVER, ForkServer
from abreast.processes.memory import SharedBlock
from abreast.processes.process import ProcessBackend
from abreast.processes.team import Answered, Died
from processes.teams import collect, descriptors
from processes.workers import Obedient, Slow


def _state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _runs(pid):
    try:
        return _state(pid) != "Z"
    except OSError:
        return False


@pytest.fixture
def fork_server(monkeypatch):
    """One that imports nothing, beside that of all tests."""
    server = ForkServer()
    for module in ("fork_server", "process"):
        monkeypatch.setattr(f"abreast.processes.{module}.FORK_SERVER", server)
    yield server
    os.kill(server.pid, signal.SIGKILL)


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

    def test_one_that_is_killed_at_its_start_is_replaced_if_it_is_not_waited_for(self, make_team, tmp_path):
        gate = tmp_path / "gate"
        team = make_team(spec=lambda number: ChildSpec("slow", Slow, (gate,)), start=False)
        team.start(wait=False)
        team.submit(0, "k", ("echo", 1))
        while 0 not in team.pids:
            time.sleep(0.01)
        os.kill(team.pids[0], signal.SIGKILL)
        (died,) = collect(team)
        assert "could not start: SIGKILL" in died.cause and died.keys == ("k",)
        gate.touch()
        team.submit(0, "k", ("echo", 2))
        assert collect(team) == [Answered(0, "k", 2, True)]

    def test_one_that_ends_by_itself_at_its_start_is_an_error(self, make_team):
        team = make_team(spec=lambda number: ChildSpec("leaver", Leaver), start=False)
        team.start(wait=False)
        with pytest.raises(WorkerError, match="leaver could not start: exit code 3"):
            collect(team)

    def test_a_stopped_process_is_killed(self, make_team):
        team = make_team(silence_s=0.3)
        os.kill(team.pids[0], signal.SIGSTOP)
        team.submit(0, "k", ("echo", 1))
        (died,) = collect(team)
        assert died.silent
        team.submit(0, "k", ("echo", 1))
        assert collect(team)[0].value == 1

    def test_a_process_goes_on_when_its_fork_server_has_died_and_the_next_comes_from_another(
        self, make_team, fork_server
    ):
        team = make_team()
        pid, server = team.pids[0], fork_server.pid
        os.kill(server, signal.SIGKILL)
        team.submit(0, "k", ("echo", 1))
        assert collect(team) == [Answered(0, "k", 1, True)] and team.pids[0] == pid
        os.kill(pid, signal.SIGSTOP)  # it cannot notice by itself that it is not wanted
        team.submit(0, "k", ("echo", 2))
        team.kill()
        end = time.monotonic() + 2  # the kernel takes a moment to clear away what runs no more
        while _runs(pid) and time.monotonic() < end:
            time.sleep(0.01)
        assert not _runs(pid)
        other = make_team()
        other.submit(0, "k", ("die at", 1))
        assert "SIGKILL" in collect(other)[0].cause and fork_server.pid != server

    def test_a_death_is_noticed_though_a_process_that_it_has_forked_lives_on(self, make_team):
        team = make_team(spec=lambda number: ChildSpec("parent", Forker))
        team.submit(0, "k", None)
        (answered, died) = collect(team, 2)
        assert "SIGKILL" in died.cause
        os.kill(answered.value, signal.SIGKILL)

    def test_a_stopped_fork_server_goes_on_when_it_is_needed(self, make_team):
        team = make_team()
        while _state(FORK_SERVER.pid) != "S":  # it closes its copy of the child's socket, which would hide a death
            time.sleep(0.01)
        os.kill(FORK_SERVER.pid, signal.SIGSTOP)
        os.kill(team.pids[0], signal.SIGKILL)
        team.submit(0, "k", ("echo", 1))
        collect(team)
        team.submit(0, "k", ("echo", 1))
        assert collect(team)[0].value == 1

    @pytest.mark.parametrize("has_memfd", [True, False])
    def test_a_hang_is_reported_with_its_stack(self, make_team, has_memfd, monkeypatch):
        if not has_memfd:  # as on macOS
            monkeypatch.delattr(os, "memfd_create")
        team = make_team(silence_s=0.3)
        team.submit(0, "k", ("hang at", 3))
        (died,) = collect(team)
        assert died.at == 3 and "workers.py" in died.cause

    def test_what_a_child_logs_is_in_the_log_of_its_program_under_its_name_though_it_is_killed(
        self, make_team, tmp_path
    ):
        with logged_to(tmp_path / "log.txt"):
            team = make_team(spec=lambda number: ChildSpec("learner 1 of agents 1, 3", Obedient), limit=0)
            team.submit(0, "k", ("log and die", "look at this"))
            collect(team)
        first, *_ = (tmp_path / "log.txt").read_text().splitlines()
        assert first.endswith(" WARNING learner 1: look at this")

    def test_a_worker_that_is_at_work_is_named_and_shows_where_it_is_as_often_as_it_is_asked(self, make_team, tmp_path):
        team = make_team()
        assert team.at_work == []
        team.submit(0, "k", ("wait for", tmp_path / "gate"))
        with ThreadPoolExecutor() as thread:
            answers = thread.submit(collect, team)
            assert team.at_work == ["worker 0"]
            while "in wait_for" not in (stack := next(iter(team.stacks().values()))):  # it has begun
                assert stack.count("Current thread") <= 1
            (again,) = team.stacks().values()
            assert again.count("Current thread") == 1 and "in wait_for" in again
            (tmp_path / "gate").touch()
            assert answers.result()[0].value == "awake"

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


@pytest.mark.parametrize("method", ["forkserver", "spawn", "fork"])
class TestStartMethods:
    """However a process is started, its end is known."""

    def test_exit_codes_and_signals_are_told(self, method, request):
        before = signal.signal(
            signal.SIGTERM, lambda *_: None
        )  # of the program; a child that is forked from it has none
        request.addfinalizer(lambda: signal.signal(signal.SIGTERM, before))
        child = ProcessBackend(method).start(0, ChildSpec("leaver", Leaver), lambda: None)
        with pytest.raises(EOFError):
            receive(child)
        assert child.cause_of_death() == "exit code 3" and not child.was_killed and not child.is_alive
        child.kill()
        child = ProcessBackend(method).start(0, ChildSpec("worker", Obedient), lambda: None)
        receive(child)
        os.kill(child.pid, signal.SIGTERM)
        with pytest.raises(EOFError):
            receive(child)
        assert child.cause_of_death() == "SIGTERM" and child.was_killed
        child.kill()

    def test_it_reads_nothing_from_the_terminal_and_ignores_interrupts(self, method):
        child = ProcessBackend(method).start(0, ChildSpec("worker", Reader), lambda: None)
        receive(child)
        os.kill(child.pid, signal.SIGINT)
        child.send(("k", None))
        assert receive(child) == [("k", b"", True)]
        child.kill()
        assert not child.is_alive


def receive(child):
    while not (messages := child.receive()):
        assert select.select(child.fds, [], [], 60)[0]
    return messages


class TestTheForkServer:
    """What children are forked from, in programs of their own."""

    def test_ctrl_c_and_a_module_that_cannot_be_imported_do_it_no_harm(self, tmp_path):
        (tmp_path / "inside").mkdir()
        (tmp_path / "inside" / "broken.py").write_text("raise ImportError('no such device')")
        interrupted = FORKING.replace('["slow_import"]', '["broken", "slow_import"]').replace(
            "backend.warm_up()", "backend.warm_up(); import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
            "; os.killpg(0, signal.SIGINT)"
        )  # fmt: skip
        assert program(tmp_path, interrupted, start_new_session=True)["imported by the fork server"] == "True"

    def test_nothing_is_left_when_all_are_killed(self, tmp_path):
        (tmp_path / "temporary").mkdir()
        text = FORKING.partition("print(")[0] + KILLING
        done = run_program(tmp_path, text, TMPDIR=str(tmp_path / "temporary"))
        assert done.returncode == -signal.SIGKILL and done.stderr == ""
        pids = [int(pid) for pid in done.stdout.split()]
        assert len(pids) == 2
        limit = time.monotonic() + 20  # the program does not wait for those it has killed
        while any(_runs(pid) for pid in pids):
            assert time.monotonic() < limit
            time.sleep(0.01)
        assert list((tmp_path / "temporary").iterdir()) == []

    def test_it_imports_where_its_program_does_while_nobody_waits(self, tmp_path):
        printed = program(tmp_path, FORKING)
        assert printed["imported by the fork server"] == "True" and printed["started before"] == "True"
        assert printed["environment"] == "[]" and printed["path"] == "True"  # as those of its program

    def test_its_program_may_end_before_it_is_ready(self, tmp_path):
        assert program(tmp_path, FORKING.partition("team.submit")[0]) == {}  # the gate is never opened


def program(folder, text, **settings):
    """What a program prints, by name."""
    done = run_program(folder, text, **settings)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return dict(line.split(": ") for line in done.stdout.splitlines())


def run_program(folder, text, start_new_session=False, **variables):
    """Runs a program, which finds a module through `sys.path` alone; its import ends when there is a file `gate`."""
    (folder / "inside").mkdir(exist_ok=True)
    (folder / "inside" / "slow_import.py").write_text(SLOW_IMPORT)
    (folder / "inside" / "work.py").write_text(WORK)
    tests = str(Path(__file__).parent.parent)
    (folder / "program.py").write_text(
        text.format(tests=tests, inside=str(folder / "inside"), path=[str(Path(abreast.__file__).parent.parent)])
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        start_new_session=start_new_session,
    )


SLOW_IMPORT = """
import os, time
from pathlib import Path

while not Path("gate").exists():
    time.sleep(0.005)
IMPORTED_BY = os.getpid()
"""
WORK = """
import os, sys

class Work:
    def __init__(self, context):
        self.context = context

    def obey(self, key, order):
        import slow_import
        names = [name for name in os.environ if name == "PYTHONPATH" or "ABREAST" in name]
        self.context.answer(key, (slow_import.IMPORTED_BY != os.getpid(), names, sys.path))

    def idle(self):
        return None

    def close(self):
        pass
"""
FORKING = """
import sys
from pathlib import Path
sys.path[:0] = [{inside!r}, {tests!r}, *{path!r}]
from abreast.processes.backend import ChildSpec
from abreast.processes.process import ProcessBackend
from abreast.processes.team import RestartPolicy, Team
from work import Work

backend = ProcessBackend(preload=["slow_import"])
backend.warm_up()
team = Team(backend, lambda number: ChildSpec("work", Work), 1, RestartPolicy(0, 30.0))
team.start(wait=False)
team.submit(0, "k", None)
print("started before:", not Path("gate").exists())
Path("gate").touch()
while not (events := team.events()):
    team.wait()
there, names, path = events[0].value
print("imported by the fork server:", there)
print("environment:", names)
print("path:", path == sys.path)
team.stop()
"""


KILLING = """
import os, signal
from abreast.processes.fork_server import FORK_SERVER
Path("gate").touch()
while not (pids := list(team.pids.values())):
    team.wait(0.01)
print(FORK_SERVER.pid, *pids, flush=True)
for pid in [*pids, FORK_SERVER.pid, os.getpid()]:
    os.kill(pid, signal.SIGKILL)
"""


class Leaver(Obedient):
    """Ends its process while it starts."""

    def __init__(self, context):
        os._exit(3)


class Reader(Obedient):
    """Reads its standard input."""

    def obey(self, key, order):
        self.context.answer(key, os.read(0, 10))


class Forker(Obedient):
    """Is killed while a process that it has forked lives."""

    def obey(self, key, order):
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        self.context.answer(key, pid, last=False)
        os.kill(os.getpid(), signal.SIGKILL)


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
