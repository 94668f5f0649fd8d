"""bench.json and the table, of made-up rows."""

import io
import json

import pytest
from rich.console import Console

from abreast.bench.machine import cpu_model, machine_facts, told
from abreast.bench.report import Report, figure, table
from abreast.bench.rows import Row

ROWS = {
    "floors": [Row("matrix products, one core", "GFLOP/s", [50.0, 60.0])],
    "training": [
        Row("sequential", "agent-steps/s", [2500.0]),
        Row("pipelined", "agent-steps/s", [5000.0], [2.0], "sequential", [4.0]),
    ],
}


def printed(name, width):
    file = io.StringIO()
    Console(file=file, width=width, soft_wrap=True).print(table(name, ROWS[name]))
    return file.getvalue()


def test_the_json_has_the_machine_and_every_row(tmp_path):
    Report(machine_facts(), "small", subjects=dict(ROWS)).write(tmp_path)
    facts = json.loads((tmp_path / "bench.json").read_text())
    assert set(facts) == {"format", "began", "size", "machine", "subjects"}
    assert {"cores", "cpu", "python", "torch", "abreast", "cores_by_affinity", "cores_by_quota"} <= set(
        facts["machine"]
    )
    assert facts["subjects"]["training"][1] == ROWS["training"][1].facts()
    assert list(facts["subjects"]) == list(ROWS)


def test_the_machine_is_told_in_a_line(tmp_path, monkeypatch):
    facts = {**machine_facts(), "cores": 1, "cores_by_affinity": 4, "cores_by_quota": 1.5, "cpu": "Some CPU"}
    assert told(facts).startswith("1 core (affinity 4, quota 1.5) of Some CPU; abreast ")
    monkeypatch.setattr("abreast.bench.machine.CPU_INFO", tmp_path / "none")
    assert cpu_model()


def test_a_row_is_one_line_if_there_is_room():
    lines = printed("training", width=1000).splitlines()
    assert len(lines) == 3
    assert lines[2].split() == ["pipelined", "5,000", "agent-steps/s", "2", "sequential", "4", "50%"]


def test_no_line_is_wider_than_the_terminal():
    assert max(len(line) for line in printed("training", width=60).splitlines()) <= 60


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (12345.6, "12,346"), (12.34, "12.3"), (1.256, "1.26"), (0.00217, "0.00217"), (0, "0")],
)
def test_figures_have_the_digits_that_mean_something(value, text):
    assert figure(value) == text
