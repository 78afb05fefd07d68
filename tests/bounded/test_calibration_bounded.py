"""Simulation-based calibration of the quadrature: the posterior probability below what is true is uniform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import adversary as adv

Floats = NDArray[np.float64]

N, EPSILON = 10, 0.5
PRIOR = adv.bounded.NormalInverseGamma(0.4, 2.0, 4.0, 0.3)


def drawn(prior: Any, count: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """mu and sigma2 of the prior: flat over the region, or the conjugate one over all of the half plane."""
    if prior == "flat":
        mu = rng.beta(2, 2, count)
        return mu, rng.random(count) * mu * (1 - mu)
    sigma2 = prior.nu0 * prior.s0**2 / 2 / rng.gamma(prior.nu0 / 2, 1.0, count)
    return rng.normal(prior.mu0, np.sqrt(sigma2 / prior.kappa0)), sigma2


def observed(mu: Floats, sigma2: Floats, rng: np.random.Generator) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Mean and variance of N values, and whether values in the interval can have them."""
    mean, variance = rng.normal(mu, np.sqrt(sigma2 / N)), rng.gamma((N - 1) / 2, 2 * sigma2 / (N - 1))
    return mean, variance, (mean > 0) & (mean < 1) & (variance < N / (N - 1) * mean * (1 - mean))


def worlds(prior: Any, constrained: bool, feasibility: str, count: int, rng: np.random.Generator) -> dict[str, Floats]:
    """True parameters, and noisy statistics released from them. Given the event, the whole of a world in which the
    statistics are not feasible is discarded; in the normalised model only the statistics are drawn again."""
    mu, sigma2 = drawn(prior, 8 * count, rng)
    if constrained:
        inside = (mu > 0) & (mu < 1) & (sigma2 <= mu * (1 - mu))
        mu, sigma2 = mu[inside], sigma2[inside]
    mean, variance, fine = observed(mu, sigma2, rng)
    if constrained and feasibility == "event":
        mu, sigma2, mean, variance = (x[fine] for x in (mu, sigma2, mean, variance))
    while constrained and feasibility == "normalised" and not fine.all():
        again = np.flatnonzero(~fine)
        mean[again], variance[again], fine[again] = observed(mu[again], sigma2[again], rng)
    kept = {"mu": mu, "sigma2": sigma2, "mean": mean, "variance": variance}
    kept = {name: x[:count] for name, x in kept.items()}
    assert kept["mu"].size == count
    noise = rng.laplace(0, 1 / (N * EPSILON), (2, count))
    return {**kept, "mean": kept["mean"] + noise[0], "variance": kept["variance"] + noise[1]}


def ranks(told: dict[str, Floats], prior: Any, constrained: bool, feasibility: str) -> dict[str, Floats]:
    """Posterior probability below the true mu and below the true sigma2, world by world."""
    release = adv.bounded.BoundedRelease(told["mean"], told["variance"], N, (EPSILON, EPSILON))
    cap = None if constrained else 100.0  # with a chance of 2e-6 above it
    solved = adv.bounded.posterior(release, prior, constrained, feasibility, cap=cap).solutions
    laws = {"mu": [one.mean for one in solved], "sigma2": [one.variance for one in solved]}
    return {name: np.array([law.cdf(x) for law, x in zip(laws[name], told[name], strict=True)]) for name in laws}


CASES = {
    "flat, event": ("flat", True, "event"),
    "flat, normalised": ("flat", True, "normalised"),
    "informative, event": (PRIOR, True, "event"),
    "informative, unconstrained": (PRIOR, False, "event"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["flat, event", *(pytest.param(one, marks=pytest.mark.thorough) for one in [*CASES][1:])]
)
def test_the_posterior_is_calibrated(case: str) -> None:
    found = ranks(worlds(*CASES[case], 400, np.random.default_rng(40)), *CASES[case])
    for name, rank in found.items():
        assert stats.kstest(rank, "uniform").pvalue > 1e-3, name


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(("true", "assumed"), [("event", "normalised"), ("normalised", "event")])
def test_the_two_meanings_of_the_constraint_are_told_apart(true: str, assumed: str) -> None:
    """Through sigma2, of which large values make feasible statistics rarer; mu is in the middle of both."""
    found = ranks(worlds("flat", True, true, 2000, np.random.default_rng(41)), "flat", True, assumed)
    assert stats.kstest(found["sigma2"], "uniform").pvalue < 1e-4
    assert stats.kstest(found["mu"], "uniform").pvalue > 1e-3
