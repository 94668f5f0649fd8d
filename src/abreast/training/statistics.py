"""Figures of a sample of episodes: mean, interquartile mean, and an interval that says how far the mean can be trusted;
and of many runs in several tasks, which are compared.

Shapes: R resamples, N values, T thresholds.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
"""Samples that the bootstrap draws: the ends of the interval then vary by about 1 % of its width from seed to seed."""
SEED = 95
"""Of the bootstrap: the same values always have the same interval."""
AT_ONCE = 1_000_000
"""Numbers that the bootstrap draws at a time, so that its memory does not grow with the number of values."""


class Summary(NamedTuple):
    """What a sample says about the quantity it was drawn from."""

    mean: float
    interquartile_mean: float
    interval: tuple[float, float] | None
    """Within it the mean lies with 95 % confidence; none for a single value, which says nothing of its spread."""
    values: list[float]


def summarise(values: Sequence[float]) -> Summary:
    """All figures of at least one value."""
    return Summary(mean(values), interquartile_mean(values), bootstrap_interval(values), list(values))


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return float(np.mean(_sample(values)))


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half: a quarter of the sample is left out at each end.

    Where a quarter is no whole number of values, the value at each edge counts in part: of five, the weights are 0, 0.75, 1,
    0.75, 0. (To round the quarter down, as `scipy.stats.trim_mean` does, is the same if the number is divisible by four,
    and leaves out nothing at all of three values.)
    """
    return float(_interquartile_means(_sample(values)[None])[0])


def _interquartile_means(samples_RN: NDArray[np.float64]) -> NDArray[np.float64]:
    """That of each row."""
    size = samples_RN.shape[1]
    first, last = size / 4, size * 3 / 4
    weights = np.diff(np.clip(np.arange(size + 1, dtype=np.float64), first, last))
    return np.asarray(np.sort(samples_RN, axis=1) @ weights / (last - first))


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean: the middle 95 % of the means of samples drawn from the values, with replacement."""
    return _interval([[values]], lambda drawn: drawn[0][0].mean(axis=1), fewest=2)


# ---- runs in tasks: the values of a task are those of its runs, and tasks may have different numbers of them

Tasks = Sequence[Sequence[float]]
FEWEST_RUNS = 3
"""Runs in each task without which there is no interval: with two, it says nothing but the two values."""


def interquartile_mean_of_tasks(tasks: Tasks) -> float:
    """Of all runs in all tasks together."""
    return interquartile_mean([value for runs in tasks for value in runs])


def stratified_interval(tasks: Tasks) -> tuple[float, float] | None:
    """The 95 % interval of the interquartile mean over runs and tasks: runs are resampled within their task. None if a task
    has too few runs."""
    return _interval([tasks], lambda drawn: _interquartile_means(np.concatenate(drawn[0], axis=1)))


def probability_of_improvement(ours: Tasks, others: Tasks) -> float:
    """How often a run of ours is better than one of the others: the mean over tasks of U / (n m), where Mann and Whitney's U
    counts the pairs in which ours is better, and those that are equal as half."""
    return float(_probabilities([_sample(runs)[None] for runs in ours], [_sample(runs)[None] for runs in others])[0])


def improvement_interval(ours: Tasks, others: Tasks) -> tuple[float, float] | None:
    """Its 95 % interval. Runs of both are resampled within their task."""
    return _interval([ours, others], lambda drawn: _probabilities(*drawn))


def performance_profile(tasks: Tasks, thresholds_T: Sequence[float]) -> list[float]:
    """For each threshold, the share of runs that are better; in the mean over tasks."""
    shares = [(_sample(runs)[:, None] > np.asarray(thresholds_T)).mean(axis=0) for runs in tasks]
    return [float(share) for share in np.mean(shares, axis=0)]


def _probabilities(ours: list[NDArray[np.float64]], others: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Of each row."""
    by_task = []
    for one_RN, two_RN in zip(ours, others, strict=True):
        difference = one_RN[:, :, None] - two_RN[:, None, :]
        by_task.append(((difference > 0) + 0.5 * (difference == 0)).mean(axis=(1, 2)))
    return np.asarray(np.mean(by_task, axis=0))


def _interval(
    samples: Sequence[Tasks],
    figure: Callable[[list[list[NDArray[np.float64]]]], NDArray[np.float64]],
    fewest: int = FEWEST_RUNS,
) -> tuple[float, float] | None:
    """Return the middle 95 % of a figure of resampled tasks, which it computes for many resamples at once; None if a task
    has fewer than `fewest` values."""
    parts = [[_sample(runs) for runs in tasks] for tasks in samples]
    if min(len(runs) for tasks in parts for runs in tasks) < fewest:
        return None
    rng = np.random.default_rng(SEED)
    most = max(1, AT_ONCE // max(len(runs) for tasks in parts for runs in tasks) ** len(parts))
    found = list[NDArray[np.float64]]()
    for start in range(0, RESAMPLES, most):
        rows = min(most, RESAMPLES - start)
        found.append(
            figure([[runs[rng.integers(len(runs), size=(rows, len(runs)))] for runs in tasks] for tasks in parts])
        )
    low, high = np.quantile(np.concatenate(found), [0.025, 0.975])
    return float(low), float(high)


def _sample(values: Sequence[float]) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not len(sample):
        raise ValueError(f"the sample has shape {sample.shape}: expected at least one value in a row.")
    return sample
