"""The command `abreast report`."""

import json
import re
from pathlib import Path

import pytest

from abreast.cli import run
from report.folders import write_rollout, write_training


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def test_a_report_is_put_into_the_run_folder_or_here_or_where_it_is_wanted(capsys):
    for name in ("one", "two"):
        write_training(Path(name), epochs=3)
    assert run(["report", "one"]) == 0
    assert capsys.readouterr().out.startswith("The report of 1 run is one/report.html (")
    assert run(["report", "one", "two"]) == 0 and Path("report.html").is_file()
    assert run(["report", "one", "two", "two", "--output", "pages.html"]) == 0
    assert "The report of 2 runs is pages.html" in capsys.readouterr().out
    assert "<!doctype html>" in Path("pages.html").read_text() and not Path("two/report.html").exists()
    assert run(["report", "one"]) == 0  # one that is there already is replaced


def test_runs_of_the_same_name_are_told_apart_by_their_folders():
    for folder in ("a/seed0", "b/seed0", "b/seed1"):
        write_training(Path(folder), epochs=3)
    assert run(["report", "a/seed0", "b/seed0", "b/seed1"]) == 0
    ((data,),) = [re.findall(r'id="data">(.*?)</script>', Path("report.html").read_text(), re.DOTALL)]
    assert [each["name"] for each in json.loads(data)] == ["a/seed0", "b/seed0", "seed1"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["one", "play"], "one is a training run and play a rollout run, which have no figure in common"),
        (["one", "empty"], "empty is no run folder: it has none of config.yaml, metrics.jsonl, trajectories.jsonl."),
        (
            ["one", "--output", "empty"],
            "cannot write the report to empty: Is a directory; --output FILE puts it elsewhere.",
        ),
        (["one", "--output", "no/where.html"], "cannot write the report to no/where.html: No such file or directory; "),
        ([], "Missing argument 'RUN...'."),
    ],
)
def test_what_cannot_be_reported_is_one_sentence(arguments, says, capsys):
    write_training(Path("one"), epochs=3)
    write_rollout(Path("play"))
    Path("empty").mkdir()
    before = sorted(Path().rglob("*"))
    assert run(["report", *arguments]) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1 and sorted(Path().rglob("*")) == before
