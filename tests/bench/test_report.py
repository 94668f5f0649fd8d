"""bench.json, the table and the picture, of made-up rows."""

import builtins
import io
import json
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from abreast.bench.machine import cpu_model, machine_facts, told
from abreast.bench.picture import NoMatplotlib, draw, with_ratios
from abreast.bench.report import Report, figure, make_folder, table
from abreast.bench.rows import Row
from abreast.errors import RunFolderError

ROWS = {
    "floors": [Row("matrix products, one core", "GFLOP/s", [50.0, 60.0])],
    "training": [
        Row("sequential", "agent-steps/s", [2500.0], [1.0], "itself", [4.0]),
        Row("pipelined", "agent-steps/s", [5000.0], [2.0], "sequential", [4.0], bar=0.6, bar_of="share"),
        Row("far", "agent-steps/s", [5000.0], [2.0], "sequential", [400.0], bar=1.0),
    ],
    "update": [Row("update", "ms", [12.5], [1.25], "its products", [1.0], "less", 1.3)],
}


def report():
    return Report(machine_facts(), "small", subjects=dict(ROWS))


def printed(name, may_fold, width=80):
    file = io.StringIO()
    Console(file=file, width=width, soft_wrap=True).print(table(name, ROWS[name], may_fold))
    return file.getvalue()


def test_the_json_has_the_machine_and_every_row(tmp_path):
    report().write(tmp_path)
    facts = json.loads((tmp_path / "bench.json").read_text())
    assert set(facts) == {"format", "began", "size", "machine", "seconds", "subjects"}
    assert {"cores", "cpu", "python", "torch", "abreast", "cores_by_affinity", "cores_by_quota"} <= set(
        facts["machine"]
    )
    assert facts["subjects"]["update"] == [row.facts() for row in ROWS["update"]]
    assert list(facts["subjects"]) == list(ROWS)


def test_a_report_knows_how_long_a_subject_took():
    times = iter([3.0, 5.5])
    made = Report({}, "small")
    made.add("update", iter(ROWS["update"]), clock=lambda: next(times))
    assert made.seconds == {"update": 2.5} and made.subjects == {"update": ROWS["update"]}


def test_the_machine_is_told_in_a_line(tmp_path, monkeypatch):
    facts = {**machine_facts(), "cores": 1, "cores_by_affinity": 4, "cores_by_quota": 1.5, "cpu": "Some CPU"}
    assert told(facts).startswith("1 core (affinity 4, quota 1.5) of Some CPU; abreast ")
    monkeypatch.setattr("abreast.bench.machine.CPU_INFO", tmp_path / "none")
    assert cpu_model()


def test_a_row_is_one_line_where_there_is_no_terminal():
    lines = printed("training", may_fold=False).splitlines()
    assert len(lines) == 4
    assert lines[2].split() == [
        "pipelined",
        "5,000",
        "agent-steps/s",
        "2.00",
        "sequential",
        "4.00",
        "50%",
        "≥",
        "60%",
        "missed",
    ]
    assert printed("update", may_fold=False).splitlines()[1].split()[-4:] == ["80%", "≤", "1.3", "reached"]


def test_no_line_is_wider_than_the_terminal():
    assert max(len(line) for line in printed("training", may_fold=True, width=90).splitlines()) <= 90


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (12345.6, "12,346"), (12.34, "12.3"), (1.256, "1.26"), (0.00217, "0.0022"), (0, "0.00")],
)
def test_figures_have_the_digits_that_mean_something(value, text):
    assert figure(value) == text


def test_a_folder_is_made_and_never_taken_twice(tmp_path):
    folder = make_folder(tmp_path / "a" / "b")
    assert folder.is_dir()
    with pytest.raises(RunFolderError, match="is there already"):
        make_folder(folder)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match=r"cannot make the folder .*: Not a directory"):
        make_folder(tmp_path / "file" / "inside")


def test_without_a_wish_the_folder_bears_the_date(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert make_folder(None).name.startswith("bench-20")


def test_the_picture_shows_what_is_a_ratio_of_something_else(tmp_path):
    pytest.importorskip("matplotlib")
    assert [row.what for row in with_ratios(ROWS)["training"]] == ["pipelined", "far"]
    assert "floors" not in with_ratios(ROWS)
    assert draw(report(), tmp_path / "bench.png")
    with Image.open(tmp_path / "bench.png") as image:
        assert image.format == "PNG" and image.width > 1000


def test_there_is_no_picture_of_no_ratios(tmp_path):
    pytest.importorskip("matplotlib")
    assert not draw(Report(machine_facts(), "small", subjects={"floors": ROWS["floors"]}), tmp_path / "bench.png")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_a_sentence_says_how_to_get_it(tmp_path, monkeypatch):
    without_matplotlib(monkeypatch)
    with pytest.raises(NoMatplotlib, match=r"pip install 'abreast\[plot\]'"):
        draw(report(), tmp_path / "bench.png")


def without_matplotlib(monkeypatch):
    """As if it were not installed."""
    original = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_pictures_are_drawn_without_a_display():
    source = Path(draw.__code__.co_filename).read_text()
    assert "pyplot" not in source.replace("no state of pyplot", "")
