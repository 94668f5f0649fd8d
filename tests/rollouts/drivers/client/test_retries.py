"""Waits between requests."""

import random
from datetime import UTC, datetime

import pytest

from abreast.rollouts.drivers.client.retries import retry_after_s, wait_s


def test_waits_double_up_to_the_longest_and_are_shortened_by_at_most_half():
    rng = random.Random(1)
    for attempt, whole in enumerate([0.5, 1, 2, 4, 8, 16, 30, 30]):
        waits = [wait_s(attempt, None, rng) for _ in range(200)]
        assert whole / 2 <= min(waits) < whole * 0.6 and whole * 0.9 < max(waits) <= whole
    assert wait_s(10**6, None, rng) <= 30


def test_what_the_server_asks_for_is_waited_at_least_and_within_reason():
    rng = random.Random(1)
    assert wait_s(0, 7.0, rng) == 7
    assert wait_s(0, 1e9, rng) == 600
    assert wait_s(6, 0.0, rng) >= 15  # a server that says 0 again and again is not asked without end


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None), ("3", 3), ("0.5", 0.5), ("-2", 0), ("soon", None), ("inf", None), ("nan", None),
        ("Sun, 01 Mar 2026 10:00:30 GMT", 30), ("Sun, 01 Mar 2026 09:00:00 GMT", 0), ("Sun, 01 Mar 2026 10:01:00 -0000", 60),
    ],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_date(header, seconds):
    assert retry_after_s(header, datetime(2026, 3, 1, 10, tzinfo=UTC)) == seconds
