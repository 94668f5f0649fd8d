"""Spans: totals are exact whatever the rings have lost, details are rare and scaled, and nothing is recorded when off."""

import itertools
import threading

import pytest

from abreast.processes import spans
from abreast.processes.spans import (
    NUMBERS,
    ROWS,
    SPANS,
    Details,
    Recorder,
    details,
    here,
    make_track,
    newest,
    span,
)


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by 10 whenever it is read, and by what is added to `skip`."""
    reads, skip = itertools.count(1000, 10), [0]
    monkeypatch.setattr(spans, "clock", lambda: next(reads) + skip[0])
    return skip


def totals(track):
    return {name: tuple(rows[-1][2:]) for name, rows in zip(SPANS, newest(track, 1), strict=True) if rows}


def test_spans_are_written_with_their_times_and_what_is_inside_them(clock):
    block = make_track()
    recorder = Recorder(block)
    with recorder.span("train"):
        with recorder.span("sample"):
            pass
        with recorder.span("sample"):
            pass
    with recorder.span("wait"):
        pass
    found = {name: [row[:2] for row in rows] for name, rows in zip(SPANS, newest(block, 9), strict=True) if rows}
    assert found == {"wait": [[1060, 1070]], "train": [[1000, 1050]], "sample": [[1010, 1020], [1030, 1040]]}
    assert totals(block) == {"train": (1, 50, 20), "sample": (2, 20, 0), "wait": (1, 10, 0)}


def test_totals_are_exact_when_the_ring_has_lost_the_beginning_and_a_successor_goes_on(clock):
    block = make_track()
    for before in (None, [[0, 0, 0] if name != "play" else [ROWS, 10 * ROWS, 0] for name in SPANS]):
        recorder = Recorder(block, before)
        for _ in range(ROWS):
            with recorder.span("play"):
                pass
    with recorder.span("wait"):
        pass
    assert totals(block) == {"play": (2 * ROWS, 20 * ROWS, 0), "wait": (1, 10, 0)}
    kept = [start for start, *_ in newest(block, 10**9)[NUMBERS["play"]]]
    assert len(kept) == ROWS and kept == sorted(kept)


def rounds(steps, count, clock, took):
    """Play rounds of two steps, of which the first takes `took` longer; returns which were recorded."""
    recorded = []
    for number in range(count):
        mark = steps.begin()
        clock[0] += took
        if mark:
            mark()
            recorded.append(number)
            mark()
    return recorded


def test_details_are_recorded_seldom_and_stand_for_those_between(clock, monkeypatch):
    monkeypatch.setattr(spans, "DETAILS_NS", 5000)
    block = make_track()
    steps = Recorder(block).details("see", "choose")
    recorded = rounds(steps, 1000, clock, took=80)  # 100 a round that is recorded
    every = 1 + 5000 // 100
    assert recorded == list(range(0, 1000, every))
    stand_for = 1 + every * (len(recorded) - 1)
    assert totals(block) == {"see": (stand_for, 90 * stand_for, 0), "choose": (stand_for, 10 * stand_for, 0)}
    assert rounds(steps, every, clock, took=10**6) != [] and rounds(steps, 3, clock, took=10**6) == [0, 1, 2]


def test_a_round_that_is_left_is_not_recorded_and_the_next_is(clock):
    block = make_track()
    steps = Recorder(block).details("see", "choose")
    steps.begin()()
    assert rounds(steps, 3, clock, took=1)[:1] == [0] and totals(block)["see"][0] == 1


def test_nothing_is_recorded_in_a_thread_without_a_track():
    assert here.recorder is None and span("play") is span("wait")
    with span("play"):
        assert details("see").begin() is None
    assert rounds(Details(), 100, [0], 1) == []
    here.recorder, seen = Recorder(make_track()), []
    try:
        thread = threading.Thread(target=lambda: seen.append(here.recorder))
        thread.start()
        thread.join()
    finally:
        here.recorder = None
    assert seen == [None]


def test_names_of_a_users_own_are_counted_together():
    block = make_track()
    recorder = Recorder(block)
    for number in range(100):
        with recorder.span(f"span {number}"):
            pass
    assert totals(block).keys() == {"own"} and totals(block)["own"][0] == 100
