"""Rollouts where something is scarce: a clear sentence or a working run; no hang, no stack, no damaged file."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.rollouts import Starter
from llm_server import LLMServer, Text

TESTS = Path(__file__).parent.parent
IN_WORKERS = ["es_manager.use_multiprocessing=true", "es_manager.max_workers=2"]
FULL = os.environ.get("ABREAST_CHAOS") == "1"
IN_MAIN = ["es_manager.use_multiprocessing=false"]
LAKE = ["FrozenLake", "--episodes", "12", "--output", "run"]
MAIN = "import varied_env; from abreast.cli import main"
pytestmark = pytest.mark.xdist_group("system")


def rollout(folder, arguments, limit=lambda: None, before="", **env):
    """Run `abreast rollout` as a child that has `limit`, and runs `before`; its exit code and what it printed."""

    def prepare():
        _obey_modes()
        limit()

    more = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    child = subprocess.run(
        [sys.executable, "-c", f"{MAIN}\n{before}\nmain()", "rollout", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": more, **env}, preexec_fn=prepare, timeout=60, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert "Traceback" not in child.stderr and "never awaited" not in child.stderr, child.stderr
    return child.returncode, child.stdout, child.stderr


def _obey_modes():
    """Root may write everywhere; take that from the child, so that modes of folders count for it, too."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)


@pytest.fixture(scope="module")
def starter():
    with Starter() as one:
        yield one


@pytest.fixture
def forked(starter, tmp_path):
    """As `rollout`, in a process that has imported all before; `prepare` is Python that it executes first."""

    def run(arguments, prepare=""):
        starter.start(arguments, tmp_path, prepare=prepare)
        code, out, err = starter.wait_apart()
        assert "Traceback" not in err and "never awaited" not in err, err
        return code, out, err

    return run


def limited(what, soft):
    return f"import resource; resource.setrlimit(resource.{what}, ({soft}, {soft}))\n"


def episodes(folder):
    """The numbers of the episodes in a file that has whole lines only."""
    data = (folder / "run/trajectories.jsonl").read_bytes()
    assert not data or data.endswith(b"\n")
    return sorted(json.loads(line)["episode"] for line in data.splitlines())


def last(err):
    return err.splitlines()[-1]


# ---- descriptors


@pytest.mark.parametrize(("use", "limit"), [(IN_MAIN, 8), (IN_WORKERS, 20)])
def test_too_few_descriptors_are_told_before_anything_is_written(forked, tmp_path, use, limit):
    code, _, err = forked([*LAKE, *use], limited("RLIMIT_NOFILE", limit))
    told = f"abreast: this process may open {limit - 4} more files, and this rollout needs about"
    assert code == 2 and err.startswith(told) and "raise the limit (ulimit -n)" in err and err.count("\n") == 1, err
    assert not (tmp_path / "run").exists()


def test_what_is_asked_for_of_descriptors_is_enough(forked, tmp_path):
    code, _, err = forked([*LAKE, *IN_WORKERS], limited("RLIMIT_NOFILE", 4 + 10 + 10 + 2 * 6))
    assert code == 0 and episodes(tmp_path) == list(range(12)), err


def test_connections_to_a_server_count_too(forked, tmp_path):
    with LLMServer(lambda request: Text("<answer>Go</answer>")) as server:
        arguments = ["varied", *IN_MAIN, "--policy", "openai", "--base-url", server.url, "--output", "run"]
        limit = limited("RLIMIT_NOFILE", 40)
        code, _, err = forked([*arguments, "--in-flight", "50"], limit)
        assert code == 2 and "or lower in_flight from 50." in err, err
        code, _, err = forked([*arguments, "--in-flight", "20"], limit)
        assert code == 0 and len(episodes(tmp_path)) == 64, err


# ---- disk


@pytest.mark.parametrize("use", [IN_MAIN, IN_WORKERS] if FULL else [IN_WORKERS])
def test_a_disk_that_is_full_between_two_episodes_leaves_whole_lines_and_a_run_that_can_be_resumed(
    forked, tmp_path, use
):
    code, out, err = forked([*LAKE, *use], limited("RLIMIT_FSIZE", 9_000))
    kept = episodes(tmp_path)
    assert code == 2 and last(err) == "abreast: cannot write to the run folder run: File too large.", err
    assert 0 < len(kept) < 12 and f"Stopped after {len(kept)} episode" in out
    assert "To go on: abreast rollout --resume run" in out
    assert forked(["--resume", "run"])[0] == 0 and episodes(tmp_path) == list(range(12))


def test_a_picture_that_does_not_fit_is_not_there(forked, tmp_path):
    arguments = [*LAKE, *IN_MAIN, "env.render_mode=rgb_array"]
    before = (
        "import io, PIL.Image as i; s = i.Image.save; n = [0]\ndef save(self, f, *a):\n s(self, f, *a); n[0] += 1\n"
    )
    before += " if n[0] > 30: f.write(bytes(9_000))\ni.Image.save = save"
    code, out, err = forked(arguments, limited("RLIMIT_FSIZE", 30_000) + before)
    assert code == 2 and last(err) == "abreast: cannot write to the run folder run: File too large.", err
    assert "To go on: abreast rollout --resume run" in out
    assert not list((tmp_path / "run/images").glob(".*"))
    assert forked(["--resume", "run"])[0] == 0 and episodes(tmp_path) == list(range(12))


def test_a_disk_that_is_full_from_the_beginning_leaves_nothing_behind(forked, tmp_path):
    code, _, err = forked([*LAKE, *IN_MAIN], limited("RLIMIT_FSIZE", 100))
    assert code == 2 and err == "abreast: cannot write to the run folder run: File too large.\n"
    assert list(tmp_path.iterdir()) == []


# ---- places that may not be written to


def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path):
    code, _, err = rollout(tmp_path, [*LAKE, *IN_MAIN], lambda: os.chmod(tmp_path, 0o500))  # noqa: PTH101
    assert code == 2 and err == "abreast: cannot write the run folder run: Permission denied.\n"
    tmp_path.chmod(0o700)
    assert rollout(tmp_path, [*LAKE, *IN_MAIN])[0] == 0
    (tmp_path / "run").chmod(0o500)
    code, _, err = rollout(tmp_path, ["--resume", "run", "--episodes", "14"])
    (tmp_path / "run").chmod(0o700)
    assert code == 2 and last(err) == "abreast: cannot write to the run folder run: Permission denied.", err
    assert episodes(tmp_path) == list(range(12))


def test_nothing_is_written_outside_of_the_run_folder_and_a_home_may_be_read_only(tmp_path, short_path):
    homes = {"HOME": tmp_path / "home", "TMPDIR": short_path, "XDG_CACHE_HOME": tmp_path / "cache"}
    homes["HOME"].mkdir(mode=0o500)
    homes["XDG_CACHE_HOME"].mkdir()
    place = tmp_path / "place"
    place.mkdir()
    code, _, err = rollout(place, [*LAKE, *IN_WORKERS], **{name: str(home) for name, home in homes.items()})
    assert code == 0, err
    assert episodes(place) == list(range(12)) and [path.name for path in place.iterdir()] == ["run"]
    assert [path for home in homes.values() for path in home.iterdir()] == []


# ---- memory, cores, clocks


@pytest.mark.skipif(not FULL, reason="CPython itself may not come to an end without memory: make chaos")
def test_memory_that_is_used_up_is_told_in_one_sentence(tmp_path):
    before = (
        "import resource, sys; from pathlib import Path\n"
        "size = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize() + (24 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, size))"
    )
    code, _, err = rollout(tmp_path, ["FrozenLake", "--episodes", "90000", "--slots", "60000", *IN_MAIN], before=before)
    assert code == 2 and err.startswith("abreast: the memory is used up: what was written until now is kept."), err


def test_one_core_is_enough_and_a_clock_that_jumps_changes_nothing(forked, tmp_path):
    """By days, to and fro, at each look: a time limit would be over at once, or never."""
    jumps = "import itertools, time; days = itertools.cycle([0, 9, -9]); now = time.time\n"
    jumps += "time.time = lambda: now() + 86_400 * next(days)"
    jumps += f"\nimport os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})"
    code, out, err = forked([*LAKE, *IN_WORKERS, "--time-limit", "50"], jumps)
    assert code == 0 and "Stopped" not in out and episodes(tmp_path) == list(range(12)), err
