"""A Ray cluster of two nodes on this machine, as `ray start` makes them; a node can be killed and replaced."""

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from abreast.cluster.config import ClusterConfig
from abreast.cluster.connection import connect

os.environ.setdefault("RAY_AUTH_TOKEN", "of-this-suite-of-tests")  # read when Ray is imported
os.environ.setdefault("RAY_AUTH_MODE", "token")
STARTED_S = 600
"""As long as a busy machine needs; a test that uses Ray has more time."""
SOON = {"period_ms": "300", "timeout_ms": "2000", "failure_threshold": "3", "initial_delay_ms": "1000"}
SOON = {f"RAY_health_check_{name}": value for name, value in SOON.items()}
"""When the head notices that a node is lost."""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Nodes:
    """The head, on which the program is, and a second node."""

    def __init__(self, head_cpus=2, cpus=4):
        self._folder, self._cpus = tempfile.mkdtemp(prefix="nodes"), cpus
        self.address = f"127.0.0.1:{free_port()}"
        port = self.address.partition(":")[2]
        self._head = self._start(
            f"--head --port={port} --num-cpus={head_cpus} --include-dashboard=false --temp-dir={self._folder}"
        )
        self._wait_for_head()
        self.add()
        atexit.register(self.close)

    def _start(self, options):
        command = [
            str(Path(sys.executable).parent / "ray"),
            "start",
            "--block",
            "--disable-usage-stats",
            *options.split(),
        ]
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]  # nodes have what users have installed
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **SOON}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([*command, "--node-ip-address=127.0.0.1"], env=env, start_new_session=True, **quiet)

    def _wait_for_head(self):
        end = time.monotonic() + STARTED_S
        while time.monotonic() < end:
            try:
                socket.create_connection(tuple(self.address.split(":")), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise TimeoutError("the head has not started")

    def add(self):
        """Start the second node."""
        self._second = self._start(f"--address={self.address} --num-cpus={self._cpus}")

    def wait_for_second(self):
        """Until it has joined; also after it was killed and added."""
        cluster, end = connect(ClusterConfig(address=self.address)), time.monotonic() + STARTED_S
        while not cluster.room_for(1, elsewhere=True) and time.monotonic() < end:
            time.sleep(0.05)

    def lose(self):
        """End every process of the second node at once, and start another one."""
        end_all(self._second)
        self.add()

    def close(self):
        import ray  # not where it is not installed

        ray.shutdown()
        for node in (self._second, self._head):
            if node.poll() is None:
                end_all(node)
        shutil.rmtree(self._folder, ignore_errors=True)


def end_all(process):
    """Kill a process and all that it has started."""
    for pid in [process.pid, *started_by(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def started_by(pid):
    """Its children, theirs, and so on."""
    found = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return found + [each for child in found for each in started_by(child)]


class Harm:
    """Harms the cluster of this process; as a logger, when some epochs are recorded."""

    def __init__(self, started, chance, at=()):
        """`started`: the workers on nodes, by name (the fixture `hosts`)."""
        self._started, self._chance, self._at = started, chance, set(at)
        self.done = []

    def record_epoch(self, epoch, *_, **__):
        if epoch in self._at:
            self.strike()

    def strike(self):
        """At first an actor of Ray's and a whole node, then any of these, or a worker process."""
        kinds = ("actor", "node", "worker")
        self.done.append(kinds[len(self.done)] if len(self.done) < len(kinds) else self._chance.choice(kinds))
        getattr(self, self.done[-1])()

    def node(self):
        nodes().lose()

    def actor(self):
        import ray

        ray.kill(self._chance.choice(self._on_nodes()).host)

    def worker(self):
        pids = [child.pid for child in self._on_nodes() if child.pid]
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._chance.choice(pids), signal.SIGKILL)

    def _on_nodes(self):
        return [child for child in self._started.values() if hasattr(child, "host") and child.is_alive]


_made = []


def nodes():
    """The cluster of this process; skips where Ray is not installed."""
    pytest.importorskip("ray", reason="the extra abreast[ray] is not installed")
    if not _made:
        _made.append(Nodes())
    _made[0].wait_for_second()
    return _made[0]


def on_nodes(here=0):
    """Settings by which a run has its workers there, `here` of the learners aside."""
    cluster = f"{{address: '{nodes().address}', workers_here: {here}}}"
    return ["multiprocessing.workers=ray", f"multiprocessing.cluster={cluster}"]
