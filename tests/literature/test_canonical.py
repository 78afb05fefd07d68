"""Canonical noise: the laws that define it, its closed forms, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import adversary as adv
from adversary.literature.canonical import AbstractCanonicalNoise, CanonicalNoise, Tulap, canonical_noise
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.losses.lattice import LatticeLoss
from tests.tables import over

PROMISES: dict[str, adv.Guarantee] = {
    "pure": adv.PureDP(1.0),
    "pure, weak": adv.PureDP(6.0),
    "approximate": adv.ApproximateDP(0.8, 0.01),
    "approximate, large delta": adv.ApproximateDP(2.0, 0.5),
    "total variation": adv.ApproximateDP(0.0, 0.2),
    "gaussian": adv.GaussianDP(0.7),
    "pure, groups of 3": adv.PureDP(0.5).group(3),
    "approximate, groups of 2": adv.ApproximateDP(0.7, 0.02).group(2),
    "composed": adv.PureDP(0.5) + adv.PureDP(0.7),
    "pure and gaussian": adv.PureDP(0.5) + adv.GaussianDP(0.4),
    "discrete gaussian": adv.DiscreteGaussian(1.5).privacy_loss(),
    "laplace": adv.Laplace(1.2).privacy_loss(),
    "none": adv.NoPrivacy(),
}
CLOSED: dict[str, tuple[float, float]] = {
    "pure": (1.0, 0.0),
    "pure, strong": (0.3, 0.0),
    "approximate": (0.8, 0.01),
    "approximate, tiny delta": (0.3, 1e-9),
    "total variation": (0.0, 0.2),
    "none": (0.0, 1.0),
}
X = np.linspace(-6.3, 6.3, 61) * 0.9937


def cdf(noise: Any, x: Any) -> Any:
    return noise.cdf(x, 0)


# The definition


@over(PROMISES, "case")
def test_shift_by_one_has_the_promised_trade_off(case: adv.Guarantee) -> None:
    """f(F(x)) = F(x - 1), and no smaller shift is told better: F(x - m) >= f(F(x))."""
    noise = CanonicalNoise(case)
    x = X[cdf(noise, X) < 1.0]
    promised = case.level(cdf(noise, x))
    np.testing.assert_allclose(cdf(noise, x - 1.0), promised, rtol=1e-9, atol=1e-12)
    for shift in (0.0, 0.25, 0.6, 0.95):
        assert np.all(cdf(noise, x - shift) >= promised - 1e-12)


@over(PROMISES, "case")
def test_noise_is_a_law_symmetric_about_zero(case: adv.Guarantee) -> None:
    noise = CanonicalNoise(case)
    values = cdf(noise, X)
    assert np.all(np.diff(values) >= 0.0)
    np.testing.assert_array_equal(values, noise.sf(-X, 0))
    np.testing.assert_allclose(values + noise.sf(X, 0), 1.0, atol=1e-15)
    assert cdf(noise, 0.5) == pytest.approx(0.5 * (1.0 + case.advantage), abs=1e-15)
    step = 1e-6
    slope = (cdf(noise, X + step) - cdf(noise, X - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(noise.log_prob(X, 0)), slope, rtol=1e-4, atol=1e-9)


@over(PROMISES, "case")
def test_quantiles_invert_the_cdf(case: adv.Guarantee) -> None:
    noise = CanonicalNoise(case)
    u = np.concatenate([[1e-9, 1e-4], np.linspace(0.01, 0.99, 41), [0.9999]])
    np.testing.assert_allclose(cdf(noise, noise.ppf(u)), u, rtol=1e-9, atol=1e-15)
    assert noise.ppf(0.5) == 0.0
    for bad in (0.0, 1.0, -0.1, 1.1):
        with pytest.raises(ValueError, match="probability must be strictly between 0 and 1"):
            noise.ppf(bad)


@over({name: PROMISES[name] for name in ("approximate", "gaussian", "composed")}, "case")
def test_samples_follow_the_cdf(case: adv.Guarantee) -> None:
    noise = CanonicalNoise(case)
    sample = noise.sample(3, np.random.default_rng(7), 5000)
    assert scipy.stats.kstest(sample - 3, lambda x: cdf(noise, x)).pvalue > 1e-3
    assert sample.var() == pytest.approx(noise.variance, rel=0.15)
    assert noise.log_prob(noise.tail_radius(), 0) <= noise.log_prob(0.0, 0) - 41.0


@over({name: PROMISES[name] for name in ("pure", "approximate", "total variation", "gaussian")}, "case")
def test_shift_by_k_is_the_group_of_k(case: adv.Guarantee) -> None:
    """T(F, F(. - k)) is f iterated, so the loss at a whole shift is the worst pair of that group."""
    noise = CanonicalNoise(case)
    for k in (1, 2, 3):
        group, x = case.group(k), X[cdf(noise, X) < 1.0]
        np.testing.assert_allclose(cdf(noise, x - k), group.level(cdf(noise, x)), rtol=1e-9, atol=1e-12)
        assert noise.privacy_loss(k).delta(0.4) == pytest.approx(group.delta(0.4), abs=1e-12)
    assert noise.privacy_loss(0).is_nothing
    assert noise.privacy_loss(1, 2).delta(0.4) == pytest.approx((case + case).delta(0.4), abs=1e-9)


def test_loss_of_the_noise_is_that_of_its_density() -> None:
    """Masses of the pieces on which both densities are constant, for (epsilon, delta) and a shift of 2."""
    noise = Tulap(0.6, 0.03)
    edges = np.unique(np.concatenate([np.arange(-8, 9) + 0.5, [s * noise.bound + k for s in (-1, 1) for k in (0, 2)]]))
    p, q = (np.diff(noise.cdf(edges, k)) for k in (2, 0))
    for e in (-0.5, 0.0, 0.3, 1.1):
        exact = float(np.maximum(p - math.exp(e) * q, 0.0).sum())
        assert noise.privacy_loss(2).delta(e) == pytest.approx(exact, abs=1e-12)


# Closed forms


@over(CLOSED, "case")
def test_tulap_is_the_construction(case: tuple[float, float]) -> None:
    closed = Tulap(*case)
    general = CanonicalNoise(closed.nominal_guarantee)
    x = np.concatenate([X, X * 6.0])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(closed.sf(x, 0), general.sf(x, 0), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(closed.log_prob(x, 0), general.log_prob(x, 0), rtol=1e-12)
    u = np.linspace(1e-3, 1.0 - 1e-3, 101)
    np.testing.assert_allclose(closed.ppf(u), general.ppf(u), atol=1e-9)
    assert closed.variance == pytest.approx(general.variance, rel=1e-6)
    assert closed.tail_radius() - 1e-9 <= general.tail_radius() <= closed.tail_radius() + 2.0


def test_tulap_far_out() -> None:
    noise = Tulap(1.0)
    assert noise.log_prob(1e6, 0) == pytest.approx(-1e6 + math.log(math.tanh(0.5)))
    assert noise.log_survival(np.array([2000.0])) == pytest.approx(math.log(0.5) - 2000.0, rel=1e-12), (
        "relative accuracy in the tail"
    )
    bounded = Tulap(1.0, 1e-6)
    assert bounded.sf(bounded.bound * (1 + 1e-12), 0) == 0.0
    assert 0.0 < bounded.sf(bounded.bound * (1 - 1e-6), 0) < 1e-9
    assert bounded.log_prob(bounded.bound + 0.01, 0) == -math.inf
    assert (noise.bound, bounded.rho(), noise.rho()) == (math.inf, math.inf, pytest.approx(math.tanh(0.5)))


def test_best_known_form() -> None:
    assert canonical_noise(adv.PureDP(0.3)) == Tulap(0.3)
    assert canonical_noise(adv.ApproximateDP(0.3, 0.1)) == Tulap(0.3, 0.1)
    assert canonical_noise(adv.NoPrivacy()) == Tulap(0.0, 1.0)
    assert canonical_noise(adv.GaussianDP(4.0)) == adv.Gaussian(0.25)
    assert isinstance(canonical_noise(adv.PureDP(0.3).group(2)), CanonicalNoise)


def test_sums_of_canonical_noise() -> None:
    noise: AbstractCanonicalNoise = Tulap(1.0)
    assert noise.total(1) is noise
    assert noise.total(0) == adv.Exact()
    with pytest.raises(NotImplementedError, match="sum of 3"):
        noise.total(3)
    assert CanonicalNoise(adv.GaussianDP(0.6)).rho() == pytest.approx(0.18)


def test_a_plan_can_publish_with_it() -> None:
    """Exact reader of one noisy count: the likelihood is the density, odds e^epsilon a step."""
    plan = adv.Plan([adv.Level("block", Tulap(1.0))])
    release = plan.observe({"block": 1.8})
    assert float(adv.Adversary(0.5, known=0).posterior(plan, release)["log_odds"]) == pytest.approx(1.0)


# Refusals


@pytest.mark.parametrize("promise", [adv.ZeroConcentratedDP(0.3), RenyiDP(3.0, 0.2), adv.ProbabilisticDP(1.0, 0.01)])
def test_definitions_that_say_more_than_their_trade_off_are_refused(promise: adv.Guarantee) -> None:
    for make in (CanonicalNoise, canonical_noise):
        with pytest.raises(TypeError, match="not determined by its trade-off"):
            make(promise)


def test_what_has_no_canonical_noise_is_refused() -> None:
    for nothing in (adv.PureDP(0.0), adv.GaussianDP(0.0), adv.ApproximateDP(0.0, 0.0)):
        with pytest.raises(ValueError, match="allows no release"):
            canonical_noise(nothing)
    lopsided = LatticeLoss.from_probs([0.7, 0.2, 0.1], [0.3, 0.2, 0.5])
    with pytest.raises(ValueError, match="not symmetric"):
        CanonicalNoise(lopsided)
    with pytest.raises(TypeError, match="made for a Guarantee, got 1"):
        CanonicalNoise(1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be positive"):
        Tulap(0.0)
    with pytest.raises(ValueError, match="epsilon must be non-negative"):
        Tulap(-1.0)
    with pytest.raises(ValueError, match="delta must be in"):
        Tulap(1.0, 1.5)
