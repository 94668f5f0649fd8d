"""Figures of a sample of episodes: mean, interquartile mean, and an interval that says how far the mean can be trusted."""

from collections.abc import Sequence
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
    ordered = np.sort(_sample(values))
    edges = np.arange(len(ordered) + 1, dtype=np.float64)
    first, last = len(ordered) / 4, len(ordered) * 3 / 4
    weights = np.diff(np.clip(edges, first, last))
    return float(weights @ ordered / (last - first))


def bootstrap_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the mean: the middle 95 % of the means of samples drawn from the values, with replacement."""
    sample = _sample(values)
    if len(sample) == 1:
        return None
    rng = np.random.default_rng(SEED)
    means = np.empty(RESAMPLES)
    rows = max(1, AT_ONCE // len(sample))
    for start in range(0, RESAMPLES, rows):
        part = means[start : start + rows]
        part[:] = sample[rng.integers(len(sample), size=(len(part), len(sample)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def _sample(values: Sequence[float]) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not len(sample):
        raise ValueError(f"the sample has shape {sample.shape}: expected at least one value in a row.")
    return sample
