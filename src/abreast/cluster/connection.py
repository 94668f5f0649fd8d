"""The connection of this program to a Ray cluster; without one at hand, a Ray of its own, which leaves nothing behind."""

import logging
import math
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.cluster.config import ClusterConfig
from abreast.cluster.host import SAME_NEEDED, Echo, node_facts
from abreast.errors import ConfigError, WorkerError, log, need_posix
from abreast.processes.cores import cores

CLEAN_UP = """
import shutil, sys, time
sys.stdin.read()  # until the program has ended, in whichever way
for _ in range(20):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    time.sleep(0.2)
"""
"""Removes a folder. Processes of a local Ray end with the program, too, a moment later, and write there until then."""
ECHOES, ECHOED_BYTES = 5, 8_000_000
"""Messages that are timed, of one byte and of so many: of fewer, the time cannot be told from that of a message."""
LONGEST_FOLDER = 30
"""Ray has sockets in its folder, whose names may have 107 characters in all."""
REACH_S = 5.0
"""Seconds within which a host has to accept a connection, and to begin to speak."""
SETTINGS = b"\4"
"""The kind of frame with which a server of gRPC begins. For one that does not, Ray would wait for minutes."""


def import_ray() -> Any:
    """The package; a `ConfigError` names the extra that it comes with."""
    need_posix("a Ray cluster needs", "leave it out")
    if "RAY_AUTH_TOKEN" in os.environ:
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # read when Ray is imported
    try:
        import ray
    except ImportError:
        raise ConfigError(
            'a cluster was asked for (workers or backend is ray), but Ray is not installed: pip install "abreast[ray]", on'
            " every node."
        ) from None
    return ray


class Link(NamedTuple):
    """What it costs to send something to another node and back."""

    message_s: float
    """A short message."""
    byte_s: float
    """Each byte more."""


class Connection:
    """To one cluster, for the rest of the program. One that the program has made itself with `ray.init` is used as it is."""

    def __init__(self, config: ClusterConfig) -> None:
        self.ray = import_ray()
        self.is_local = False
        """Whether there is a Ray for this program alone: it then has no other users, and no CPUs to share out."""
        self._facts = node_facts()
        self._nodes: dict[str, dict[str, str]] = {}
        if self.ray.is_initialized():
            return
        address = config.address
        if address == "auto":  # for Ray, that is any that runs here: also one for another program alone
            address = (
                os.environ.get("RAY_ADDRESS") or self.ray._private.services.find_bootstrap_address(None) or "local"
            )
            if address == "local":
                log.warning("this machine belongs to no Ray cluster: one is started here, for this program alone")
        if address == "local":
            self._start_local()
        else:
            self._connect(address, config.start_timeout)

    def _connect(self, address: str, timeout_s: float) -> None:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), min(REACH_S, timeout_s)) as reached:
                if os.environ.get("RAY_USE_TLS") != "1" and reached.recv(9)[3:4] != SETTINGS:
                    raise OSError("what is there is no Ray")
        except (OSError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"the cluster at {address} does not answer ({error}): expected HOST:PORT of a Ray that is running"
                " (`ray start --head` prints it), or local."
            ) from None
        try:
            self._init(address=address)
        except Exception as error:
            raise ConfigError(
                f"what answers at {address} is no cluster that can be joined: {first_line(error)}; one with tokens wants"
                " RAY_AUTH_MODE=token and RAY_AUTH_TOKEN."
            ) from None

    def _start_local(self) -> None:
        """Start a Ray whose processes end with this program, and whose files are removed then."""
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(16))  # otherwise one is written into the home folder
        os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        usual = tempfile.gettempdir()
        folder = tempfile.mkdtemp(prefix="abreast_ray_", dir=usual if len(usual) <= LONGEST_FOLDER else "/tmp")
        self._cleaner = remove_at_end(folder)
        try:
            self._init(address="local", num_cpus=cores(), include_dashboard=False, _temp_dir=folder)  # not RAY_ADDRESS
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise WorkerError(f"a local Ray could not start: {first_line(error)}.") from error
        self.is_local = True

    def _init(self, **options: Any) -> None:
        with _own_handlers():
            self.ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)

    @property
    def _here(self) -> str:
        """The node of this program."""
        return str(self.ray.get_runtime_context().get_node_id())

    def room_for(self, cpus: float, gpus: float = 0.0, elsewhere: bool = False) -> int:
        """How many workers with so many CPUs and GPUs there is room for, each on one node; `elsewhere`: not on this one."""
        room = 0
        for node in self.ray.nodes():
            if node["Alive"] and not (elsewhere and node["NodeID"] == self._here):
                has = node["Resources"]
                by_gpus = has.get("GPU", 0.0) / gpus if gpus else math.inf
                room += int(min(has.get("CPU", 0.0) / (cpus or 1.0), by_gpus) + 1e-9)  # ten tenths are in 1
        return room

    def actor(self, kind: type, elsewhere: bool, **options: Any) -> Callable[[], Any]:
        """What makes an actor of this class; `elsewhere`: on another node than this one, if there is any."""
        if self.is_local:
            options["num_cpus"] = 0  # it has no other users
        elif elsewhere and self.room_for(0.0, elsewhere=True):
            options["label_selector"] = {"ray.io/node-id": f"!{self._here}"}
        make: Callable[[], Any] = self.ray.remote(**options)(kind).remote
        return make

    def measure(self, timeout_s: float) -> Link:
        """Time messages to a node and back. Where none has room for what answers, they never return."""
        echo = self.actor(Echo, elsewhere=True, num_cpus=0)()
        data = np.zeros(ECHOED_BYTES, dtype=np.uint8)
        end = time.monotonic() + timeout_s
        try:
            message_s, _, all_s = (self._seconds_of_echo(echo, each, end) for each in (data[:1], data, data))
        except self.ray.exceptions.RayError:
            return Link(math.inf, math.inf)
        finally:
            self.ray.kill(echo)
        return Link(message_s, max(all_s - message_s, 1e-6) / ECHOED_BYTES)

    def _seconds_of_echo(self, echo: Any, data: NDArray[np.uint8], end: float) -> float:
        """The shortest of some times: the first contain the start of what answers."""
        times = []
        for _ in range(ECHOES):
            started = time.perf_counter()
            self.ray.get(echo.echo.remote(data), timeout=max(0.0, end - time.monotonic()))
            times.append(time.perf_counter() - started)
        return min(times)

    def check_room(self, cpus: float, gpus: float) -> None:
        """Refuse workers that fit on no node."""
        if not self.room_for(0.0 if self.is_local else cpus, gpus):
            nodes = [each["Resources"] for each in self.ray.nodes() if each["Alive"]]
            most = " and ".join(f"{max(each.get(kind, 0.0) for each in nodes):g} {kind}s" for kind in ("CPU", "GPU"))
            raise ConfigError(
                f"a worker is to have {cpus:g} CPUs and {gpus:g} GPUs, but no node of the cluster has more than {most}:"
                " lower what it is to have."
            )

    def note_node(self, facts: dict[str, str]) -> None:
        """Record what a node is, and name what may make results there others; raises if it cannot work with this one."""
        name = facts["node"]
        if name in self._nodes:
            return
        self._nodes[name] = facts
        log.info("node %s: %s", name, ", ".join(f"{key} {facts[key]}" for key in facts if key != "node"))
        for key in facts.keys() - {"node"}:
            here, there = self._facts[key], facts[key]
            if here != there and key in SAME_NEEDED:
                raise ConfigError(
                    f"node {name} has {key} {there}, but this machine {here}: install the same on all of them."
                )
            if here != there:
                log.warning(
                    "results may be rounded otherwise on node %s: %s is %s there and %s here", name, key, there, here
                )


_connections: list[Connection] = []
_lock = threading.Lock()


def connect(config: ClusterConfig) -> Connection:
    """The connection of this program; made by the first call."""
    with _lock:
        if not _connections or not _connections[0].ray.is_initialized():
            _connections[:] = [Connection(config)]
        return _connections[0]


def remove_at_end(folder: Path | str) -> "subprocess.Popen[bytes]":
    """A process that removes a folder when this one has ended, in whichever way; keep a reference to it until then."""
    command = [sys.executable, "-S", "-c", CLEAN_UP, str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, cwd="/")


def first_line(error: BaseException) -> str:
    """What is the matter: errors of Ray's come with stacks of several processes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if lines[0].endswith(":"):  # a list of versions
        lines = [" ".join(lines)]
    named = [line for line in lines if "Error: " in line and not line.startswith(("File", "ray."))]
    return (named or lines)[-1 if named else 0].rstrip(".")[:500]


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Ray has handlers of its own for signals; those of a run stay."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
