"""Ratings of entrants that have played each other: Elo by maximum likelihood, and α-rank. Legend: E entrant (row: whose
figure it is, column: against whom).
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MEAN_ELO = 1500.0
"""Ratings say only how far entrants are from each other, so their mean is set."""
POINTS = 400 / np.log(10)
"""Elo points for a factor e of the odds: 400 points are odds of 10 to 1."""
STEPS, LONGEST, SMALL = 200, 2.0, 1e-12
"""Of Newton's method: how many, the longest, and the one after which it ends."""
SELECTION, POPULATION = 10.0, 50
"""α and m of α-rank."""


def elo(won_EE: Floats, games_EE: Floats) -> tuple[Floats, Floats]:
    """The most likely ratings, and the half widths of their 95 % intervals.

    won_EE: games that the row has won against the column; a draw is half a game for each. Every pair that has met is given
    one draw more: an entrant that has won all its games would have no finite rating.
    """
    met = (games_EE > 0).astype(np.float64)
    won, games = won_EE + met / 2, games_EE + met
    ratings, covariance = np.zeros(len(won)), np.zeros_like(won)
    for _ in range(STEPS if len(won) > 1 else 0):
        expected = 1 / (1 + np.exp(ratings[None] - ratings[:, None]))
        curvature = games * expected * (1 - expected)
        free = (
            curvature.mean()
        )  # ratings that all rise by the same are as likely: that direction is filled, then taken out
        filled = np.diag(curvature.sum(axis=1)) - curvature + free
        covariance = np.linalg.inv(filled) - 1 / (free * len(won) ** 2)
        step = covariance @ (won - games * expected).sum(axis=1)
        longest = float(np.abs(step).max())
        ratings += step * min(1.0, LONGEST / max(longest, SMALL))
        if longest < SMALL:
            break
    widths = 1.96 * np.sqrt(np.clip(np.diag(covariance), 0, None))
    return MEAN_ELO + POINTS * (ratings - ratings.mean()), POINTS * widths


def alpha_rank(payoffs_EE: Floats) -> Floats:
    """The share of time that evolution spends at each entrant: the stationary distribution of a population in which now and
    then one entrant appears among many of another, and spreads or dies out.

    payoffs_EE: what the row gets against the column. Differences count in units of the largest.
    """
    gains = payoffs_EE.T - payoffs_EE  # of the column, which appears, over the row, which is there
    np.fill_diagonal(gains, 0.0)
    pressures = SELECTION * gains / (np.abs(gains).max() or 1.0)
    is_even = np.abs(pressures) < SMALL
    safe = np.where(is_even, 1.0, pressures)
    spreads = np.where(is_even, 1 / POPULATION, np.expm1(-safe) / np.expm1(-POPULATION * safe))
    return _stationary(spreads / max(1, len(payoffs_EE) - 1))


def _stationary(chances_EE: Floats) -> Floats:
    """The stationary distribution of a Markov chain, given its chances of going elsewhere, by the elimination of Grassmann,
    Taksar and Heyman: nothing is subtracted, so that chances of 1e-200 do no harm.
    """
    left = chances_EE.copy()
    for last in range(len(left) - 1, 0, -1):
        left[:last, last] /= left[last, :last].sum()
        left[:last, :last] += np.outer(left[:last, last], left[last, :last])
    shares = np.ones(len(left))
    for number in range(1, len(left)):
        shares[number] = shares[:number] @ left[:number, number]
    found: Floats = shares / shares.sum()
    return found
