"""The timeline: every worker of a team has a track, which outlives it; the file keeps to the trace-event format."""

import gc
import logging
import os

import pytest

from abreast.processes import timeline
from abreast.processes.backend import ChildSpec
from abreast.processes.spans import NUMBERS, add_call, clock, here, make_track, span
from abreast.processes.team import Answered, Died
from abreast.processes.timeline import Timeline
from processes.teams import collect, descriptors
from trace_events import checked, spans, totals


@pytest.mark.parametrize(("backend", "death"), [("process", ("die at", 7)), ("thread", ("raise", "now"))])
def test_a_worker_that_dies_leaves_its_spans_and_its_successor_goes_on(backend, death, make_team, tmp_path):
    with Timeline(tmp_path / "timeline.json", "main") as kept:
        team = make_team(backend)
        for number in range(3):
            team.submit(0, number, ("echo", number))
            assert isinstance(collect(team)[0], Answered)
        team.submit(0, 3, death)
        assert isinstance(collect(team)[0], Died)
        kept.write()
        waits = [each for each in spans(checked(tmp_path / "timeline.json"), "worker 0") if each[0] == "wait"]
        assert len(waits) == 4, "what it did before its death is there while it is dead"
        team.submit(0, 4, ("echo", 4))
        collect(team)
        team.kill()
    found = checked(tmp_path / "timeline.json")
    names = [name for name, _, _ in sorted(spans(found, "worker 0"), key=lambda each: each[1])]
    assert names[:6] == ["start", *["wait"] * 4, "restart"] and names[6] == "wait"
    assert totals(found, "worker 0")["wait"]["count"] == len(names) - 2
    assert totals(found, "worker 0")["restart"]["count"] == 1 and totals(found, "worker 0")["restart"]["is_wait"]
    assert here.recorder is None


def test_calls_that_overlap_are_pairs_and_the_file_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_EVENTS", 100)
    gc.collect()
    before = descriptors()
    with Timeline(tmp_path / "timeline.json", "main"):
        for _ in range(30):
            started = clock()
            with span("turn"), span("rebuild"):
                add_call("model", started)
            add_call("model", started)
        for _ in range(1000):
            with span("wait"):
                pass
    found = checked(tmp_path / "timeline.json")
    kinds = [each["ph"] for each in found["traceEvents"]]
    assert kinds.count("b") == kinds.count("e") > 0 and len(kinds) <= 2 + 2 * 100
    told = found["abreast"]["processes"][0]
    assert told["totals"]["wait"]["count"] == 1000 and told["totals"]["model"]["is_async"]
    shown = sum(kinds.count(each) for each in "Xb")
    assert told["dropped"] == 1000 + 30 * 4 - shown
    gc.collect()
    assert descriptors() == before


def test_a_span_that_crosses_the_one_before_begins_when_that_ends(tmp_path):
    with Timeline(tmp_path / "timeline.json", "main"):
        now = clock()
        for start, end in ((now, now + 1000), (now + 500, now + 2000), (3, now)):
            here.recorder.add(NUMBERS["play"], start, end)
    first, second = sorted(spans(checked(tmp_path / "timeline.json"), "main"), key=lambda each: each[1])
    assert abs(first[2] - second[1]) < 1e-12 and abs(second[2] - second[1] - 1e-6) < 1e-9


def test_what_goes_wrong_is_one_line_in_the_log_and_the_run_goes_on(tmp_path, caplog, monkeypatch, make_team):
    def no_room():
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(timeline, "make_track", no_room)
    with caplog.at_level(logging.WARNING), Timeline(tmp_path / "nowhere" / "timeline.json", "main"), span("play"):
        pass
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert "the timeline was not written" in caplog.text and "without main: Too many open files" in caplog.text


def test_a_track_on_another_machine_is_copied_and_its_times_become_those_of_this_one(monkeypatch, tmp_path):
    ahead = 5 * 10**12
    with Timeline(tmp_path / "timeline.json", "main") as kept:
        for _ in range(2):  # the first worker dies, and its successor is elsewhere
            spec = kept.recorded(ChildSpec("worker", lambda context: None, ()))
            make, track, *others = spec.arguments
            copy, share = make_track(), spec.writes[-1]
            here_side, there_side, recorder = share.open(track), share.open(copy), here.recorder
            there_side.apply(here_side.first(is_read=False))
            with monkeypatch.context() as other:
                other.setattr("abreast.processes.spans.clock", lambda: clock() + ahead)
                other.setattr(timeline, "clock", lambda: clock() + ahead)
                spec.make(None, make, copy, *others)
                with span("train"):
                    pass
            here.recorder = recorder
            here_side.apply(there_side.changes())
    found = checked(tmp_path / "timeline.json")
    names = [name for name, _, _ in sorted(spans(found, "worker"), key=lambda each: each[1])]
    assert names == ["start", "train", "restart", "train"] and totals(found, "worker")["train"]["count"] == 2
    assert all(0 <= begin <= end <= found["abreast"]["seconds"] for _, begin, end in spans(found, "worker"))
