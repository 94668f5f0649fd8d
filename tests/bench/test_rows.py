"""Ratios, shares of limits and verdicts, from made-up figures."""

import json

import pytest

from abreast.bench.rows import Row, quotients


def test_a_ratio_is_the_median_of_the_ratios_of_each_repeat():
    values, base = [10.0, 40.0, 90.0], [10.0, 20.0, 30.0]
    row = Row("a", "steps/s", values, quotients(values, base), "b")
    assert (row.value, row.ratio) == (40.0, 2.0)


def test_repeats_that_do_not_belong_together_are_no_ratio():
    with pytest.raises(ValueError, match="shorter"):
        quotients([1.0, 2.0], [1.0])


def test_the_share_of_a_limit_is_taken_in_each_repeat():
    row = Row("a", "steps/s", [1.0] * 3, [1.0, 2.0, 3.0], "b", [2.0, 4.0, 3.0])
    assert (row.limit, row.share) == (3.0, 0.5)


def test_where_less_is_better_the_floor_is_what_could_be_reached():
    row = Row("update", "ms", [1.25], [1.25], "its products", [1.0], "less")
    assert row.share == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("ratio", "better", "bar", "expected"),
    [
        (1.3, "less", 1.3, "reached"),
        (1.31, "less", 1.3, "missed"),
        (9.0, "more", 9.0, "reached"),
        (8.9, "more", 9.0, "missed"),
        (8.9, "more", None, None),
    ],
)
def test_a_bar_is_reached_or_missed(ratio, better, bar, expected):
    assert Row("a", "s", [1.0], [ratio], "b", (), better, bar).verdict == expected


@pytest.mark.parametrize(("ratio", "expected"), [(1.2, "reached"), (1.1, "missed")])
def test_a_bar_may_be_for_the_share_of_the_limit(ratio, expected):
    assert Row("a", "s", [1.0], [ratio], "b", [2.0], bar=0.6, bar_of="share").verdict == expected


def test_a_row_without_ratio_has_no_verdict():
    row = Row("a", "GB/s", [3.0, 5.0])
    assert (row.value, row.ratio, row.limit, row.share, row.verdict) == (4.0, None, None, None, None)


def test_the_facts_hold_every_repeat_and_fit_into_json():
    facts = Row("a", "s", [1.0, 2.0], (3.0, 4.0), "b", [5.0], bar=0.5, bar_of="share").facts()
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["values"], facts["ratios"], facts["bar_of"]) == ([1.0, 2.0], [3.0, 4.0], "share")
