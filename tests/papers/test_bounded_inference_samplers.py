"""Bounded inference by sampling: rows BI11, BI17 and BI25, and erratum E1 with both of its answers.

Kazan (2026), chapter 4. Example 4: 43 blood lead levels between 0 and 100, epsilon 0.25 + 0.25, of which the
exact answers are those of the quadrature.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaln

from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.prior import NormalInverseGamma
from adversary.bounded.thesis import chains, statistics_gibbs
from tests.papers.test_bounded_inference import MOMENTS, PRIORS, RELEASE

Floats = NDArray[np.float64]


@cache
def example(prior: str, constrained: bool) -> xr.DataTree:
    """Half a million sweeps, one in ten kept."""
    return statistics_gibbs.gibbs(RELEASE, PRIORS[prior], constrained, draws=12_500, rng=2026)


def errors(draws: xr.DataArray) -> float:
    """How many standard errors a mean may be off by: five."""
    return 5.0 * float(draws.std()) / float(np.sqrt(draws.attrs["ess"]))


@pytest.mark.parametrize(("prior", "constrained"), MOMENTS)
def test_bi11_example_4(prior: str, constrained: bool) -> None:
    draws, (mean, sd, variance) = example(prior, constrained)["posterior"], MOMENTS[prior, constrained]
    assert float(draws["mu"].mean()) == pytest.approx(mean, abs=errors(draws["mu"]))
    assert float(draws["sigma2"].mean()) == pytest.approx(variance, abs=errors(draws["sigma2"]))
    squares = (draws["mu"] - mean) ** 2
    assert float(squares.mean()) == pytest.approx(
        sd**2, abs=5.0 * float(squares.std()) / draws["mu"].attrs["ess"] ** 0.5
    )


@pytest.mark.parametrize(("prior", "low", "high"), [("flat", 8, 35), ("informative", 90, 360)])
def test_hundreds_of_sweeps_are_worth_one_draw_with_an_informative_prior(prior: str, low: int, high: int) -> None:
    """The reference has 10 to 13 for the flat prior and 125 to 160 for the other; thinning by ten raises the first."""
    for constrained in (True, False):
        draws = example(prior, constrained)["posterior"]["mu"]
        assert low < 10 * draws.size / draws.attrs["ess"] < high


def test_bi25_the_printed_conditional_of_sigma2_is_not_proportional_to_the_joint() -> None:
    n, mu, ybar, s2 = 43, 0.3, 0.33, 0.05
    prior, sigma2 = NormalInverseGamma(0.125, 1.0, 1.0, 0.038), np.array([0.01, 0.03, 0.05, 0.1, 0.2])
    alpha, beta = (n - 1) / 2, (n - 1) / (2 * sigma2)
    joint = prior.log_prob(mu, sigma2) + stats.norm.logpdf(ybar, mu, np.sqrt(sigma2 / n))
    joint = joint + alpha * np.log(beta) - gammaln(alpha) + (alpha - 1) * np.log(s2) - beta * s2
    spreads = {}
    for printed in (True, False):
        shape, scale = chains.variance_conditional(
            mu, ybar, s2, n, statistics_gibbs.prior_numbers(prior, (0, 1), published=printed)
        )
        spreads[printed] = np.ptp(joint - stats.invgamma.logpdf(sigma2, shape, scale=scale))
    assert spreads[True] == pytest.approx(0.5147, abs=1e-4)
    assert spreads[False] < 1e-10


@pytest.mark.slow
def test_e1_the_printed_sampler_answers_something_else() -> None:
    """Four million sweeps each: 21.704 and 273.8 as printed, 22.540 and 336.6 exactly."""
    expected = {
        True: (21.704, 273.8, 0.053, 2.5),
        False: (22.540, 336.6, 0.0, 0.0),
    }
    for published, (mean, variance, first, second) in expected.items():
        tree = statistics_gibbs.gibbs(RELEASE, PRIORS["informative"], draws=20_000, thin=50, rng=4, published=published)
        draws = tree["posterior"]
        mu, sigma2 = draws["mu"], draws["sigma2"]
        assert float(mu.mean()) == pytest.approx(mean, abs=np.hypot(errors(mu), 5 * first))
        assert float(sigma2.mean()) == pytest.approx(variance, abs=np.hypot(errors(sigma2), 5 * second))
        assert errors(mu) < 0.4 < abs(22.540 - 21.704)


def shortest(draws: Floats) -> tuple[float, float]:
    """The shortest interval that holds 95% of the draws."""
    x = np.sort(draws)
    inside = int(np.ceil(0.95 * x.size))
    start = int(np.argmin(x[inside - 1 :] - x[: x.size - inside + 1]))
    return float(x[start]), float(x[start + inside - 1])


def record_level_study(normalised: bool, sets: int = 200) -> tuple[float, float, float]:
    """Coverage of mu, mean length of its 95% interval, mean of sigma2: n = 10, epsilon 0.1 + 0.1, truth (0.1, 0.04)."""
    rng = np.random.default_rng(17)
    data = stats.truncnorm.rvs(-2.5, 22.5, 0.1, 0.04, size=(sets, 10), random_state=rng)
    release = BoundedRelease.of(data, (0.1, 0.1), rng=rng)

    def one(i: int) -> tuple[float, float, float]:
        noisy = (float(release.unit_mean[i]), float(release.unit_variance[i]), 1.0, 1.0)
        generator, size = np.random.default_rng([17, i]), (9000, 3000, 3)
        kept = chains.records_chain(generator, size, 10, noisy, chains.FLAT, True, normalised, np.inf)
        low, high = shortest(kept[:, 0])
        return float(low <= 0.1 <= high), high - low, float(kept[:, 1].mean())

    with ThreadPoolExecutor(2) as pool:
        coverage, length, variance = np.mean(list(pool.map(one, range(sets))), axis=0)
    return float(coverage), float(length), float(variance)


@pytest.mark.slow
def test_bi17_record_level_with_its_normaliser() -> None:
    coverage, length, variance = record_level_study(normalised=True)
    assert coverage == pytest.approx(0.63, abs=0.10)
    assert length == pytest.approx(0.80, abs=0.02)
    assert variance == pytest.approx(0.0998, abs=0.002)


@pytest.mark.slow
def test_record_level_as_the_thesis_has_it_hardly_ever_covers() -> None:
    """Coverage 0.005, length 0.671, mean of sigma2 0.048; the thesis's figure reads 0.0026 and 0.6704."""
    coverage, length, variance = record_level_study(normalised=False)
    assert coverage < 0.02
    assert length == pytest.approx(0.671, abs=0.01)
    assert variance == pytest.approx(0.048, abs=0.001)
