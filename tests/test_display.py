"""What all displays share: what is drawn and printed, what is said of a long wait, stacks on SIGUSR1."""

import io
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from rich.console import Console

from abreast import display as module
from abreast.display import NORMAL, QUIET, VERBOSE, Display, Row, Shown, memory_in_use, set_volume
from abreast.files import logged_to

log = logging.getLogger("abreast")


class Counted(Display):
    """Shows what it is told."""

    agents, done = 2, 1

    def figures(self):
        rows = [Row(f"agent {agent}", float(agent), ["loss 0.5"]) for agent in range(self.agents)]
        return Shown("epoch", self.done, 10, 3700.0, ["7 steps/s"], rows, ["all of them"])


@pytest.fixture(autouse=True)
def normal_volume():
    yield
    set_volume(NORMAL)


@pytest.fixture
def soon(monkeypatch):
    """What is silent is told at once."""
    monkeypatch.setattr(module, "SILENT_S", 0.01)
    monkeypatch.setattr(module, "LOOK_S", 0.01)


def drawn(display, width=80, height=24):
    display.console = Console(width=width, height=height, file=io.StringIO())
    display.console.print(display.draw())
    return display.console.file.getvalue().splitlines()


def wait_until(has_happened):
    end = time.monotonic() + 10
    while not has_happened():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("width", [80, 140])
def test_agents_that_have_no_line_are_told_in_one(width):
    display = Counted()
    display.agents = 100
    head, *rows, rest, below = drawn(display, width, height=12)
    assert head.startswith("epoch 1 of 10  ━━─") and "  1:01:40 left  7 steps/s  " in head
    assert len(rows) == 8 and rows[7].split()[:3] == ["agent", "7", "7.0"] and below == "all of them"
    assert rest == "92 more"
    assert all(len(line) <= width for line in (head, *rows, rest))
    assert len(drawn(display, width, height=200)) == 102


def test_what_cannot_be_drawn_is_logged_once_and_the_run_goes_on(caplog):
    display = Counted()
    display.figures = lambda: 1 / 0
    with caplog.at_level(logging.INFO, "abreast"):
        assert drawn(display) == drawn(display)
    assert [record.message for record in caplog.records] == ["the display cannot be drawn; the run goes on"]


def test_a_long_wait_is_never_silent(capsys, soon):
    learners = SimpleNamespace(team=SimpleNamespace(at_work=["learner 2 of agents 1, 3"], restarts=1))
    with Counted() as display:
        display.now("epoch 4 is being learned from", learners)
        wait_until(lambda: "epoch 4 is" in capsys.readouterr().err)
        assert drawn(display)[-1] == "epoch 4 is being learned from, at work: learner 2 of agents 1, 3 (0 s)"
        assert "  1 restart" in drawn(display, 140)[0]
        module.SILENT_S = 60.0
        display.ended(1, 10)
        assert drawn(display)[-1] == "all of them"


def test_memory_is_that_of_this_process_and_of_those_below_it(tmp_path):
    before = memory_in_use()
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        block = bytearray(os.urandom(1 << 20)) * 64
        os.write(there, b"there")
        signal.pause()
        os._exit(len(block) % 2)
    os.read(here, 5)
    both = memory_in_use()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert both - before > 60 << 20 and memory_in_use() < both - (60 << 20)
    assert memory_in_use("0") == 0


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (QUIET, ["error: it is over"]),
        (
            NORMAL,
            [
                "warning: look",
                "epoch 1/10  all of them  agent 0 0.0 loss 0.5  agent 1 1.0 loss 0.5  7 steps/s  1:01:40 left",
                "error: it is over",
            ],
        ),
        (VERBOSE, ["INFO main: begun", "WARNING main: look", "epoch 1/10", "ERROR main: it is over"]),
    ],
)
def test_quiet_has_errors_alone_and_verbose_all_lines_with_their_process(volume, expected, capsys):
    set_volume(volume)
    with Counted() as display:
        log.info("begun")
        log.warning("look")
        display.ended(1, 10)
        log.error("it is over")
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == len(expected) and all(part in line for part, line in zip(expected, printed, strict=True))


def test_sigusr1_has_the_stacks_of_threads_and_workers_written_and_the_run_goes_on(capsys, soon, tmp_path):
    workers = SimpleNamespace(at_work=[], restarts=0, stacks=lambda: {"actor 1": "  File actor.py, in play\n"})
    path = tmp_path / "log.txt"
    with logged_to(path), Counted() as display:
        display.now("epoch 0 is being played", SimpleNamespace(team=workers))
        os.kill(os.getpid(), signal.SIGUSR1)
        wait_until(lambda: "SIGUSR1: log.txt has the stacks of all threads and workers." in capsys.readouterr().err)
    threads, _, rest = path.read_text().partition("SIGUSR1: actor 1 is at:\n  File actor.py, in play")
    assert "test_sigusr1_has" in threads and "log.txt has the stacks" in rest
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


def test_a_program_that_handles_sigusr1_itself_keeps_its_handler(monkeypatch):
    own = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: own.set())
    try:
        with Counted():
            os.kill(os.getpid(), signal.SIGUSR1)
        assert own.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_reader_that_has_gone_ends_nothing(monkeypatch):
    """`abreast train … 2>&1 | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stderr", pipe)
        with Counted() as display:
            for _ in range(3):
                display.print("nobody reads this")
            log.warning("nor this")
        monkeypatch.undo()
        with suppress(BrokenPipeError):
            pipe.close()
