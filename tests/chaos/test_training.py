"""Short versions of what `driver.py` does to training, and named tests of the faults it found."""

import mmap
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from chaos import driver
from chaos.damage import BOMB, MAP_BOMB
from chaos.faults import faults_in_one_run
from chaos.fuzz import Broken, Fuzzer, fuzz_training
from chaos.growth import Meter, objects_grown
from chaos.leftovers import listing
from chaos.limits import (
    JUMPING_CLOCK,
    LARGE_REPLAY,
    LITTLE_SHM,
    PARALLEL,
    at_most,
    clear,
    full_in_a_checkpoint,
    may_mount,
    one_core,
    train,
    train_here,
)

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")


@pytest.mark.xdist_group("system")
def test_some_faults_change_nothing_and_leave_nothing():
    assert faults_in_one_run(seed=3, faults=4).endswith("identical")


def test_fuzzed_inputs_get_a_sentence(tmp_path):
    count = 600 if os.environ.get("ABREAST_CHAOS") else 25
    ends = fuzz_training(tmp_path / "fuzz", seed=int(os.environ.get("ABREAST_FUZZ_SEED", "1")), count=count)
    assert sum(ends.values()) == count and sum(many for end, many in ends.items() if end.endswith(" 0")) > count // 12


def test_the_fuzzer_notices_a_traceback_and_a_write_outside(tmp_path, monkeypatch):
    fuzzer = Fuzzer(tmp_path / "fuzz")

    def fails(command):
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr("chaos.fuzz.run", fails)
    with pytest.raises(Broken, match="a fault of ours"):
        fuzzer.case("1:1")

    def writes(command):
        Path("../outside/precious").write_text("gone")
        return 0

    monkeypatch.setattr("chaos.fuzz.run", writes)
    with pytest.raises(Broken, match="wrote outside"):
        fuzzer.case("1:1")


@pytest.mark.parametrize(
    "parallel", [pytest.param(False, marks=pytest.mark.chaos), True], ids=["sequential", "pipelined"]
)
def test_no_epoch_leaves_objects_behind(parallel, tmp_path):
    grown = objects_grown(tmp_path, (60, 110, 160), parallel, "model.gradient_steps=1")
    assert sum(grown.values()) < 45, grown  # of 50 epochs; other tests of this process leave some behind


def test_a_process_that_grows_is_noticed():
    meter, kept = Meter(epochs=40), []
    for epoch in range(40):
        # New pages, whatever tests before have left free in the heap; and many, as this process may be large by now.
        kept.append(mmap.mmap(-1, 2**22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        kept[-1].write(bytes([epoch]) * 2**22)
        meter.record_epoch(epoch, 0.0, 0.0, 0.0)
    with pytest.raises(AssertionError, match="main"):
        meter.report()


# ---- limits


@pytest.mark.xdist_group("system")
@pytest.mark.chaos
def test_too_few_descriptors_are_a_sentence(tmp_path):
    ended = clear(train(tmp_path, *PARALLEL, limit=at_most(resource.RLIMIT_NOFILE, 24)))
    assert ended.code == 1 and "Too many open files" in ended.said, ended.said


def test_a_full_disk_is_a_sentence(tmp_path):
    ended = clear(train_here(tmp_path, limit=at_most(resource.RLIMIT_FSIZE, 4000)))
    assert ended.code == 2 and "its metrics are in run." in ended.said, ended.said


def test_a_disk_that_is_full_in_a_checkpoint_leaves_the_one_before_and_the_run_goes_on(tmp_path):
    full_in_a_checkpoint(tmp_path, train=train_here)


@pytest.mark.xdist_group("system")
@pytest.mark.chaos
def test_one_core_little_shared_memory_a_jumping_clock_and_a_read_only_home_do_not_matter(tmp_path, short_path):
    """(/dev/shm is as it is where this user may not mount another.)"""
    home, work, scratch = tmp_path / "home", tmp_path / "work", short_path
    for folder in (home, work):
        folder.mkdir()
    home.chmod(0o500)
    settings = {"HOME": str(home), "TMPDIR": str(scratch)}
    inside = LITTLE_SHM if may_mount() else ()
    ended = clear(
        train(work, *PARALLEL, *LARGE_REPLAY, limit=one_core, before=JUMPING_CLOCK, inside=inside, **settings)
    )
    assert ended.code == 0, ended.said
    assert not listing(home, scratch)
    assert [path.name for path in work.iterdir()] == ["run"]


def test_a_case_that_fails_tells_how_to_repeat_it(tmp_path):
    """A case that cannot work here: a name that the driver knows, of a module that is broken."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['chaos.limits'] = None\n")
    command = [sys.executable, driver.__file__, "--minutes", "0.0001", "--seed", "7", "--only", "limits"]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 1
    assert done.stdout.startswith("seed 7, ")
    assert "repeat it with: python tests/chaos/driver.py --case limits --seed 7/0 --length 0.05" in done.stdout


def test_a_bomb_is_small():
    assert len(BOMB) < 1000 and len(MAP_BOMB) < 2000
