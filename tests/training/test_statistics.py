"""Mean, interquartile mean and bootstrap interval, against values computed by hand."""

import math

import numpy as np
import pytest

from abreast.training import statistics
from abreast.training.statistics import bootstrap_interval, interquartile_mean, mean, summarise


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 2.0], 1.5),
        ([0.0, 3.0, 300.0], (0.25 * 0 + 3 + 0.25 * 300) / 1.5),  # 0.75 left out at each end
        ([0.0, 2.0, 4.0, 1000.0], 3.0),
        ([-1000.0, 1.0, 2.0, 3.0, 1000.0], (0.75 * 1 + 2 + 0.75 * 3) / 2.5),
        ([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 100.0, 100.0], 2.5),
    ],
)
def test_interquartile_mean_by_hand(values, expected):
    assert interquartile_mean(values) == pytest.approx(expected, rel=1e-15)
    assert interquartile_mean(values[::-1]) == interquartile_mean(values)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 9, 32, 101])
def test_interquartile_mean_is_that_of_four_copies(count):
    """Of four times as many values a quarter is a whole number: what is left out is then beyond doubt."""
    values = np.random.default_rng(count).normal(size=count)
    plain = np.sort(np.repeat(values, 4))[count : 3 * count].mean()
    assert interquartile_mean(values) == pytest.approx(plain, rel=1e-12)


def test_outliers_move_the_mean_and_not_the_interquartile_mean():
    values = [1.0] * 12 + [2.0] * 12
    wild = [*values[1:], 1e6]
    assert mean(wild) > 1000
    assert interquartile_mean(wild) == pytest.approx(1.5, abs=0.1)


def test_interval_of_coins_is_that_of_the_binomial_distribution():
    """The mean of a resample of ten zeros and ten ones is that of 20 coins: 6 to 14 heads are the middle 95 %."""
    assert bootstrap_interval([0.0, 1.0] * 10) == (0.3, 0.7)
    assert bootstrap_interval([0.0, 1.0]) == (0.0, 1.0)


def test_interval_of_many_values_is_that_of_the_normal_distribution():
    values = np.random.default_rng(1).normal(3.0, 2.0, size=1000)
    half = 1.96 * values.std() / math.sqrt(1000)
    low, high = bootstrap_interval(values)
    assert low == pytest.approx(values.mean() - half, abs=0.05 * half)
    assert high == pytest.approx(values.mean() + half, abs=0.05 * half)


def test_interval_is_the_same_every_time_and_whatever_is_drawn_at_once(monkeypatch):
    values = np.random.default_rng(2).normal(size=33).tolist()
    np.random.seed(1)  # noqa: NPY002 (must not matter)
    first = bootstrap_interval(values)
    np.random.seed(2)  # noqa: NPY002
    monkeypatch.setattr(statistics, "AT_ONCE", 1000)
    assert bootstrap_interval(values) == first


def test_one_value_has_no_interval():
    assert bootstrap_interval([4.0]) is None
    assert summarise([4.0]) == (4.0, 4.0, None, [4.0])


def test_a_constant_has_an_interval_of_no_width():
    assert summarise([2.0, 2.0, 2.0]) == (2.0, 2.0, (2.0, 2.0), [2.0, 2.0, 2.0])


def test_no_values_are_refused():
    for wrong in ([], [[1.0]]):
        with pytest.raises(ValueError, match="expected at least one value"):
            summarise(wrong)
