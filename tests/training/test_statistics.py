"""Mean, interquartile mean and bootstrap interval, against values computed by hand."""

import math

import numpy as np
import pytest

from abreast.training import statistics
from abreast.training.statistics import (
    bootstrap_interval,
    improvement_interval,
    interquartile_mean,
    interquartile_mean_of_tasks,
    mean,
    performance_profile,
    probability_of_improvement,
    stratified_interval,
    summarise,
)


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


# ---- runs in tasks

TASKS = [[1.0, 4.0, 2.0, 9.0, 3.0], [10.0, 7.0, 8.0, 12.0]]
OTHERS = [[1.5, 2.0, 2.0], [7.0, 7.5, 20.0, 1.0]]


def test_the_interquartile_mean_of_tasks_is_that_of_all_runs_together():
    # Of nine values in order, 1 2 3 4 7 8 9 10 12, a quarter is 2.25: the third counts 0.75, as does the seventh.
    assert interquartile_mean_of_tasks(TASKS) == pytest.approx((0.75 * 3 + 4 + 7 + 8 + 0.75 * 9) / 4.5)


def test_the_probability_of_improvement_counts_pairs_and_ties_as_half():
    first = (0 + 3 + (1 + 0.5 + 0.5) + 3 + 3) / 15
    second = (3 + (0.5 + 1) + 3 + 3) / 16
    assert probability_of_improvement(TASKS, OTHERS) == pytest.approx((first + second) / 2)
    assert probability_of_improvement(TASKS, OTHERS) + probability_of_improvement(OTHERS, TASKS) == pytest.approx(1)


def test_a_performance_profile_is_the_share_above_each_threshold():
    assert performance_profile(TASKS, [0.0, 3.0, 9.0]) == pytest.approx([1.0, (2 / 5 + 1) / 2, (0 + 2 / 4) / 2])


def test_two_runs_are_too_few_for_an_interval():
    assert stratified_interval([[1.0, 2.0], [1.0, 2.0, 3.0]]) is None
    assert improvement_interval(TASKS, [[1.0, 2.0], [1.0, 2.0, 3.0]]) is None


def test_intervals_are_seeded_and_resample_runs_within_their_task():
    assert stratified_interval(TASKS) == stratified_interval(TASKS)
    apart = [[0.0, 0.0, 0.0], [100.0, 100.0, 100.0]]  # without strata, tasks would be drawn as well
    assert stratified_interval(apart) == (50.0, 50.0)
    low, high = improvement_interval(TASKS, OTHERS)
    assert 0 <= low < probability_of_improvement(TASKS, OTHERS) < high <= 1


def test_they_agree_with_scipy():
    stats = pytest.importorskip("scipy.stats", reason="another implementation")
    rng = np.random.default_rng(3)
    one, two = rng.normal(size=12), np.round(rng.normal(size=15), 1)
    assert probability_of_improvement([one], [two]) == pytest.approx(stats.mannwhitneyu(one, two).statistic / (12 * 15))
    theirs = stats.bootstrap(
        [one], lambda x, axis: stats.trim_mean(x, 0.25, axis=axis), method="percentile", n_resamples=10_000, rng=rng
    )
    assert stratified_interval([one]) == pytest.approx(tuple(theirs.confidence_interval), abs=0.03)

    def of_both(first, second, axis):
        return stats.trim_mean(np.concatenate([first, second], axis=axis), 0.25, axis=axis)

    three = two[:8] + 2
    theirs = stats.bootstrap([one, three], of_both, method="percentile", n_resamples=10_000, rng=rng)
    assert stratified_interval([one, three]) == pytest.approx(tuple(theirs.confidence_interval), abs=0.05)
