"""`abreast bench`: what it prints and writes, and one sentence for every mistake."""

import json
import os
from pathlib import Path

import pytest

from abreast.bench import floors, rollouts
from abreast.bench.rows import Row
from abreast.cli import run

ROW = Row("a turn", "µs", [2.0], [1.5], "another")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def measured(monkeypatch):
    """What was measured; nothing takes any time."""
    sizes = []
    for module in (floors, rollouts):
        monkeypatch.setattr(module, "measure", lambda size, module=module: sizes.append((module, size)) or [ROW])
    return sizes


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.parametrize("words", [["--only", "floors"], ["floors"]], ids=" ".join)
def test_one_subject_is_measured_small_into_a_folder_with_the_date(words, measured, capsys):
    assert run(["bench", *words]) == 0
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("bench-20") and names(folder) == ["bench.json"]
    assert measured == [(floors, floors.SMALL)]
    printed = capsys.readouterr().out
    assert "1.5  another" in printed and f"All figures are in {folder}/bench.json" in printed


def test_several_subjects_in_full(measured, capsys):
    assert run(["bench", "--full", "--output", "here", "--only", "rollouts", "floors"]) == 0
    assert measured == [(floors, floors.FULL), (rollouts, rollouts.FULL)]
    facts = json.loads(Path("here/bench.json").read_text())
    assert facts["size"] == "full" and list(facts["subjects"]) == ["floors", "rollouts"]


def test_what_is_measured_is_kept_when_it_is_stopped(measured, monkeypatch, capsys):
    def stop(size):
        raise KeyboardInterrupt

    monkeypatch.setattr(rollouts, "measure", stop)
    assert run(["bench", "floors", "rollouts", "--output", "here"]) == 130
    assert list(json.loads(Path("here/bench.json").read_text())["subjects"]) == ["floors"]
    assert run(["bench", "rollouts", "--output", "nothing"]) == 130
    assert names(".") == ["here"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "trainning"], "there is no benchmark 'trainning': did you mean 'training'?"),
        (["floors", "xyzzy"], "there is no benchmark 'xyzzy': known are: floors, rollouts, training."),
        (["--output", "taken"], "taken/bench.json is there already, and nothing is written over: give another folder."),
        (["--output", "file"], "cannot write the run folder file: File exists."),
        (["--output", "file/inside"], "cannot write the run folder file/inside: Not a directory."),
        (["--fulll"], "No such option: --fulll"),
    ],
    ids=["unknown", "further unknown", "folder exists", "file exists", "below a file", "option"],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(words, says, measured, capsys):
    Path("taken").mkdir()
    Path("taken/bench.json").touch()
    Path("file").write_text("kept")
    assert run(["bench", *words]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1
    assert names(".") == ["file", "taken"] and names("taken") == ["bench.json"] and not measured


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_may_not_be_written_to_is_one_sentence(measured, capsys):
    Path("closed").mkdir(mode=0o500)
    assert run(["bench", "--output", "closed/here"]) == 2
    assert "cannot write the run folder closed/here: Permission denied." in capsys.readouterr().err
