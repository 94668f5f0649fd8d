"""Where the environments of a tag should live, given what their first turns took."""

import time

import pytest

from abreast.rollouts.episodes.episode import Clock, TurnResult
from abreast.rollouts.workers import timing as module
from abreast.rollouts.workers.timing import (
    EPOCHS,
    MOST_TURNS,
    WINDOW,
    Cost,
    PlacementRules,
    Timing,
    Trials,
    best_count,
    deal_out,
    is_cheap,
)

RULES = PlacementRules(turn_message_s=10e-6, order_s=100e-6, gain=0.8, worth_s=300e-6)


@pytest.fixture
def clock(monkeypatch):
    """A clock that tests set; turns are noted at their end."""
    now = [100.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    return now


def note(timing, clock, seconds, waited, times=1, apart=None, is_start=False):
    for _ in range(times):
        clock[0] += seconds if apart is None else apart
        timing.note(TurnResult("", seconds=seconds, waited=waited), is_start)


# ---- one tag


def test_a_tag_is_timed_once_after_enough_time_by_its_medians(clock):
    timing = Timing(enough_s=0.05)
    note(timing, clock, 0.001, 0.0, is_start=True)
    note(timing, clock, 0.01, 0.0, times=2)  # imports and cold caches
    note(timing, clock, 0.0001, 0.0, times=200)
    assert timing.cost is None and timing.is_open, "what is measured in the first milliseconds says little"
    note(timing, clock, 0.0001, 0.0, times=100)
    assert timing.cost == Cost(0.0001, 0.001, 292) and not timing.is_open
    note(timing, clock, 0.002, 0.0, times=1000)
    assert timing.cost == Cost(0.0001, 0.001, 292)


def test_quick_turns_are_timed_after_so_many(clock):
    timing = Timing(enough_s=0.05)
    note(timing, clock, 1e-6, 0.0, times=MOST_TURNS)
    assert timing.cost is not None and timing.cost.turn_s == 1e-6 and not timing.waits


def test_one_long_wait_is_enough_and_short_ones_are_believed_after_three(clock):
    timing = Timing(0.05)
    note(timing, clock, 0.2, 0.199)
    assert timing.waits and timing.compute_s == 0.0
    timing = Timing(0.05)
    for waits in (False, False, True):
        note(timing, clock, 0.004, 0.0039)
        assert timing.waits == waits


def test_quick_starts_say_nothing_and_slow_ones_do(clock):
    timing = Timing(0.05)
    note(timing, clock, 0.004, 0.0039, times=2)
    note(timing, clock, 1e-5, 0.0, times=50, is_start=True)
    note(timing, clock, 0.004, 0.0039)
    assert timing.waits
    timing = Timing(0.05)
    note(timing, clock, 0.001, 2.0, is_start=True)  # it waited while it was made
    assert timing.waits


def test_turns_that_compute_do_not_wait_and_it_may_turn_out_later_that_they_do(clock):
    timing = Timing(0.05)
    note(timing, clock, 0.01, 0.004, times=6)
    assert not timing.waits and timing.compute_s == pytest.approx(0.01)
    note(timing, clock, 0.01, 0.0099, times=3)
    assert timing.waits and timing.compute_s == 0.0


def test_turns_that_wait_for_the_interpreter_only_are_told_from_those_that_wait_for_something(clock):
    saturated, waiting = Timing(0.05), Timing(0.05)
    for _ in range(4):  # sixteen threads that compute for 10 ms each, and as many that wait for 160 ms
        note(saturated, clock, 0.16, 0.15, times=WINDOW, apart=0.01)
        note(waiting, clock, 0.16, 0.159, times=WINDOW, apart=0.01)
    assert waiting.waits and not saturated.waits
    for _ in range(20):
        note(saturated, clock, 0.16, 0.15, times=WINDOW + 1, apart=0.01)
    note(saturated, clock, 0.2, 0.199, times=3)
    assert not saturated.waits, "threads were tried often enough"


def test_a_clock_tells_waiting_from_computing():
    clock = Clock()
    time.sleep(0.02)
    assert clock.waited > 0.015
    clock = Clock()
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    assert clock.waited < clock.seconds - 0.019, "what was computed has not been waited for"


# ---- all of a batch


def count(turn_s, envs=16, start_s=0.0, turns=10, is_auto=True, most=4):
    return best_count([Cost(turn_s, start_s, turns)] * envs, most, RULES, is_auto)


def test_auto_uses_workers_where_they_pay_and_as_many_as_do():
    assert count(0.001) == 4 and count(50e-6, is_auto=False) in (2, 3) and count(5e-6) == 0
    assert count(0.001, most=1) == 0, "one worker is no gain"
    assert count(0.001, envs=1) == 0


def test_what_is_expensive_to_start_goes_to_workers_however_cheap_its_turns():
    assert count(1e-6, start_s=0.01) == 4
    assert is_cheap(Cost(1e-5, 0.0005, 10), RULES), "rooms of Sokoban stay where they are"
    assert not is_cheap(Cost(1e-6, 0.01, 10), RULES)


def test_forced_workers_are_all_used_at_first_and_then_as_many_as_there_is_work_for():
    assert best_count([None] * 16, 4, RULES, is_auto=False) == 4 and best_count([None], 4, RULES, is_auto=True) == 0
    assert count(1e-6, is_auto=False) == 1 and count(0.01, is_auto=False) == 4


def test_the_most_expensive_have_a_worker_for_themselves_and_those_that_have_a_place_keep_it():
    costs = {0: 5.0, **dict.fromkeys(range(1, 6), 1.0)}
    places, longest = deal_out(costs, [0, 1], {})
    assert longest == 5.0 and [env_id for env_id in places if places[env_id] == places[0]] == [0]
    kept, longest = deal_out(costs, [0, 1], dict.fromkeys(costs, 1))
    assert set(kept.values()) == {1} and longest == 10.0
    assert deal_out(costs, [0], {0: 1, 1: 0})[0] == dict.fromkeys(costs, 0), "worker 1 is lost"


def play(trials, seconds, epochs, candidates, known):
    """Epochs that take so long per turn, by number of workers; how many were used in each."""
    used = []
    for _ in range(epochs):
        used.append(trials.choose(("auto",), candidates, known))
        trials.add(100 * seconds[used[-1]], 100)
    return used


def test_workers_that_keep_their_promise_are_kept_and_others_are_left_for_good():
    assert play(Trials(), {0: 2.0, 4: 1.0}, 20, [4, 0], {0: 2.0}) == [4] * 20
    used = play(Trials(), {0: 2.0, 4: 3.0}, 20, [4, 0], {0: 2.0})
    assert used == [4] * (EPOCHS + 1) + [0] * (19 - EPOCHS), "its first epoch is not measured: environments are made"


def test_two_numbers_of_workers_are_both_tried_if_neither_is_known():
    used = play(Trials(), {1: 1.0, 2: 2.0}, 20, [2, 1], {})
    assert used[: EPOCHS + 1] == [2] * (EPOCHS + 1) and set(used[EPOCHS + 1 :]) == {1}
    trials = Trials()
    play(trials, {1: 1.0, 2: 2.0}, 20, [2, 1], {})
    assert trials.choose(("another",), [2, 1], {}) == 2, "all begins anew"
