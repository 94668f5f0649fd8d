"""`abreast doctor`: what it prints, and its exit code."""

import resource

import pytest

from abreast.cli import doctor, run
from abreast.cli.doctor import LEAST, LOOKS


@pytest.fixture
def few_looks(monkeypatch):
    """Without those that import torch."""
    quick = {name: LOOKS[name] for name in ("memory", "shared memory", "limits", "disk")}
    monkeypatch.setattr(doctor, "LOOKS", quick)
    for fact in ("GB free", "GB of the group", "GB free here"):
        monkeypatch.setitem(LEAST, fact, (0.0, ""))
    monkeypatch.setattr(resource, "getrlimit", lambda which: (4096, 4096))
    return quick


def test_a_machine_that_is_fit_is_described(few_looks, capsys):
    assert run(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in few_looks) and printed.endswith("Nothing would go wrong.\n")


def test_what_would_go_wrong_is_told_with_what_to_do_and_in_the_exit_code(few_looks, monkeypatch, capsys):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256 if which == resource.RLIMIT_NOFILE else -1, 4096))
    monkeypatch.setitem(few_looks, "disk", lambda: 1 // 0)
    assert run(["doctor"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "open files 256" in printed and printed.endswith(
        "limits: open files 256: 256 requests in flight and 8 workers need about 400: raise the limit (ulimit -n 4096)."
        " disk cannot be used: ZeroDivisionError: integer division or modulo by zero."
    )
