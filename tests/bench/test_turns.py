"""Turns of variants, with a clock that is told how long things take."""

import pytest

from abreast.bench.turns import in_turns, rate_of, seconds_of


class Clock:
    """Goes on when something is done."""

    now = 0.0

    def __call__(self):
        return self.now

    def task(self, *seconds):
        left = list(seconds)

        def run():
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return run


def test_every_variant_has_its_turn_in_every_repeat_in_changing_order():
    order = []
    variants = {name: lambda name=name: order.append(name) or name for name in "abc"}
    found = in_turns(variants, 20)
    assert found == {name: [name] * 20 for name in "abc"}
    rounds = {tuple(order[place : place + 3]) for place in range(0, 60, 3)}
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds) and len(rounds) > 1


def test_seconds_of_a_call_are_the_mean_of_some():
    clock = Clock()
    assert seconds_of(clock.task(1.0, 2.0, 3.0), 3, clock) == 2.0


@pytest.mark.parametrize(("each", "seconds", "expected"), [(0.25, 1.0, 4.0), (4.0, 1.0, 0.25)])
def test_a_rate_counts_calls_until_the_time_is_over(each, seconds, expected):
    clock = Clock()
    assert rate_of(clock.task(each), seconds, clock) == expected
