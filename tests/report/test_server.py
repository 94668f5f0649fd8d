"""The server of the live view: who may ask, what is answered, and one sentence for all that cannot be."""

import json
import shutil
import threading
from http.client import HTTPConnection

import pytest

from abreast import control
from abreast.control import Requests
from abreast.errors import ConfigError, RunFolderError
from abreast.files import locked
from abreast.report import server
from abreast.report.server import LiveView


@pytest.fixture
def run(tmp_path):
    """The folder of a run that has ended."""
    folder = tmp_path / "run"
    (folder / "replays").mkdir(parents=True)
    (folder / "config.yaml").write_text("game: treasurehunt")
    (folder / "metrics.jsonl").write_text('{"epoch": 0, "reward": 1.0}\n')
    (folder / "replays/epoch_000000.gif").write_bytes(b"GIF89a")
    return folder


@pytest.fixture
def view(run, monkeypatch):
    monkeypatch.setattr(server, "SHARE", 1e9)  # read whenever files have changed
    with LiveView(run) as view:
        thread = threading.Thread(target=view.serve_forever, args=(0.01,))
        thread.start()
        yield view
        view.shutdown()
        thread.join()


def request(view, path, method="GET", token=None, host=None, **headers):
    """Status, headers and body of an answer. The token is where this kind of request has it."""
    token = view.token if token is None else token
    port = view.server_address[1]
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    if method == "POST":
        headers["X-Token"] = token
    else:
        path = f"{path}?token={token}"
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}", **headers})
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def data(view):
    return json.loads(request(view, "/data.json")[2])


def test_the_page_and_what_the_run_says_are_served(view):
    status, headers, page = request(view, "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html") and b"<" in page
    assert view.url == f"http://127.0.0.1:{view.server_address[1]}/?token={view.token}"
    status, _, body = request(view, "/data.json")
    told = json.loads(body)
    assert status == 200 and told["condition"] == "ended"
    assert [(run["kind"], run["epochs"]) for run in told["runs"]] == [("training", 1)]
    assert request(view, "/film/epoch_000000.gif")[2] == b"GIF89a"


@pytest.mark.parametrize("path", ["/", "/data.json", "/film/epoch_000000.gif", "/control/stop"])
@pytest.mark.parametrize(
    ("harm", "says"),
    [
        ({"token": ""}, "the token is missing or wrong"),
        ({"token": "wrong"}, "the token is missing or wrong"),
        ({"token": "%C3%A9"}, "the token is missing or wrong"),
        ({"host": "abreast.example:80"}, "'abreast.example' is no name of"),
        ({"host": "127.0.0.1.example"}, "'127.0.0.1.example' is no name of"),
    ],
)
def test_who_does_not_know_the_token_or_asks_under_another_name_is_refused(view, path, harm, says):
    status, headers, body = request(view, path, "POST" if "control" in path else "GET", **harm)
    told = body.decode()
    assert status == 403 and says in told and told.endswith("`abreast watch` has printed.") and view.token not in told
    assert headers["Content-Type"].startswith("text/plain")


def test_a_page_that_was_forwarded_through_another_port_is_served(view):
    assert request(view, "/", host="localhost:9999")[0] == 200


def test_a_form_of_another_site_asks_nothing_of_the_run(view):
    path = f"/control/stop?token={view.token}"  # a form can send this, but no header of its own
    assert request(view, path, "POST", token="")[0] == 403
    assert request(view, "/control/stop")[0] == 404  # nor can a picture


@pytest.mark.parametrize(
    "name", ["../config.yaml", "../other.png", "..%2fother.png", "%2e%2e/other.png", "link.gif", "films.json", ""]
)
def test_nothing_but_films_of_the_run_is_served(view, run, name):
    (run / "replays/films.json").write_text("{}")
    (run / "replays/link.gif").symlink_to(run / "config.yaml")
    (run / "other.png").touch()
    status, _, body = request(view, f"/film/{name}")
    assert status == 404 and "there is nothing of this name" in body.decode()


def test_data_is_read_again_only_where_files_have_changed(view, run, monkeypatch):
    with monkeypatch.context() as unread:
        unread.setattr(server, "read_run", None)
        assert data(view)["runs"][0]["epochs"] == 1
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 1, "reward": 1.0}\n{"ep')
    assert data(view)["runs"][0]["epochs"] == 2


def test_long_runs_are_read_seldom(view, run, monkeypatch):
    monkeypatch.setattr(server, "SHARE", 1e-9)
    (run / "metrics.jsonl").write_text('{"epoch": 0}\n{"epoch": 1}\n')
    assert data(view)["runs"][0]["epochs"] == 2
    (run / "metrics.jsonl").write_text("")
    assert data(view)["runs"][0]["epochs"] == 2


def test_what_is_asked_in_the_page_reaches_the_run_and_is_seen_there(view, run, monkeypatch):
    monkeypatch.setattr(control, "LOOK_S", 0.0)
    monkeypatch.setattr(server, "SHARE", 1e-9)  # how the run is, is seen at once
    with locked(run), Requests(run) as requests:
        assert request(view, "/control/pause?a=query", "POST")[::2] == (200, b"")
        assert not requests.look() and requests.is_paused
        assert data(view)["condition"] == "paused"
    status, _, body = request(view, "/control/go_on", "POST")
    assert status == 409 and "no run is under way there" in body.decode()
    status, _, body = request(view, "/control/pose", "POST")
    assert status == 409 and "did you mean 'pause'" in body.decode()


def test_a_folder_that_disappears_is_told_and_found_again(view, run, tmp_path):
    shutil.move(run, tmp_path / "moved")
    status, _, body = request(view, "/data.json")
    assert status == 404 and "run is no run folder: No such file or directory." in body.decode()
    assert request(view, "/")[0] == 200
    shutil.move(tmp_path / "moved", run)
    assert request(view, "/data.json")[0] == 200


def test_a_fault_of_ours_is_told_in_the_page(view, run, monkeypatch):
    def fail(folder):
        raise ValueError("<b>")

    monkeypatch.setattr(server, "read_run", fail)
    (run / "log.txt").touch()
    status, headers, body = request(view, "/data.json")
    assert status == 500 and body.decode() == "the run folder cannot be read: ValueError: <b>."
    assert headers["Content-Type"].startswith("text/plain") and headers["X-Content-Type-Options"] == "nosniff"


def test_a_port_in_use_and_a_folder_that_is_no_run_are_refused(view, run, tmp_path):
    with pytest.raises(
        ConfigError,
        match=r"port \d+ cannot be used \(Address already in use\): give another --port, or none for any that is free\.",
    ):
        LiveView(run, view.server_address[1])
    for no_run in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RunFolderError, match="is no run folder"):
            LiveView(no_run)
