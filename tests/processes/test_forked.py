"""Trying things out in a copy of this process: values come back, nothing else does, whatever happens there."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from abreast.processes import forked
from abreast.processes.forked import try_apart

pytestmark = pytest.mark.skipif(not forked.CAN_FORK, reason="a process cannot be copied here")
CHANGED = []


def test_what_is_told_comes_back_and_nothing_else_has_changed(capfd):
    def work(tell):
        CHANGED.append(os.getpid())
        print("not shown")
        os.write(2, b"nor this")
        tell({"pid": os.getpid(), "text": "ä\n"})
        tell([1.5, None])

    told = try_apart(work, 5.0)
    assert told.fault is None and told.values[1] == [1.5, None] and told.values[0]["text"] == "ä\n"
    assert told.values[0]["pid"] != os.getpid() and CHANGED == []
    assert told.round_trip_s is not None and 0 < told.round_trip_s < 1.0
    assert capfd.readouterr() == ("", "")


def raises(tell):
    raise KeyError("no such thing")


def leaves(tell):
    sys.exit(3)


def crashes(tell):
    os.kill(os.getpid(), signal.SIGSEGV)


def exits_at_once(tell):
    os._exit(7)


def hangs(tell):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def says_what_is_no_json(tell):
    tell(object())


def children():
    """Those of this process; a fork server may be one of them."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.mark.parametrize(
    ("work", "fault"),
    [
        (raises, "KeyError: 'no such thing'"), (leaves, "SystemExit: 3"), (crashes, "it was ended by SIGSEGV"),
        (exits_at_once, "it ended with exit code 7"), (hangs, "it took longer than 0.3 s"),
        (says_what_is_no_json, "TypeError: Object of type object is not JSON serializable"),
    ],
)  # fmt: skip
def test_how_it_ended_is_told_and_what_was_told_before_is_kept(work, fault):
    def told_first(tell):
        tell("before")
        work(tell)

    before = children()
    told = try_apart(told_first, 0.3 if work is hangs else 5.0)
    assert (told.values, told.fault) == (["before"], fault)
    assert children() == before  # nobody is left, not even as a zombie


def test_a_process_that_cannot_be_copied_is_a_fault(monkeypatch):
    def refuse():
        raise OSError("no memory")

    monkeypatch.setattr(os, "fork", refuse)
    assert "no memory" in (try_apart(raises, 1.0).fault or "")
    monkeypatch.setattr(forked, "CAN_FORK", False)
    assert "cannot be copied" in (try_apart(raises, 1.0).fault or "")


def test_an_interrupt_meanwhile_leaves_nobody_behind(monkeypatch):
    def interrupted(pipe, pid, limit_s):
        raise KeyboardInterrupt

    monkeypatch.setattr(forked, "_listen", interrupted)
    before = children()
    with pytest.raises(KeyboardInterrupt):
        try_apart(hangs, 5.0)
    assert children() == before
