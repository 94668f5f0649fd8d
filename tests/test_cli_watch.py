"""`abreast watch`: what a user asks of a run in another terminal, and the page it prints the address of."""

import re
import signal
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from abreast.cli import run
from abreast.cli import watch as cli_watch
from abreast.control import condition_of
from forked_commands import Command

pytestmark = pytest.mark.xdist_group("forked commands")

TRAIN = ["train", "treasurehunt", "experiment.epochs=100000", "experiment.max_turns=5", "model.hidden_size=16"]
TRAIN += ["model.batch_size=8", "--agents", "2", "--no-animate", "--output", "run"]
ROLLOUT = ["rollout", "Bandit", "es_manager.use_multiprocessing=false", "--episodes", "1000000", "--output", "run"]
FOLDER = Path("run")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ask(request):
    assert run(["watch", "run", "--ask", request]) == 0


def paused(arguments, file):
    """A run that was begun and then paused."""
    command = Command(arguments)
    command.wait_for_lines(FOLDER / file, 3)
    ask("pause")
    while condition_of(FOLDER) != "paused":
        time.sleep(0.01)
    return command


def test_a_run_that_is_paused_is_ended_by_ctrl_c_with_a_checkpoint(capsys):
    command = paused(TRAIN, "metrics.jsonl")
    assert capsys.readouterr().out == "run was asked (pause): it does so between two passes, or episodes.\n"
    epochs = len((FOLDER / "metrics.jsonl").read_text().splitlines())
    code, said, err = command.end(signal.SIGINT)
    assert code == 130 and said.startswith(f"Stopped after {epochs} epochs; "), err
    assert f"Paused after {epochs} epochs, as asked. To go on: abreast watch run --ask go_on" in err
    assert [path.name for path in (FOLDER / "checkpoints").iterdir()] == [f"epoch_{epochs:06d}"]
    assert run(["watch", "run", "--ask", "go_on"]) == 2
    assert capsys.readouterr().err == "abreast: nothing can be asked of run (here: go_on): no run is under way there.\n"


def test_a_run_that_is_stopped_by_request_says_so_and_how_to_go_on(monkeypatch, capsys):
    def stop_after_two(requests):
        requests.is_stopped = (FOLDER / "metrics.jsonl").read_text().count("\n") == 2
        return False

    monkeypatch.setattr("abreast.control.Requests.look", stop_after_two)
    assert run(TRAIN) == 0
    told = "what was learned until then is in run. To go on: abreast train --resume run"
    assert capsys.readouterr().out == f"The run was asked to stop. Stopped after 2 epochs; {told}\n"


def test_a_rollout_begins_no_episode_while_it_is_paused_and_stops_between_episodes():
    command = paused(ROLLOUT, "trajectories.jsonl")
    ask("stop")
    code, said, err = command.wait()
    lines = (FOLDER / "trajectories.jsonl").read_text().splitlines()
    assert code == 0 and f"Stopped after {len(lines):,} episodes (by request); these are kept. To go on: " in said, err
    assert "Paused as asked" in err and "Stops as asked" in err
    assert run(["rollout", "--resume", "run", "--episodes", str(len(lines) + 2)]) == 0
    assert len((FOLDER / "trajectories.jsonl").read_text().splitlines()) == len(lines) + 2


def test_the_page_is_at_the_address_that_is_printed_until_ctrl_c():
    FOLDER.mkdir()
    (FOLDER / "config.yaml").touch()
    command = Command(["watch", "run"])
    command.wait_for_lines(Path("stdout"), 2)
    printed = Path("stdout").read_text()
    host, port, path = re.search(r"http://(.*):(\d+)(/\?token=\S+)", printed).groups()
    connection = HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", path)
    assert connection.getresponse().status == 200
    code, said, err = command.end(signal.SIGINT)
    assert (code, said, err) == (130, printed, "")


@pytest.mark.parametrize(
    ("is_terminal", "display", "more", "opens"),
    [(True, ":0", [], True), (True, ":0", ["--no-browser"], False), (True, "", [], False), (False, ":0", [], False)],
)
def test_a_browser_is_opened_only_where_it_has_a_window(is_terminal, display, more, opens, monkeypatch):
    opened = []

    class Terminal:
        is_terminal = property(lambda self: is_terminal)
        print = staticmethod(lambda text: None)

    FOLDER.mkdir()
    (FOLDER / "config.yaml").touch()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(cli_watch, "out", Terminal())
    monkeypatch.setattr(cli_watch.webbrowser, "open", opened.append)
    monkeypatch.setattr(cli_watch.LiveView, "serve_forever", lambda self: None)
    assert run(["watch", "run", *more]) == 0
    assert [url.partition("token")[0][:17] for url in opened] == ["http://127.0.0.1:"] * opens
