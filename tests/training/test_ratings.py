"""Ratings, against values computed by hand."""

import numpy as np
import pytest

from abreast.training.ratings import POPULATION, SELECTION, alpha_rank, elo

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def rated(won):
    won = np.array(won, dtype=float)
    return elo(won, won + won.T)


def test_elo_of_two_is_the_logarithm_of_their_odds():
    points, widths = rated([[0, 3], [1, 0]])
    assert points[0] - points[1] == pytest.approx(400 * np.log10(3.5 / 1.5))  # with one draw more
    assert points.mean() == pytest.approx(1500)
    # Half the difference has the variance 1 / (4 n p q), in units of 400 / ln 10, with n = 5 and p = 0.7.
    assert widths == pytest.approx(1.96 * 400 / np.log(10) / np.sqrt(4 * 5 * 0.7 * 0.3))


def test_elo_gives_each_as_many_games_as_it_has_won():
    won = np.random.default_rng(0).integers(0, 9, (5, 5)).astype(float)
    np.fill_diagonal(won, 0)
    games = won + won.T
    points, _ = elo(won, games)
    expected = 1 / (1 + 10 ** ((points[None] - points[:, None]) / 400))
    met = 1 - np.eye(5)
    assert ((games + met) * expected * met).sum(axis=1) == pytest.approx((won + met / 2).sum(axis=1))


def test_elo_does_not_depend_on_the_order_and_is_finite_for_one_that_always_wins():
    won = np.triu(np.full((4, 4), 1000.0), 1)
    turned = [2, 0, 3, 1]
    points, widths = elo(won, won + won.T)
    assert list(np.argsort(-points)) == [0, 1, 2, 3] and np.isfinite([*points, *widths]).all()
    again, _ = elo(won[turned][:, turned], (won + won.T)[turned][:, turned])
    assert again == pytest.approx(points[turned])
    assert rated(np.full((3, 3), 2.0) - 2 * np.eye(3))[0] == pytest.approx([1500] * 3)  # all even


def test_alpha_rank_of_rock_paper_scissors_is_uniform_and_what_is_dominated_gets_nothing():
    assert alpha_rank(ROCK_PAPER_SCISSORS) == pytest.approx([1 / 3] * 3)
    with_worst = np.pad(ROCK_PAPER_SCISSORS, (0, 1), constant_values=-2.0)
    with_worst[:3, 3] = 2.0
    shares = alpha_rank(with_worst)
    assert shares[:3] == pytest.approx([1 / 3] * 3) and shares[3] < 1e-100
    assert alpha_rank(np.triu(np.ones((4, 4)), 1)) == pytest.approx([1, 0, 0, 0], abs=1e-100)


def test_alpha_rank_of_two_is_the_ratio_of_their_chances_to_spread():
    shares = alpha_rank(np.array([[5.0, 2.0], [1.0, 7.0]]))  # the diagonal does not count
    spread = [(1 - np.exp(-gain)) / (1 - np.exp(-POPULATION * gain)) for gain in (SELECTION, -SELECTION)]
    assert shares == pytest.approx(np.array(spread) / sum(spread))
    assert alpha_rank(np.zeros((3, 3))) == pytest.approx([1 / 3] * 3)
    assert list(alpha_rank(np.zeros((1, 1)))) == [1.0]
