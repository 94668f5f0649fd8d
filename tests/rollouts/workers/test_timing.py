"""Where the environments of a tag should live, given what their first turns took."""

import time

from abreast.rollouts.episodes.episode import Clock, TurnResult
from abreast.rollouts.workers.timing import (
    MOST_TURNS,
    Cost,
    PlacementRules,
    Timing,
    best_count,
    deal_out,
    is_cheap,
)

RULES = PlacementRules(turn_message_s=10e-6, order_s=100e-6, gain=0.8, worth_s=300e-6)


def note(timing, seconds, waited, times=1, is_start=False):
    for _ in range(times):
        timing.note(TurnResult("", seconds=seconds, waited=waited), is_start)


# ---- one tag


def test_a_tag_is_timed_once_after_enough_time_by_its_medians():
    timing = Timing(enough_s=0.05)
    note(timing, 0.001, 0.0, is_start=True)
    note(timing, 0.01, 0.0, times=2)  # imports and cold caches
    note(timing, 0.0001, 0.0, times=200)
    assert timing.cost is None, "what is measured in the first milliseconds says little"
    note(timing, 0.0001, 0.0, times=100)
    assert timing.cost == Cost(0.0001, 0.001, 292)
    note(timing, 0.002, 0.0, times=1000)
    assert timing.cost == Cost(0.0001, 0.001, 292)


def test_quick_turns_are_timed_after_so_many():
    timing = Timing(enough_s=0.05)
    note(timing, 1e-6, 0.0, times=MOST_TURNS)
    assert timing.cost is not None and timing.cost.turn_s == 1e-6 and not timing.waits


def test_one_long_wait_is_enough_and_short_ones_are_believed_after_three():
    timing = Timing(0.05)
    note(timing, 0.2, 0.199)
    assert timing.waits
    timing = Timing(0.05)
    for waits in (False, False, True):
        note(timing, 0.004, 0.0039)
        assert timing.waits == waits


def test_quick_starts_say_nothing_and_slow_ones_do():
    timing = Timing(0.05)
    note(timing, 0.004, 0.0039, times=2)
    note(timing, 1e-5, 0.0, times=50, is_start=True)
    note(timing, 0.004, 0.0039)
    assert timing.waits
    timing = Timing(0.05)
    note(timing, 0.001, 2.0, is_start=True)  # it waited while it was made
    assert timing.waits


def test_turns_that_compute_do_not_wait_and_it_may_turn_out_later_that_they_do():
    timing = Timing(0.05)
    note(timing, 0.01, 0.004, times=6)
    assert not timing.waits
    note(timing, 0.01, 0.0099, times=3)
    assert timing.waits


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


def test_the_most_expensive_have_a_worker_for_themselves():
    costs = {0: 5.0, **dict.fromkeys(range(1, 6), 1.0)}
    places = deal_out(costs, [0, 1])
    assert [env_id for env_id in places if places[env_id] == places[0]] == [0]
    assert deal_out(costs, [3]) == dict.fromkeys(costs, 3)
