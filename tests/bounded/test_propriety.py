"""Priors of one's own: those that leave infinite mass are refused with the theorem's reason, all others are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from adversary.bounded import BoundedRelease, Flat, NormalInverseGamma, is_proper, posterior

BOTH = BoundedRelease(0.4, 0.05, n=20, epsilon=(0.3, 0.3))
FEW = {n: BoundedRelease(0.4, 0.05, n=n, epsilon=(0.3, 0.3)) for n in (2, 3, 4)}
MEAN = BoundedRelease(0.4, None, n=20, epsilon=0.3)
VARIANCE = BoundedRelease(None, 0.05, n=20, epsilon=0.3)
GAUSSIAN = BoundedRelease(0.4, 0.05, n=20, rho=(0.3, 0.3))
Density = Callable[[Any, Any], Any]


def power(a: float) -> Density:
    """sigma2^-a, whatever mu."""
    return lambda mu, v: -a * np.log(v)


def spike(a: float, centre: float = 0.3) -> Density:
    """sigma2^-a times N(mu; centre, sigma2): ever narrower as sigma2 falls."""
    return lambda mu, v: -a * np.log(v) + stats.norm.logpdf(mu, centre, np.sqrt(v))


IMPROPER: dict[str, tuple[Density, BoundedRelease, bool, str]] = {
    "1/sigma2": (power(1.0), BOTH, True, "Theorem 17"),
    "1/sigma2, no bounds": (power(1.0), BOTH, False, "Theorem 17"),
    "1/sigma2, normal in mu": (lambda mu, v: -np.log(v) - 50.0 * (mu - 0.3) ** 2, BOTH, True, "Theorem 17"),
    "a spike of mass 1/sigma2": (spike(1.0), BOTH, True, "Theorem 17"),
    "that spike, no bounds": (spike(1.0, 0.123), BOTH, False, "Theorem 17"),
    "steeper than 1/sigma2": (power(1.5), GAUSSIAN, True, "Theorem 17"),
    "1/sigma2 only where mu is small": (lambda mu, v: np.where(mu < 0.1, -np.log(v), 0.0), BOTH, True, "Theorem 17"),
    "1/mu^2": (lambda mu, v: -2.0 * np.log(mu), BOTH, True, "Theorem 17"),
    "a constant, n = 2": (lambda mu, v: 3.0, FEW[2], True, "n >= 3"),
    "a constant, n = 2, no bounds": (lambda mu, v: 0.0 * mu, FEW[2], False, "n >= 3"),
    "a constant, n = 3, no bounds": (lambda mu, v: 0.0 * mu, FEW[3], False, "Theorem 18"),
    "a constant, mean alone": (lambda mu, v: 0.0 * mu, MEAN, False, "nothing limits sigma2"),
    "a constant, variance alone": (lambda mu, v: 0.0 * mu, VARIANCE, False, "nothing limits mu"),
    "nearly a constant, n = 3": (lambda mu, v: 1e-3 * np.cos(np.log(v)), FEW[3], False, "Theorem 18"),
    "growing, n = 4": (power(-0.5), FEW[4], False, "Theorem 18"),
    "mean alone, sigma2^-1/2": (power(0.5), MEAN, False, "no released variance limits sigma2"),
    "variance alone, proper in sigma2": (lambda mu, v: stats.expon.logpdf(v), VARIANCE, False, "do not limit mu"),
    "faster than the noise falls": (lambda mu, v: 20.0 * np.abs(mu), BOTH, False, "do not limit mu"),
    "slower than the noise falls, but not than large sigma2": (
        lambda mu, v: 5.0 * np.abs(mu),
        BOTH,
        False,
        "does not fall fast enough",
    ),
    "faster than Gaussian noise falls": (lambda mu, v: 500.0 * mu**2, GAUSSIAN, False, "do not limit mu"),
}


@pytest.mark.parametrize("name", IMPROPER)
def test_infinite_mass_is_refused_with_the_reason(name: str) -> None:
    prior, release, constrained, reason = IMPROPER[name]
    with pytest.raises(ValueError, match=reason):
        posterior(release, prior, constrained)
    assert not is_proper(release, prior, constrained)


PROPER: dict[str, Density] = {
    "inverse gamma": lambda mu, v: stats.invgamma.logpdf(v, 1.0, scale=0.02) + stats.norm.logpdf(mu, 0.4, 0.3),
    "inverse gamma of next to no weight": lambda mu, v: -1.001 * np.log(v) - 1e-3 / v + stats.norm.logpdf(mu, 0.4, 0.3),
    "conjugate": NormalInverseGamma(0.2, 2.0, 3.0, 0.1).log_prob,
    "gamma on sigma2": lambda mu, v: stats.gamma.logpdf(v, 0.01, scale=0.1) + stats.norm.logpdf(mu, 0.4, 0.3),
    "half-Cauchy on sigma": lambda mu, v: -0.5 * np.log(v) - np.log1p(v / 0.04) + stats.cauchy.logpdf(mu, 0.4, 0.1),
    "half-normal on sigma": lambda mu, v: -0.5 * np.log(v) - v / 0.08 + stats.t.logpdf(mu, 3, 0.4, 0.2),
    "log-normal on sigma2": lambda mu, v: -np.log(v) - 0.5 * (np.log(v) + 4.0) ** 2 + stats.norm.logpdf(mu, 0.4, 1.0),
    "uniform in a box": lambda mu, v: np.where((mu > 0.1) & (mu < 0.9) & (v < 0.2), 0.0, -np.inf),
    "beta on mu": lambda mu, v: stats.beta.logpdf(mu, 0.5, 0.5) + stats.expon.logpdf(v, scale=0.1),
    "a spike of finite mass": spike(0.5, 0.123),
    "a log-power": lambda mu, v: -np.log(v) - 2.0 * np.log(20.0 + np.abs(np.log(v))) - 10.0 * (mu - 0.4) ** 2,
    "1/mu^1.5": lambda mu, v: -1.5 * np.log(np.abs(mu)) - v - mu**2,
    "exponential in mu": lambda mu, v: 2.0 * np.abs(mu) - v,
}


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("name", PROPER)
def test_finite_mass_is_never_refused(name: str, constrained: bool) -> None:
    assert is_proper(BOTH, PROPER[name], constrained)


@pytest.mark.parametrize(
    "name", [name for name in PROPER if name not in ("a spike of finite mass", "exponential in mu")]
)
def test_proper_priors_need_no_data(name: str) -> None:
    for release in (FEW[2], FEW[3], MEAN, GAUSSIAN, VARIANCE):
        assert is_proper(release, PROPER[name]), release
        assert is_proper(release, PROPER[name], constrained=False), release


def test_what_a_function_lacks_the_release_or_a_cap_may_give() -> None:
    assert is_proper(FEW[4], power(0.1), constrained=False)
    assert is_proper(FEW[3], power(0.1), constrained=False)
    assert is_proper(MEAN, power(-0.5), constrained=False, cap=2.0)
    assert is_proper(FEW[3], lambda mu, v: 0.0 * mu, constrained=False, cap=2.0)


def test_units_do_not_matter() -> None:
    release = BoundedRelease(4e5, 5e10, n=20, epsilon=(0.3, 0.3), bounds=(0, 1e6))
    weak: Density = lambda mu, v: -1.001 * np.log(v) - 1e-3 / v  # noqa: E731
    assert is_proper(release, weak)
    assert is_proper(release, weak, constrained=False)
    assert not is_proper(release, power(1.0))


def test_a_constant_is_the_flat_prior() -> None:
    for release in (BOTH, FEW[2], FEW[3], FEW[4], MEAN, VARIANCE, GAUSSIAN):
        for constrained in (True, False):
            for cap in (None, 2.0, math.inf):
                known = is_proper(release, Flat(), constrained, cap)
                assert is_proper(release, lambda mu, v: np.zeros(np.shape(v)), constrained, cap) == known
