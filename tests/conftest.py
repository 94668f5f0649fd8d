"""Settings of the whole suite."""

import contextlib
import gc
import importlib
import logging
import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from abreast.display import set_volume, volume
from abreast.processes.fork_server import FORK_SERVER

sys.path.insert(0, str(Path(__file__).parent))  # tests import fakes.py by name

import quick_runs
from guard import start_guard

TESTS = Path(__file__).parent
START_RAY_S = 900
"""Limit of a test that uses Ray: beside five busy processes, a local Ray took 230 s to start."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # `nohup make test &`: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
sys.dont_write_bytecode = False  # whatever the shell says: hundreds of processes would compile all modules again
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
torch.set_num_threads(1)
# Before any test starts a process: what comes later has no effect. (Models with an optimiser of torch import _dynamo: 2 s.)
FORK_SERVER.preload += ["abreast.training", "abreast.rollouts.workers.worker", "torch._dynamo", quick_runs.__name__]
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")


def pytest_configure(config):
    """Without `-m gpu` tests are those of a machine without a GPU, wherever they run: models there are on the CPU."""
    if hasattr(os, "pidfd_open"):
        start_guard()
    if "gpu" not in config.option.markexpr:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def pytest_collection(session):
    """Have each worker import other modules of tests first: what one has compiled is kept, and the others only read it."""
    first, workers = (os.environ.get(f"PYTEST_XDIST_{name}") for name in ("WORKER", "WORKER_COUNT"))
    if first and session.config.args == session.config.getini("testpaths"):
        for path in sorted(TESTS.rglob("test_*.py"))[int(first.removeprefix("gw")) :: int(workers)]:
            with contextlib.suppress(pytest.skip.Exception, Exception):  # pytest, which imports it again, says so
                importlib.import_module(".".join(path.relative_to(TESTS).with_suffix("").parts))


def pytest_collection_modifyitems(config, items):
    """Give tests that use Ray more time; leave out what the suite has none for: `make chaos` (ABREAST_CHAOS=1) runs it."""
    for item in items:
        if any(mark.args == ("ray",) for mark in item.iter_markers("xdist_group")):
            item.add_marker(pytest.mark.timeout(START_RAY_S))
    if not os.environ.get("ABREAST_CHAOS"):
        left_out = [item for item in items if item.get_closest_marker("chaos")]
        items[:] = [item for item in items if not item.get_closest_marker("chaos")]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish():
    """What was imported is never garbage: to look at it again and again took a tenth of the time of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.fixture(autouse=True)
def _as_loud_as_before():
    """A command with -q has the whole process log errors alone."""
    log = logging.getLogger("abreast")
    level, shown = log.level, volume()
    yield
    set_volume(shown)
    log.setLevel(level)


@pytest.fixture(autouse=True)
def _forget_files_of_this_test(tmp_path_factory):
    """A game that a test has written to its folder and imported is not in the way of one of the same name in the next."""
    before = set(sys.modules)
    yield
    folder = str(tmp_path_factory.getbasetemp())
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
            del sys.modules[name]
