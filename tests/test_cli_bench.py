"""`abreast bench`: what it prints and writes, and one sentence for every mistake."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from abreast.bench import map as map_
from abreast.bench import update
from abreast.bench.rows import Row
from abreast.cli import run
from bench.test_report import without_matplotlib

ROW = Row("a turn", "µs", [2.0], [1.5], "another", (), "less", 2.0)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def measured(monkeypatch):
    """What was measured; nothing takes any time."""
    sizes = []
    for module in (map_, update):
        monkeypatch.setattr(module, "measure", lambda size, module=module: sizes.append((module, size)) or [ROW])
    return sizes


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.parametrize("words", [["--only", "map"], ["map"]], ids=" ".join)
def test_one_subject_is_measured_small_into_a_folder_with_the_date(words, measured, capsys):
    assert run(["bench", *words]) == 0
    (folder,) = Path().iterdir()
    assert folder.name.startswith("bench-20") and "bench.json" in names(folder)
    assert measured == [(map_, map_.SMALL)]
    printed = capsys.readouterr().out
    assert "1.50  another" in printed and "reached" in printed and f"All figures are in {folder}" in printed


def test_several_subjects_in_full(measured, capsys):
    pytest.importorskip("matplotlib")
    assert run(["bench", "--full", "--output", "here", "--only", "map", "update"]) == 0
    assert measured == [(update, update.FULL), (map_, map_.FULL)]
    assert names("here") == ["bench.json", "bench.png"]
    facts = json.loads(Path("here/bench.json").read_text())
    assert facts["size"] == "full" and list(facts["subjects"]) == ["update", "map"]


def test_without_matplotlib_there_is_no_picture_and_a_sentence(measured, monkeypatch, capsys):
    without_matplotlib(monkeypatch)
    assert run(["bench", "--only", "map", "--output", "here"]) == 0
    assert names("here") == ["bench.json"]
    told = capsys.readouterr()
    assert "a turn" in told.out and told.err.count("\n") == 1 and "pip install 'abreast[plot]'" in told.err


def test_what_is_measured_is_kept_when_it_is_stopped(measured, monkeypatch, capsys):
    def stop(size):
        raise KeyboardInterrupt

    monkeypatch.setattr(map_, "measure", stop)
    assert run(["bench", "--only", "update", "map", "--output", "here"]) == 130
    assert list(json.loads(Path("here/bench.json").read_text())["subjects"]) == ["update"]


def test_nothing_is_left_behind_when_nothing_was_measured(measured, monkeypatch, capsys):
    def stop(size):
        raise KeyboardInterrupt

    monkeypatch.setattr(map_, "measure", stop)
    assert run(["bench", "--only", "map", "--output", "here"]) == 130
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "trainning"], "there is no benchmark 'trainning': did you mean 'training'?"),
        (["--only", "map", "xyzzy"], "there is no benchmark 'xyzzy': known are: action, agents, checkpoint, floors,"),
        (["--output", "taken"], "taken is there already, and nothing is written over: give another folder (--output)."),
        (["--output", "file"], "file is there already"),
        (["--output", "file/inside"], "cannot make the folder file/inside: Not a directory."),
        (["--fulll"], "No such option: --fulll"),
    ],
    ids=["unknown", "further unknown", "folder exists", "file exists", "below a file", "option"],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(words, says, measured, capsys):
    Path("taken").mkdir()
    Path("file").write_text("kept")
    assert run(["bench", *words]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1
    assert names(".") == ["file", "taken"] and not names("taken") and not measured


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_may_not_be_written_to_is_one_sentence(measured, capsys):
    Path("closed").mkdir(mode=0o500)
    assert run(["bench", "--output", "closed/here"]) == 2
    assert "cannot make the folder closed/here: Permission denied." in capsys.readouterr().err


def test_help_does_not_wait_for_torch():
    code = "import sys; from abreast.cli import run; sys.exit(run(['bench', '--help']) or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0
