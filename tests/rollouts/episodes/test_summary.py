"""Summaries of episodes."""

import numpy as np
import pytest

from abreast.rollouts.episodes.summary import pass_at_k


def test_pass_at_k_is_the_unbiased_estimate():
    results = [True, False, False, True, False]
    estimate = pass_at_k(results)
    for k in range(1, 6):
        rng = np.random.default_rng(k)
        drawn = np.mean([any(rng.choice(results, k, replace=False)) for _ in range(3000)])
        assert estimate[f"pass@{k}"] == pytest.approx(drawn, abs=0.03)
    assert pass_at_k([False, False]) == {"pass@1": 0.0, "pass@2": 0.0}
