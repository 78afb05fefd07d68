"""Kazan and Reiter (2024), "Prior-itizing privacy": bounds on beliefs, as far as the definitions answer them.

Numbers as in Chapter 5 of Kazan's thesis; the conference version counts theorems 3.x. Printed values are rounded to
nearest and so state bounds that are slightly false (erratum F1): tests hold the exact value and the print.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

import adversary as adv


def test_b01_loss_bound_of_a_small_epsilon() -> None:
    """Example 6: (0.1, 1e-7)-DP with failure 0.01, Theorem 35."""
    assert adv.ApproximateDP(0.1, 1e-7).loss_bound(0.01) == pytest.approx(0.10001905, abs=1e-8)


def test_b02_posterior_of_a_small_epsilon() -> None:
    """Example 6: 48 % to 52 % are printed; 47.5 % to 52.5 % is true (F1)."""
    lower, upper = adv.ApproximateDP(0.1, 1e-7).posterior_bounds(0.5, failure=0.01)
    assert (lower, upper) == pytest.approx((0.475016, 0.524984), abs=1e-6)
    assert lower < 0.48
    assert upper > 0.52


def test_b03_ratio_and_difference_of_a_small_epsilon() -> None:
    """Example 6: 0.90 to 1.1, and 2 % (2.5 %, F1)."""
    g = adv.ApproximateDP(0.1, 1e-7)
    assert g.ratio_bounds(failure=0.01) == pytest.approx((0.904820, 1.105192), abs=1e-6)
    assert g.difference_bounds(failure=0.01) == pytest.approx((-0.0249996, 0.0249996), abs=1e-6)


@pytest.mark.parametrize(("failure", "expected"), [(1e-5, 1.141488), (1e-4, 1.013722), (0.05, 1.000027)])
def test_b04_loss_bound_against_failure(failure: float, expected: float) -> None:
    """Figure 5.1: epsilon 1, delta 1e-6."""
    assert adv.ApproximateDP(1.0, 1e-6).loss_bound(failure) == pytest.approx(expected, abs=1e-6)


def test_b08_and_b23_a_week_of_daily_releases() -> None:
    """Example 7: rho = 7 x 0.01, failure 0.01.

    The published route turns zCDP into (epsilon, delta)-DP by rho + 2 sqrt(rho log(1/delta)), takes the best delta and
    applies Theorem 35: loss 1.584140, posterior 0.829790 (83 %), difference 0.376551 (38 %). Markov's inequality on the
    loss itself gives 1.236547 and 0.774962 (B23): what `loss_bound` answers.
    """
    rho = 0.07
    delta = np.exp(np.linspace(math.log(1e-14), math.log(0.01 * 0.999999), 20_001))
    published = [adv.ApproximateDP(rho + 2 * math.sqrt(rho * math.log(1 / d)), d).loss_bound(0.01) for d in delta]
    best = int(np.argmin(published))
    assert published[best] == pytest.approx(1.584140, abs=1e-5)
    assert delta[best] == pytest.approx(7.4e-4, abs=1e-5)
    promise = adv.PureDP(published[best])
    assert promise.posterior_bounds(0.5)[1] == pytest.approx(0.829790, abs=1e-5)
    assert promise.difference_bounds()[1] == pytest.approx(0.376551, abs=1e-5)
    worst = float(expit(-published[best] / 2))
    assert worst == pytest.approx(0.31172, abs=1e-5)
    assert promise.posterior_bounds(worst)[1] == pytest.approx(0.68828, abs=1e-5)
    direct = adv.ZeroConcentratedDP(rho)
    assert direct.loss_bound(0.01) == pytest.approx(1.236547, abs=1e-6)
    assert direct.posterior_bounds(0.5, failure=0.01)[1] == pytest.approx(0.774962, abs=1e-6)
    assert direct.loss_bound(0.01) < published[best]


def test_b11_epsilon_for_twenty_points_at_any_prior() -> None:
    """Example 8: a rise of at most 0.2 needs a loss of 2 log 1.5 = 0.810930; at delta 1e-6, epsilon 0.810786."""
    loss = 2 * math.log((1 + 0.2) / (1 - 0.2))
    assert loss == pytest.approx(0.810930, abs=1e-6)
    assert adv.PureDP(loss).difference_bounds()[1] == pytest.approx(0.2, abs=1e-12)
    low, high = 0.5, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = adv.ApproximateDP(middle, 1e-6).difference_bounds(failure=0.01)[1] <= 0.2
        low, high = (middle, high) if enough else (low, middle)
    assert low == pytest.approx(0.810786, abs=1e-6)


def test_b15_advertising_system() -> None:
    """Example 9: epsilon 1.8, delta 1e-5, failure 0.05, prior 1/2 (86 %, 36 %, 1.7)."""
    g = adv.ApproximateDP(1.8, 1e-5)
    assert g.loss_bound(0.05) == pytest.approx(1.800233, abs=1e-6)
    assert g.posterior_bounds(0.5, failure=0.05)[1] == pytest.approx(0.858177, abs=1e-6)
    assert g.difference_bounds(0.5, failure=0.05)[1] == pytest.approx(0.358177, abs=1e-6)
    assert g.ratio_bounds(0.5, failure=0.05)[1] == pytest.approx(1.716355, abs=1e-6)


def test_b16_ratio_at_small_priors() -> None:
    """Example 9: "at most 6" is printed; 6.05 is true (F1), reached as the prior tends to 0 (F5)."""
    g = adv.ApproximateDP(1.8, 1e-5)
    for prior in (None, 0.0):
        assert g.ratio_bounds(prior, failure=0.05)[1] == pytest.approx(6.051058, abs=1e-6)
    assert g.ratio_bounds(1e-9, failure=0.05)[1] == pytest.approx(6.051058, abs=1e-6)
    assert g.ratio_bounds(failure=0.05)[1] > 6


def test_b17_worst_priors() -> None:
    """Section 5.4.4, text: epsilon 2, delta 1e-6, failure 0.01 (0.27, 0.73, 0.46); Lemma 30."""
    g = adv.ApproximateDP(2.0, 1e-6)
    grid = np.linspace(0.2, 0.8, 600_001)
    lower, upper = g.difference_bounds(grid, failure=0.01)
    assert grid[np.argmax(upper)] == pytest.approx(0.268930, abs=2e-6)
    assert grid[np.argmin(lower)] == pytest.approx(0.731070, abs=2e-6)
    assert upper.max() == pytest.approx(0.462139, abs=1e-6)
    assert g.difference_bounds(failure=0.01)[1] == pytest.approx(0.462139, abs=1e-6)
