"""Whether turns wait or compute."""

import time

import pytest

from abreast.rollouts.episodes.episode import Clock
from abreast.rollouts.workers import meter as module
from abreast.rollouts.workers.meter import WINDOW, Meter


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set; turns are noted at their end."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def note(meter, clock, seconds, waited, times=1, apart=None, **more):
    for _ in range(times):
        clock[0] += seconds if apart is None else apart
        meter.note(seconds, waited, **more)


def test_quick_turns_are_not_counted_before_there_is_a_slow_one(clock):
    meter = Meter()
    note(meter, clock, 1e-5, 0.0, times=100)
    assert not meter.waits and meter.compute_s == 0.0


def test_one_long_wait_is_enough_and_short_ones_are_believed_after_three(clock):
    meter = Meter()
    note(meter, clock, 0.2, 0.199)
    assert meter.waits
    meter = Meter()
    for waits in (False, False, True):
        note(meter, clock, 0.004, 0.0039)
        assert meter.waits == waits


def test_quick_starts_say_nothing_and_slow_ones_do(clock):
    meter = Meter()
    note(meter, clock, 0.2, 0.2)
    note(meter, clock, 1e-5, 0.0, times=50, is_start=True)
    assert meter.waits
    meter = Meter()
    note(meter, clock, 0.001, 2.0, is_start=True)  # it waited while it was made
    assert meter.waits


def test_turns_that_compute_do_not_wait_and_the_newest_decide(clock):
    meter = Meter()
    note(meter, clock, 0.01, 0.004, times=5)
    assert not meter.waits and meter.compute_s == pytest.approx(0.01)
    note(meter, clock, 0.01, 0.0099, times=WINDOW)
    assert meter.waits and meter.compute_s == 0.0
    note(meter, clock, 1e-5, 0.0, times=WINDOW)
    assert not meter.waits


def test_turns_that_wait_for_the_interpreter_only_are_told_from_those_that_wait_for_something(clock):
    saturated, waiting = Meter(), Meter()
    for _ in range(4):  # sixteen threads that compute for 10 ms each, and as many that wait for 160 ms
        note(saturated, clock, 0.16, 0.15, times=WINDOW, apart=0.01)
        note(waiting, clock, 0.16, 0.159, times=WINDOW, apart=0.01)
    assert waiting.waits and not saturated.waits


def test_a_clock_tells_waiting_from_computing():
    clock = Clock()
    time.sleep(0.02)
    assert clock.waited > 0.015
    clock = Clock()
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    assert clock.waited < clock.seconds - 0.019, "what was computed has not been waited for"
