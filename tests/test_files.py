"""Files are whole or not there."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from abreast.errors import RunFolderError
from abreast.files import (
    LEFT_BEHIND,
    LOCK,
    WRITTEN,
    is_locked,
    locked,
    make_run_folder,
    open_run_folder,
    seen_from_here,
    write_whole,
)


def test_who_looks_whether_a_folder_is_locked_keeps_no_run_out(tmp_path, monkeypatch):
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
        assert subprocess.run([sys.executable, "-c", LOOK, tmp_path], check=False).returncode == 1
    assert not is_locked(tmp_path)
    looking = os.open(tmp_path / LOCK, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not is_locked(tmp_path)  # another one looks
    monkeypatch.setattr("abreast.files.time.sleep", lambda seconds: os.close(looking))
    with locked(tmp_path):
        assert is_locked(tmp_path)


LOOK = (
    "import sys; from pathlib import Path; from abreast.files import is_locked; sys.exit(is_locked(Path(sys.argv[1])))"
)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("beside", ["link", "file"])
def test_a_file_is_not_written_through_what_lies_beside_it(tmp_path, beside):
    part, elsewhere = tmp_path / f".file.{os.getpid()}.part", tmp_path / "elsewhere"
    part.symlink_to(elsewhere) if beside == "link" else part.write_text("of a crash")
    write_whole(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new" and not elsewhere.exists() and not os.path.lexists(part)


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "log.txt", "replays", "checkpoints"])
@pytest.mark.parametrize("harm", ["link", "pipe", "other name", "other kind"])
def test_something_else_in_the_place_of_what_a_run_writes_is_refused(tmp_path, name, harm):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    folder.mkdir()
    outside.write_text("as it was")
    (folder / "config.yaml").touch()
    path, is_folder = folder / name, name in ("replays", "checkpoints")
    path.unlink(missing_ok=True)
    if harm == "link":
        path.symlink_to(tmp_path if is_folder else outside)
    elif harm == "pipe":
        os.mkfifo(path)
    elif harm == "other kind":
        path.touch() if is_folder else path.mkdir()
    else:
        os.link(outside, path)
    if harm == "other name" and name == "config.yaml":  # is written anew, so what has the other name stays as it is
        open_run_folder(folder)
        return
    with pytest.raises(RunFolderError, match=f"{name} is no (file|folder) of the run's own"):
        open_run_folder(folder)
    assert outside.read_text() == "as it was"


@pytest.mark.parametrize("name", LEFT_BEHIND)
def test_a_folder_that_holds_a_run_of_any_kind_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(RunFolderError, match="already holds a run or its files"):
        make_run_folder("mine", tmp_path)


def test_a_run_gets_a_folder_of_its_own_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [make_run_folder("../My tag: 2", None).path for _ in range(2)]
    assert len(set(folders)) == 2
    assert all(folder.parent.name == "runs" and folder.name.startswith("my-tag-2-2") for folder in folders)


def test_a_run_that_came_to_nothing_takes_back_what_it_made_and_nothing_else(tmp_path):
    made = make_run_folder("mine", tmp_path / "above" / "run")
    for name in WRITTEN:
        (made.path / name).touch()
    made.take_back()
    assert not (tmp_path / "above").exists()
    (tmp_path / "log.txt").write_text("mine")
    (tmp_path / "notes").write_text("mine")
    there = make_run_folder("mine", tmp_path)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "agent_0").touch()
    there.take_back()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.txt", "notes"]


def test_a_path_is_seen_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert seen_from_here(tmp_path / "a" / "b.py") == seen_from_here("./a/b.py") == "a/b.py"
    assert seen_from_here("../b.py") == "../b.py"


HOLDER = """
import sys
from pathlib import Path
from abreast.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of the folder."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_folder_that_another_process_writes_to_is_refused_until_it_ends(tmp_path, holder):
    with (
        pytest.raises(
            RunFolderError, match=rf"another process \(pid {holder.pid}\) is writing to .*: wait for its end"
        ),
        locked(tmp_path),
    ):
        pass
    holder.stdin.close()
    assert holder.wait(20) == 0
    with locked(tmp_path):
        pass


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait(20)
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize("has_locks", [True, False])
def test_two_runs_of_one_process_cannot_share_a_folder(tmp_path, monkeypatch, has_locks):
    if not has_locks:

        def unsupported(descriptor, operation):
            raise OSError(errno.ENOTSUP, "Operation not supported")

        monkeypatch.setattr("fcntl.flock", unsupported)
    for _ in range(2):
        with (
            locked(tmp_path),
            pytest.raises(RunFolderError, match="another run of this process is writing to"),
            locked(tmp_path),
        ):
            pass
    with locked(tmp_path), locked(make_run_folder("mine", tmp_path / "other").path):
        pass


def test_a_lock_is_released_after_an_error_and_leaks_no_descriptor(tmp_path):
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), locked(tmp_path):
            raise ZeroDivisionError
        with pytest.raises(RunFolderError), locked(tmp_path), locked(tmp_path):
            pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_child_that_was_forked_does_not_release_the_lock(tmp_path):
    with ExitStack() as until:
        until.enter_context(locked(tmp_path))
        child = os.fork()
        if not child:
            try:
                until.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        code = f"from pathlib import Path\nfrom abreast.files import locked\nwith locked(Path({str(tmp_path)!r})): pass"
        other = subprocess.run([sys.executable, "-c", code], check=False, stderr=subprocess.PIPE, text=True)
        assert "is writing to" in other.stderr


@pytest.mark.parametrize("harm", ["link", "pipe", "folder", "other name"])
def test_a_lock_file_that_is_none_is_refused_and_nothing_elsewhere_is_changed(tmp_path, harm):
    run, mine = tmp_path / "run", tmp_path / "mine"
    run.mkdir()
    mine.write_text("mine")
    path = run / LOCK
    {"link": lambda: path.symlink_to(mine), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir,
     "other name": lambda: path.hardlink_to(mine)}[harm]()  # fmt: skip
    with pytest.raises(RunFolderError, match="cannot lock the run folder"), locked(run):
        pass
    assert mine.read_text() == "mine"


def test_a_folder_that_is_not_there_cannot_be_locked(tmp_path):
    with (
        pytest.raises(RunFolderError, match=r"cannot lock the run folder .*none: No such file or directory\."),
        locked(tmp_path / "none"),
    ):
        pass


def test_a_lock_file_that_was_removed_while_it_was_waited_for_is_made_anew(tmp_path, monkeypatch):
    import fcntl

    taken, flock = [], fcntl.flock

    def removed(descriptor, operation):
        if not taken:
            (tmp_path / LOCK).unlink()
        taken.append(operation)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed)
    with locked(tmp_path):
        assert len(taken) == 2 and (tmp_path / LOCK).exists()


def test_a_run_that_came_too_late_takes_back_nothing_of_the_other(tmp_path):
    made = make_run_folder("mine", tmp_path / "run")
    with locked(made.path):
        (made.path / "config.yaml").touch()
        made.take_back()
        assert sorted(path.name for path in made.path.iterdir()) == [LOCK, "config.yaml"]
    made.take_back()
    assert not made.path.exists()
