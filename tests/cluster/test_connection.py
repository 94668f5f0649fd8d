"""How a program gets its cluster, what is refused, and that a Ray of its own leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from abreast.cluster import connection
from abreast.cluster.config import ClusterConfig
from abreast.cluster.connection import Connection
from abreast.cluster.host import node_facts
from abreast.errors import ConfigError
from guard import running
from nodes import nodes
from promises.cover import IS_FULL

pytestmark = pytest.mark.xdist_group("ray")
TESTS = Path(__file__).parent.parent
PROGRAM = """
import sys
from fakes import small_game

if __name__ == "__main__":
    env = small_game(
        "model.algorithm=dqn", "experiment.epochs=" + sys.argv[1], "multiprocessing.workers=ray",
        "multiprocessing.num_workers=1", "multiprocessing.cluster={address: local, workers_here: 0}",
    )

    class Says:
        def record_epoch(self, epoch, *_, **__):
            print("epoch", epoch, flush=True)

    env.run_experiment_mp(animate=False, logging=False, logger=Says())
"""


@pytest.fixture(scope="module")
def joined():
    """The connection to the nodes."""
    return connection.connect(ClusterConfig(address=nodes().address))


def refused(address, timeout=5.0):
    with pytest.raises(ConfigError) as error:
        Connection(ClusterConfig(address=address, start_timeout=timeout))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_ray_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert 'pip install "abreast[ray]"' in refused("local")


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379", "6379", "host:port", "127.0.0.1:99999999"])
def test_an_address_that_answers_nothing(address, monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra abreast[ray] is not installed")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    assert f"the cluster at {address} does not answer" in refused(address)


@pytest.mark.parametrize(("says", "told"), [(b"", "timed out"), (b"220 mail.example\r\n", "what is there is no Ray")])
def test_what_answers_is_no_ray(says, told, monkeypatch):
    """Ray itself would wait for minutes for what accepts a connection and is silent."""
    ray = pytest.importorskip("ray", reason="the extra abreast[ray] is not installed")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked to join it"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        if says:
            threading.Thread(target=lambda: server.accept()[0].send(says)).start()
        assert told in refused(f"127.0.0.1:{server.getsockname()[1]}", timeout=1.0)


def test_what_ray_says_of_a_cluster_that_cannot_be_joined_is_passed_on(joined, monkeypatch):
    address = nodes().address

    def fail(**_):
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1.0\n    Python: 3.9.0\n")

    monkeypatch.setattr(joined.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(joined.ray, "init", fail)
    told = refused(address)
    assert "no cluster that can be joined: Version mismatch: The cluster was started with: Ray: 2.1.0 Python:" in told


def test_auto_is_the_cluster_that_ray_start_has_noted(joined, monkeypatch, tmp_path, caplog):
    """Not one that runs here for another program alone, as the nodes of these tests do."""
    started, there = [], nodes().address
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setattr(joined.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(joined.ray, "init", lambda address, **_: started.append(address))
    Connection(ClusterConfig())
    assert "one is started here, for this program alone" in caplog.text
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(there)
    Connection(ClusterConfig())
    assert started == ["local", there]


def test_a_node_that_is_not_like_this_one(joined, caplog):
    """Other rounding is named; another version of abreast or of Python is refused."""
    like = {**node_facts(), "node": "far"}
    joined.note_node(like)
    assert not caplog.records
    joined.note_node({**like, "node": "older", "cpu": "x86_64 avx2"})
    assert "results may be rounded otherwise on node older: cpu is x86_64 avx2 there" in caplog.text
    with pytest.raises(ConfigError, match=r"node other has abreast 9.9, but this machine .*: install the same"):
        joined.note_node({**like, "node": "other", "abreast": "9.9"})


@pytest.mark.parametrize("end", ["by itself", signal.SIGINT, signal.SIGKILL] if IS_FULL else [signal.SIGKILL])
def test_a_local_ray_leaves_nothing_behind(end):
    pytest.importorskip("ray", reason="the extra abreast[ray] is not installed")
    with tempfile.TemporaryDirectory() as folder:  # those of pytest have names that are too long for sockets
        check_leftovers(end, Path(folder))


def check_leftovers(end, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    paths = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    kept = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")  # it makes a token of its own
    env = {**{key: value for key, value in os.environ.items() if key not in kept}, "TMPDIR": str(tmp_path)}
    env |= {"PYTHONPATH": os.pathsep.join(paths), "HOME": str(tmp_path / "home")}
    before = set(Path("/dev/shm").iterdir())
    with running(
        [sys.executable, "program.py", "3" if end == "by itself" else "100000"],
        cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stdout.readline() == "epoch 0\n"
        assert len(list(tmp_path.glob("abreast_ray_*"))) == 1
        if end != "by itself":
            os.kill(program.pid, end)
        program.stdout.read()
    deadline = time.monotonic() + 120
    while (left := leftovers(tmp_path, before)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def leftovers(folder, shared_before):
    """Processes that know the folder, files of Ray's, and shared memory."""
    found = [str(each) for each in folder.glob("abreast_ray_*")] + [str(each) for each in folder.glob("home/.ray/*")]
    found += [str(each) for each in Path("/dev/shm").iterdir() if each not in shared_before]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(f"{process.name}: {command[:200]}")
    return found
