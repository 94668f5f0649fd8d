"""What is asked of a run by another process: what was asked last is obeyed, by the session that was asked."""

import pytest

from abreast import control
from abreast.control import REQUESTS, Requests, ask, condition_of
from abreast.errors import ConfigError, RunFolderError
from abreast.files import locked


@pytest.fixture(autouse=True)
def looks_at_every_call(monkeypatch):
    monkeypatch.setattr(control, "LOOK_S", 0.0)


@pytest.fixture
def run(tmp_path):
    """The folder of a run that is under way."""
    with locked(tmp_path):
        yield tmp_path


def test_a_checkpoint_is_asked_for_once_and_what_was_asked_last_holds(run):
    with Requests(run) as requests:
        for request in REQUESTS:
            ask(run, request)
        assert requests.look() and requests.is_stopped and not requests.is_paused
        ask(run, "pause")
        assert not requests.look() and requests.is_stopped and requests.is_paused


def test_whoever_watches_sees_how_the_run_is(run):
    with Requests(run) as requests:
        seen = []
        for request in ("checkpoint", "pause", "pause", "checkpoint", "go_on", "go_on"):
            ask(run, request)
            assert requests.look() == (request == "checkpoint")
            seen.append((condition_of(run), requests.is_paused))
    running, paused = ("running", False), ("paused", True)
    assert seen == [running, paused, paused, paused, running, running]
    assert list(run.iterdir()) == [run / ".lock"]


def test_a_run_that_looks_often_does_not_look_at_the_disk_each_time(run, monkeypatch):
    monkeypatch.setattr(control, "LOOK_S", 3600.0)
    with Requests(run) as requests:
        assert not requests.look()
        ask(run, "stop")
        assert not requests.look() and not requests.is_stopped


def test_nothing_is_asked_of_a_run_that_is_over(tmp_path):
    with locked(tmp_path), Requests(tmp_path):
        assert condition_of(tmp_path) == "running"
    assert condition_of(tmp_path) == "ended"
    with pytest.raises(RunFolderError, match=r"nothing can be asked of .* \(here: stop\): no run is under way there\."):
        ask(tmp_path, "stop")
    with pytest.raises(ConfigError, match="cannot be asked for 'go on': did you mean 'go_on'"):
        ask(tmp_path, "go on")


def test_what_was_asked_of_a_session_that_was_killed_is_not_obeyed_by_the_next(tmp_path):
    with locked(tmp_path):
        killed = Requests(tmp_path).__enter__()
        ask(tmp_path, "pause")
        killed.look()
        ask(tmp_path, "stop")
    assert condition_of(tmp_path) == "ended"
    with pytest.raises(RunFolderError, match="no run is under way"):
        ask(tmp_path, "go_on")
    with locked(tmp_path), Requests(tmp_path) as requests:
        assert not requests.look() and not requests.is_paused and not requests.is_stopped
        assert condition_of(tmp_path) == "running"


def test_files_that_are_no_requests_are_not_obeyed(run):
    with Requests(run) as requests:
        for name in ("sto", "stop.part", "1-stop", "paused"):
            (run / ".control" / name).touch()
        assert not requests.look() and not requests.is_stopped and not requests.is_paused


@pytest.mark.parametrize("harm", ["link", "removed"])
def test_a_run_that_nothing_can_be_asked_of_goes_on_and_says_so(run, harm, caplog, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "file").touch()
    if harm == "link":
        (run / ".control").symlink_to(elsewhere)
    with Requests(run) as requests:
        if harm == "removed":
            ask(run, "pause")
            requests.look()
            (run / ".control").rename(elsewhere / "control")
        assert not requests.look() and not requests.is_paused
    assert caplog.text.count("this run cannot be paused or stopped by `abreast watch`") == 1
    assert (elsewhere / "file").exists()
