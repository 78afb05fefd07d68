"""Very many releases alike: never below the exact law, close to it, and answered in no time whatever their number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import adversary as adv
from adversary.privacy.losses import LatticeLoss, repeat_loss
from adversary.privacy.losses.composition import ComposedLoss
from adversary.privacy.losses.repetition import MANY, RepeatedLoss
from adversary.report.words.belief_limits import limits_after
from tests.tables import over

EPSILONS = np.array([-2.0, 0.0, 0.5, 1.0, 2.0, 4.0, 6.0])


def _binomial_delta(n: int, epsilon: float, at: float) -> float:
    """Of n randomised responses: the number of true ones is binomial, and each is worth epsilon, each lie minus it."""
    k = np.arange(n + 1.0)
    ways = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    truth, lie = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    p = np.exp(ways + k * truth + (n - k) * lie)
    loss = epsilon * (2.0 * k - n)
    above = loss > at
    return float((p[above] * -np.expm1(at - loss[above])).sum() / p.sum())


@pytest.mark.parametrize(("n", "total"), [(MANY + 1, 1.0), (100_003, 3.0), (300_000, 0.2)])
def test_the_profile_is_just_above_that_of_the_binomial_law(n: int, total: float) -> None:
    epsilon = total / math.sqrt(n)
    loss = n * adv.PureDP(epsilon)
    assert isinstance(loss, RepeatedLoss if n > MANY else ComposedLoss)
    for at in total * EPSILONS:
        exact = _binomial_delta(n, epsilon, float(at))
        found = float(loss.delta(at))
        assert exact * (1.0 - 1e-9) <= found <= exact * 1.01, at
        lower, upper = loss.bracket.delta(at)
        assert lower <= exact <= upper * (1.0 + 1e-9)
    assert loss.maximum == n * epsilon
    assert loss.epsilon(0.0) == loss.maximum


KINDS = {
    "pure": adv.PureDP,
    "laplace": lambda epsilon: adv.Laplace(1.0 / epsilon).privacy_loss(),
    "geometric": lambda epsilon: adv.Geometric(epsilon).privacy_loss(),
}


@over(KINDS, "kind")
@pytest.mark.parametrize(("n", "mu"), [(10**6, 1.0), (10**9, 0.1), (10**12, 4.0)])
def test_many_small_losses_are_gaussian_in_the_limit(kind: Any, n: int, mu: float) -> None:
    loss, limit = n * kind(mu / math.sqrt(n)), adv.GaussianDP(mu)
    np.testing.assert_allclose(loss.delta(EPSILONS * mu), limit.delta(EPSILONS * mu), rtol=0.02, atol=1e-300)


def test_beliefs_after_many_small_losses_are_those_of_gaussian_noise() -> None:
    loss, limit = 10**12 * adv.PureDP(1e-6), adv.GaussianDP(1.0)
    assert float(loss.power(0.05)) == pytest.approx(float(limit.power(0.05)), rel=2e-3)
    np.testing.assert_allclose(loss.posterior_bounds(0.1, 0.01), limit.posterior_bounds(0.1, 0.01), rtol=0.02)


SOME: dict[str, Any] = {
    "pure": adv.PureDP(0.1),
    "approximate": adv.ApproximateDP(0.1, 1e-6),
    "randomized response": adv.RandomizedResponse(1.0, 5).privacy_loss(),
    "uneven": LatticeLoss.from_probs([0.5, 0.3, 0.2, 0.0], [0.2, 0.6, 0.0, 0.2]),
    "exact": adv.Exact().privacy_loss(),
    "laplace": adv.Laplace(2.0).privacy_loss(),
    "gaussian": adv.Gaussian(2.0).privacy_loss(),
    "discrete gaussian": adv.DiscreteGaussian(2.0).privacy_loss(),
    "discrete gaussian, narrow": adv.DiscreteGaussian(0.1).privacy_loss(),
    "discrete gaussians": adv.DiscreteGaussian(2.0).privacy_loss(1, 3) + adv.DiscreteGaussian(1.0).privacy_loss(),
    "staircase": adv.Staircase(0.5).privacy_loss(),
    "several": adv.Laplace(2.0).privacy_loss() + adv.Geometric(0.3).privacy_loss() + adv.Gaussian(9.0).privacy_loss(),
    "zCDP": adv.ZeroConcentratedDP(0.1),
}


@pytest.mark.slow_cases("pure")
@over(SOME)
def test_a_million_million_releases_of_any_kind_leave_nothing_and_end(g: Any) -> None:
    together = 10**12 * g
    assert float(together.delta(1.0)) == pytest.approx(1.0, abs=1e-12)
    assert float(together.power(0.01)) == pytest.approx(1.0, abs=1e-12)
    low, high = together.posterior_bounds(0.1, 0.05)
    assert 0.0 <= low < 1e-12
    assert high > 1.0 - 1e-12


def test_infinite_masses_add_up_to_what_one_at_least_has() -> None:
    one, n = LatticeLoss.from_probs([0.5, 0.5 - 1e-9, 1e-9, 0.0], [0.5 - 2e-9, 0.5, 0.0, 2e-9]), 2 * 10**6
    loss = n * one
    assert isinstance(loss, RepeatedLoss)
    for side, mass in ((loss, 1e-9), (loss.swapped, 2e-9)):
        assert float(side.tail(np.inf)[0]) == pytest.approx(-math.expm1(n * math.log1p(-mass)), rel=1e-6)
    assert loss.certain == pytest.approx(-math.expm1(n * math.log1p(-2e-9)), rel=1e-9)
    assert loss.epsilon(1e-9) == math.inf


def test_nothing_many_times_is_nothing() -> None:
    assert (10**12 * adv.PureDP(0.0)).is_nothing
    assert repeat_loss(LatticeLoss.from_probs([0.5, 0.5], [0.5, 0.5]), 10**12).is_nothing


def test_few_releases_are_listed_as_ever() -> None:
    loss = 1000 * adv.PureDP(0.01)
    assert isinstance(loss, LatticeLoss)
    assert loss.losses.size == 1001
    for at in (0.0, 0.3, 1.0):
        assert float(loss.delta(at)) == pytest.approx(_binomial_delta(1000, 0.01, at), rel=1e-10)


@pytest.mark.slow
def test_limits_in_words_are_those_of_the_last_release() -> None:
    last = limits_after(adv.PureDP(1e-6), 10**12, 0.05)[-1]
    assert last.loss == pytest.approx(float(adv.GaussianDP(1.0).loss_bound(0.05)), rel=1e-2)


def test_groups_of_more_records_than_are_listed_have_the_usual_guarantee() -> None:
    assert adv.PureDP(1.0).group(10**12) == adv.PureDP(1e12)
    assert adv.ApproximateDP(1.0, 1e-6).group(10**12) == adv.NoPrivacy()
    many = adv.ApproximateDP(1e-9, 1e-12).group(10**8)
    assert many.epsilon0 == pytest.approx(0.1)
    assert many.delta0 == pytest.approx(1e-12 * math.expm1(0.1) / math.expm1(1e-9))
    small = adv.ApproximateDP(1e-7, 1e-10).group(10**6)
    assert small.delta0 == pytest.approx(1e-10 * math.expm1(0.1) / math.expm1(1e-7), rel=1e-3)
