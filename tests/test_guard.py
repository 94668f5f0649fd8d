"""Programs that tests start end with them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from guard import MARK, marked, running

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="looks into /proc")
LEAVES = """
import os, subprocess, sys, time
from guard import start_guard

def sleep(then=""):
    code = f"import os, subprocess, sys, time; {then} print(os.getpid(), flush=True); time.sleep(100)"
    return subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)

start_guard()
sleep()  # in a session of its own
sleep("os.fork() and os._exit(0); ")  # and without a parent
sleep("subprocess.Popen([sys.executable, '-S', '-c', 'import os, time; print(os.getpid(), flush=True); time.sleep(100)']);")
time.sleep(100)
"""


def test_what_a_process_of_tests_has_started_ends_with_it():
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with running([sys.executable, "-c", LEAVES], env=environment, stdout=subprocess.PIPE, text=True) as process:
        pids = [int(process.stdout.readline()) for _ in range(4)]
        process.kill()
        process.wait()
        deadline = time.monotonic() + 60
        while (left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not left


def test_this_process_has_a_guard():
    with running([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        mark = os.environ[MARK]
        assert mark.startswith(f"{os.getpid()}-")
        assert process.pid in marked(mark)
        assert os.getpid() not in marked(mark)
