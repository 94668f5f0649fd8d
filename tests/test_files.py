"""Files are whole or not there."""

import os

import pytest

from abreast.errors import RunFolderError
from abreast.files import LEFT_BEHIND, WRITTEN, make_run_folder, seen_from_here, write_whole


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


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
