"""The truncated gamma mixture obeys the laws of a distribution, in both tails and far from where it is usual."""

from __future__ import annotations

from itertools import pairwise

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import gamma

from adversary.bounded.grid import TruncatedGammaMixture, gamma_laplace_logz, normal_laplace_logpdf

LAWS = {
    "figure 4.6": TruncatedGammaMixture(2.0, 2.0, 1.0, 1.0),
    "centre below 0": TruncatedGammaMixture(3.5, 2.0, 1.0, -3.0),
    "cut below the centre": TruncatedGammaMixture(21.0, 100.0, 10.0, 0.3, 0.25),
    "cut above the centre": TruncatedGammaMixture(4.5, 9.0, 2.0, 0.3, 0.9),
    "beta < rate": TruncatedGammaMixture(4.5, 3.0, 30.0, 0.4),
    "beta < rate, cut": TruncatedGammaMixture(4.5, 3.0, 30.0, 0.4, 0.2),
    "beta = rate": TruncatedGammaMixture(4.5, 3.0, 3.0, 0.4),
    "shape below 1": TruncatedGammaMixture(0.5, 2.0, 1.0, 0.4),
    "no noise factor": TruncatedGammaMixture(2.0, 3.0, 0.0, 0.4, 1.5),
}
named = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())


def integral(law: TruncatedGammaMixture, power: int, low: float, high: float) -> float:
    """Of x^power times the kernel, by scipy, in sqrt(x): no singularity for shapes of 1/2 and more."""
    a, b, lam, tau, _ = (float(p) for p in law._parameters)
    cuts = sorted({np.sqrt(low), *(np.sqrt(c) for c in (max(tau, 0.0),) if low < c < high), np.sqrt(high)})

    def kernel(t: float) -> float:
        return 2.0 * float(t ** (2.0 * (a + power) - 1.0) * np.exp(-b * t * t - lam * abs(t * t - tau)))

    return float(sum(quad(kernel, s, e, epsabs=0.0, epsrel=1e-12, limit=200)[0] for s, e in pairwise(cuts)))


def end(law: TruncatedGammaMixture) -> float:
    return min(float(law._parameters[-1]), 40.0)


@named
def test_density_normaliser_weights_and_moments_are_integrals(law: TruncatedGammaMixture) -> None:
    total = integral(law, 0, 0.0, end(law))
    assert law.log_normaliser == pytest.approx(np.log(total), rel=1e-10, abs=1e-10)
    centre = min(max(float(law._parameters[3]), 0.0), end(law))
    below = integral(law, 0, 0.0, centre) / total if centre else 0.0
    assert np.exp(law.log_weights) == pytest.approx([below, 1.0 - below], abs=1e-10)
    first, second = (integral(law, k, 0.0, end(law)) / total for k in (1, 2))
    assert [law.mean(), law.moment(2)] == pytest.approx([first, second], rel=1e-10)
    assert law.var() == pytest.approx(second - first**2, rel=1e-8)
    x = np.array([0.07, 0.19])
    assert np.exp(law.logcdf(x)) == pytest.approx([integral(law, 0, 0.0, z) / total for z in x], rel=1e-10)


@named
def test_density_is_continuous_with_a_corner_at_the_centre_and_largest_at_the_mode(law: TruncatedGammaMixture) -> None:
    alpha, beta, rate, centre, upper = (float(p) for p in law._parameters)
    if 0.0 < centre < upper:
        h = 1e-6 * centre
        low, at, high = law.logpdf(np.array([centre - h, centre, centre + h]))
        slope = (alpha - 1.0) / centre - beta
        assert [(at - low) / h, (high - at) / h] == pytest.approx([slope + rate, slope - rate], abs=1e-3)
    assert law.logpdf(np.array([-0.1, np.inf])).tolist() == [-np.inf, -np.inf]
    if alpha > 1.0:
        grid = np.linspace(1e-3, end(law), 2001)
        assert (law.logpdf(grid) <= law.logpdf(law.mode()) + 1e-12).all()


def exact_log_normaliser(alpha: float, beta: float, rate: float, centre: float, upper: float) -> float:
    """With 400 digits, of which the upper piece loses most, from Kummer's function."""
    with mpmath.workdps(400):
        a, b, lam, tau, u = (mpmath.mpf(x) for x in (alpha, beta, rate, centre, upper))

        def below(slope: mpmath.mpf, x: mpmath.mpf) -> mpmath.mpf:
            return x**a / a * mpmath.exp(-slope * x) * mpmath.hyp1f1(1, a + 1, slope * x, maxterms=10**6)

        if tau <= 0:
            return float(lam * tau + mpmath.log(below(b + lam, u)))
        total = mpmath.exp(-lam * tau) * below(b - lam, min(u, tau))
        if u > tau:
            total += mpmath.exp(lam * tau) * (below(b + lam, u) - below(b + lam, tau))
        return float(mpmath.log(total))


@pytest.mark.parametrize(
    "parameters",
    [
        (500.0, 2e5, 1e4, 0.25, 0.2),  # the gamma's centre is a hundredth of the corner
        (500.0, 100.0, 1e5, 1e-3, 0.25),  # P underflows at the corner
        (500.0, 1e4, 2e4, -0.3, 0.25),  # centre below 0
        (0.5, 1.0, 1e-3, 0.5, 0.6),
        (1.0, 4.0, 1e6, 0.3, 0.25),
        (2000.0, 1e4, 1e4 - 1e-3, 0.2, 0.25),  # beta just above rate
        (30.0, 1e-3, 50.0, 0.2, 0.2000001),  # a sliver above the corner
    ],
)
def test_extreme_normalisers_match_many_digits(parameters: tuple[float, float, float, float, float]) -> None:
    assert TruncatedGammaMixture(*parameters).log_normaliser == pytest.approx(
        exact_log_normaliser(*parameters), rel=1e-11, abs=1e-9
    )


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    alpha=st.floats(0.5, 5e3),
    beta=st.floats(-3.0, 5.0),
    rate=st.floats(-3.0, 6.0),
    centre=st.floats(-2.0, 2.0),
    upper=st.sampled_from([0.01, 0.2, 1.0, np.inf]),
)
def test_any_parameters_give_a_distribution(
    alpha: float, beta: float, rate: float, centre: float, upper: float
) -> None:
    law = TruncatedGammaMixture(alpha, 10.0**beta, 10.0**rate, centre, upper)
    x = law.mean() * np.array([1e-3, 0.5, 1.0, 2.0, np.inf])
    assert 0.0 < law.mean() <= upper
    assert law.logcdf(x)[-1] == 0.0
    assert (np.diff(law.logcdf(x)) >= 0.0).all()
    assert np.isfinite(law.log_normaliser)
    assert 0.0 <= law.var() < np.inf


def test_sharp_laws_keep_their_variance() -> None:
    """A corner so steep that the law is Laplace to 1e-6, and a gamma with a million degrees of freedom."""
    assert TruncatedGammaMixture(4.5, 1.0, 5e4, 100.0).var() == pytest.approx(2.0 / 5e4**2, rel=1e-6)
    assert TruncatedGammaMixture(5e5, 2e6, 0.0, 0.3).var() == pytest.approx(5e5 / 2e6**2, rel=1e-9)


def test_parameters_broadcast() -> None:
    law = TruncatedGammaMixture(2.0, [[1.0], [2.0]], 1.0, [0.5, -1.0, 2.0])
    one = TruncatedGammaMixture(2.0, 2.0, 1.0, -1.0)
    for method in ("pdf", "logcdf"):
        both = getattr(law, method)(0.3)
        assert both.shape == (2, 3)
        assert both[1, 1] == pytest.approx(getattr(one, method)(0.3), rel=1e-13)
    assert law.mean().shape == law.var().shape == (2, 3)


@pytest.mark.parametrize(("a", "x"), [(50.0, 1e-8), (800.0, 1.0), (5e3, 2.5e3), (3.0, 1e-120), (40.0, 30.0)])
def test_small_lower_tails_match_sixty_digits(a: float, x: float) -> None:
    with mpmath.workdps(60):
        b, z = mpmath.mpf(a), mpmath.mpf(x)
        series = mpmath.hyp1f1(1, b + 1, z, maxterms=10**5)
        exact = float(b * mpmath.log(z) - z - mpmath.loggamma(b + 1) + mpmath.log(series))
    assert TruncatedGammaMixture(a, 1.0, 0.0, 0.5).logcdf(x) == pytest.approx(exact, rel=1e-12)


# Convolutions


@pytest.mark.parametrize(
    ("d", "variance", "rate"),
    [(0.0, 1.0, 1.0), (0.3, 1e-6, 1e4), (3.0, 0.04, 2.0), (0.5, 4.0, 300.0), (-0.2, 1e-3, 0.1)],
)
def test_normal_plus_laplace_is_an_integral(d: float, variance: float, rate: float) -> None:
    with mpmath.workdps(40):
        t, lam, x = mpmath.mpf(variance), mpmath.mpf(rate), mpmath.mpf(d)
        first, second = (
            mpmath.exp(lam**2 * t / 2 - s * lam * x) * mpmath.ncdf((s * x - lam * t) / mpmath.sqrt(t)) for s in (1, -1)
        )
        exact = float(mpmath.log(lam / 2 * (first + second)))
    assert normal_laplace_logpdf(d, 0.0, variance, rate) == pytest.approx(exact, rel=1e-12, abs=1e-12)


def test_normal_plus_laplace_has_its_limits() -> None:
    x = np.array([-0.5, 0.0, 2.0])
    assert normal_laplace_logpdf(x, 0.0, 0.0, 3.0) == pytest.approx(np.log(1.5) - 3.0 * np.abs(x))
    assert normal_laplace_logpdf(x, 0.0, 1.0, 1e7) == pytest.approx(-0.5 * x**2 - 0.5 * np.log(2 * np.pi), abs=1e-12)
    assert normal_laplace_logpdf(1e4, 0.0, 1.0, 50.0) == pytest.approx(np.log(25.0) + 1250.0 - 5e5)


def test_gamma_plus_laplace_is_the_mixture_normaliser() -> None:
    n, sigma2, rate, centre, upper = 12, 0.05, 40.0, 0.03, np.array([0.01, 0.03, 0.2, np.inf])
    alpha, beta = 5.5, 5.5 / sigma2
    law = TruncatedGammaMixture(alpha, beta, rate, centre, upper)
    scale = np.log(0.5 * rate) - np.log(gamma.pdf(1.0, alpha, scale=1.0 / beta) / np.exp(-beta))
    assert gamma_laplace_logz(upper, sigma2, n, rate, centre) - law.log_normaliser + scale == pytest.approx(
        2.0 * np.log(0.5 * rate)
    )
    assert gamma_laplace_logz(0.0, sigma2, n, rate, centre) == -np.inf
    with pytest.raises(ValueError, match="sigma2 must be positive"):
        gamma_laplace_logz(1.0, 0.0, n, rate, centre)
