"""Ratios and shares of limits, from made-up figures."""

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


def test_a_row_without_ratio_has_no_share():
    row = Row("a", "GB/s", [3.0, 5.0])
    assert (row.value, row.ratio, row.limit, row.share) == (4.0, None, None, None)


def test_the_facts_hold_every_repeat_and_fit_into_json():
    facts = Row("a", "s", [1.0, 2.0], [3.0, 4.0], "b", [5.0, 4.0]).facts()
    assert json.loads(json.dumps(facts)) == facts
    assert (facts["values"], facts["ratios"], facts["share_of_limit"]) == ([1.0, 2.0], [3.0, 4.0], 0.8)
