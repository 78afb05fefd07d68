"""The mean and variance of the data themselves: closed forms, sums over all four unknowns, and weighted draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from adversary.bounded import BoundedRelease, NormalInverseGamma, posterior

LEAD = BoundedRelease(0.343026826, 0.2224800114, n=43, epsilon=(0.25, 0.25))
INFORMATIVE = NormalInverseGamma(0.125, 1.0, 1.0, 0.038)


@pytest.mark.parametrize("epsilon", [0.02, 0.25, 2.0])
@pytest.mark.parametrize("variance", [0.05, -0.1])
def test_without_bounds_a_flat_prior_leaves_the_noise_alone(epsilon: float, variance: float) -> None:
    """Neither prior nor cap: the density of the statistics is flat, so the mean is Laplace about the released one and
    the variance Laplace cut at 0."""
    release = BoundedRelease(0.3, variance, n=12, epsilon=(epsilon, epsilon))
    found = posterior(release, "flat", False, cap=math.inf, quantity="data")
    shares, scale = np.array([0.01, 0.2, 0.5, 0.9, 0.99]), 1.0 / (12 * epsilon)
    assert found.quantile("mu", shares) == pytest.approx(stats.laplace(0.3, scale).ppf(shares), abs=1e-4 * scale)
    law = stats.laplace(variance, scale)
    exact = law.isf(law.sf(0.0) * (1.0 - shares))
    assert found.quantile("sigma2", shares) == pytest.approx(exact, abs=2e-4 * scale)
    assert found.quantile("sigma", shares) == pytest.approx(np.sqrt(exact), abs=1e-3 * np.sqrt(scale))


def test_gaussian_noise_alone_too() -> None:
    found = posterior(BoundedRelease(0.3, 0.05, n=12, rho=(0.5, 0.5)), "flat", False, cap=math.inf, quantity="data")
    scale, shares = 1.0 / 12, np.array([0.05, 0.5, 0.95])
    assert found.quantile("mu", shares) == pytest.approx(stats.norm(0.3, scale).ppf(shares), abs=1e-4 * scale)
    law = stats.norm(0.05, scale)
    assert found.quantile("sigma2", shares) == pytest.approx(law.isf(law.sf(0.0) * (1.0 - shares)), abs=2e-4 * scale)


RELEASES: dict[str, tuple[BoundedRelease, Any, bool]] = {
    "flat": (LEAD, "flat", True),
    "informative": (LEAD, INFORMATIVE, True),
    "informative, no bounds": (LEAD, INFORMATIVE, False),
    "flat, no bounds": (LEAD, "flat", False),
    "little noise": (BoundedRelease(0.5, 0.08, n=2000, epsilon=(1.0, 1.0)), "flat", True),
    "three values": (BoundedRelease(0.1, 0.02, n=3, epsilon=(3.0, 3.0)), "flat", True),
    "two values": (BoundedRelease(0.1, 0.02, n=2, epsilon=(3.0, 3.0)), INFORMATIVE, True),
    "the mean alone": (BoundedRelease(0.3, None, n=12, epsilon=0.5), INFORMATIVE, True),
    "the variance alone": (BoundedRelease(None, 0.03, n=12, epsilon=0.5), "flat", True),
    "Gaussian noise": (BoundedRelease(0.3, 0.02, n=12, rho=(0.5, 0.5)), "flat", True),
    "far outside": (BoundedRelease(-0.2, 0.4, n=25, epsilon=(0.5, 0.5)), "flat", True),
    "a variance below 0": (BoundedRelease(0.25362285, -0.39273680, n=20, epsilon=(0.1, 0.1)), "flat", True),
    "the edge close by": (
        BoundedRelease(0.12851423, 0.01924629, n=823, rho=(0.09567016, 0.0025)),
        "flat",
        True,
    ),
    "a variance near the largest": (
        BoundedRelease(0.8538892784737786, 0.2544161878910453, n=14, epsilon=(0.05816887249771812, 0.2322873733317621)),
        NormalInverseGamma(0.8552592624561229, 0.444666757669529, 6.367413369059378, 0.2790632025478016),
        True,
    ),
    "a sure prior": (LEAD, NormalInverseGamma(0.9, 400.0, 50.0, 0.1), True),
}


@pytest.mark.parametrize("name", RELEASES)
def test_both_orders_of_integration_have_the_same_evidence(name: str) -> None:
    """Statistics integrated out first, or mean and variance of the population: no code is shared."""
    release, prior, constrained = RELEASES[name]
    found = posterior(release, prior, constrained, quantity="data")
    other = posterior(release, prior, constrained)
    assert found.log_evidence == pytest.approx(other.log_evidence, abs=3e-4)
    assert found.quadrature_error < 1e-2


def summed(release: BoundedRelease, prior: NormalInverseGamma | None, size: int = 160) -> dict[str, float]:
    """Moments of the data's mean and variance by a plain sum over (mu, v, y, S), midpoints in every direction."""
    n, alpha = int(release.size), 0.5 * (int(release.size) - 1)
    mid = (np.arange(size) + 0.5) / size
    mu, v, y = mid[:, None, None], 0.25 * mid[:, None] ** 2, mid
    before = np.zeros((1, 1, 1)) if prior is None else prior.log_prob(mu, v)
    given = np.exp(before - 0.5 * n * (y - mu) ** 2 / v) * np.sqrt(v) / np.sqrt(v / n)  # dv = sqrt(v) / 2 d(mid)
    about_v = np.where(v <= mu * (1.0 - mu), given, 0.0).sum(0)
    s = 0.25 * n / (n - 1.0) * mid**2
    about_s = stats.gamma.pdf(s, alpha, scale=v / alpha) * np.sqrt(s)
    weight = about_v.T @ about_s * np.exp(-np.abs(release.unit_variance - s) / release.unit_scales[1])
    y = y[:, None]
    weight *= np.exp(-np.abs(release.unit_mean - y) / release.unit_scales[0])
    weight = np.where(s <= n / (n - 1.0) * y * (1.0 - y), weight, 0.0)
    weight /= weight.sum()
    mean, variance = float((weight * y).sum()), float((weight * s).sum())
    return {
        "mu": mean, "sigma2": variance, "sigma": float((weight * np.sqrt(s)).sum()),
        "sd": float(np.sqrt((weight * (y - mean) ** 2).sum())), "below": float(weight[: size // 4].sum()),
    }  # fmt: skip


@pytest.mark.parametrize("prior", [None, NormalInverseGamma(0.3, 2.0, 3.0, 0.2)])
def test_a_plain_sum_over_all_four_unknowns_agrees(prior: NormalInverseGamma | None) -> None:
    release = BoundedRelease(0.2, 0.06, n=5, epsilon=(0.8, 0.5))
    exact = summed(release, prior)
    found = posterior(release, "flat" if prior is None else prior, quantity="data")
    for name in ("mu", "sigma2", "sigma"):
        assert found.mean(name) == pytest.approx(exact[name], rel=1e-3)
    assert found.sd("mu") == pytest.approx(exact["sd"], rel=1e-3)
    assert found.cdf("mu", 0.25) == pytest.approx(exact["below"], abs=1e-3)


def test_weighted_draws_of_the_model_agree() -> None:
    """Means and variances from the flat prior of the region, statistics given them, weights by the noise."""
    rng, size, n = np.random.default_rng(5), 400_000, 43
    mu = rng.beta(2.0, 2.0, size)
    v = rng.random(size) * mu * (1.0 - mu)
    y, s = rng.normal(mu, np.sqrt(v / n)), v * rng.chisquare(n - 1, size) / (n - 1)
    feasible = (y > 0.0) & (y < 1.0) & (s <= n / (n - 1.0) * y * (1.0 - y))
    scales = [float(scale) for scale in LEAD.unit_scales]
    log = -np.abs(float(LEAD.unit_mean) - y) / scales[0] - np.abs(float(LEAD.unit_variance) - s) / scales[1]
    weight = np.where(feasible, np.exp(log), 0.0)
    found = posterior(LEAD, quantity="data")
    for values, exact in ((y, found.mean("mu")), (s, found.mean("sigma2")), (y < 0.3, found.cdf("mu", 0.3))):
        mean = float((weight * values).sum() / weight.sum())
        error = float(np.sqrt((weight**2 * (values - mean) ** 2).sum()) / weight.sum())
        assert exact == pytest.approx(mean, abs=5.0 * error)


def test_many_values_and_little_noise_say_more_of_the_data_than_of_their_population() -> None:
    release = BoundedRelease(0.5, 0.08, n=100_000, epsilon=(1.0, 1.0))
    data, population = posterior(release, quantity="data"), posterior(release)
    assert data.sd("mu") == pytest.approx(math.sqrt(2.0) * 1e-5, rel=1e-3)  # the noise
    assert population.sd("mu") == pytest.approx(math.sqrt(2e-10 + 0.08 / 100_000), rel=1e-3)


@pytest.mark.parametrize("name", ["mu", "sigma2", "sigma"])
def test_intervals_hold_what_they_say_and_are_the_shortest(name: str) -> None:
    found = posterior(LEAD, "flat", quantity="data")
    low, high = found.hdi(name, 0.8)
    assert found.cdf(name, high) - found.cdf(name, low) == pytest.approx(0.8, abs=1e-5)
    below = np.linspace(0.0, 0.2, 101)
    lengths = found.quantile(name, below + 0.8) - found.quantile(name, below)
    assert high - low <= lengths.min() * (1.0 + 1e-4)
    grid = np.linspace(*found.quantile(name, [1e-6, 1 - 1e-6]), 2001)
    assert np.trapezoid(found.density(name, grid), grid) == pytest.approx(1.0, abs=1e-3)


def test_units_arrays_and_draws_are_as_those_of_the_population() -> None:
    n = np.array([43, 10])
    means = np.array([34.3026826, 50.0])
    many = posterior(
        BoundedRelease(means, 2224.800114, n=n, epsilon=(0.25, 0.25), bounds=(0, 100)), "flat", quantity="data"
    )
    one = posterior(LEAD, "flat", quantity="data")
    assert many.mean("sigma")[0] == pytest.approx(100.0 * one.mean("sigma"), rel=1e-9)
    assert many.hdi("sigma2")[0] == pytest.approx(1e4 * one.hdi("sigma2"), rel=1e-7)
    assert many.quantile("sigma", 1.0) == pytest.approx(50.0 * np.sqrt(n / (n - 1)), rel=1e-12)
    assert many.expect(lambda mu, v: np.sqrt(v) + 0.0 * mu)[0] == pytest.approx(100.0 * one.mean("sigma"), rel=1e-3)
    drawn = one.sample(4000, rng=1)["posterior"]
    for name in ("mu", "sigma"):
        assert float(drawn[name].mean()) == pytest.approx(one.mean(name), abs=5.0 * one.sd(name) / math.sqrt(4000))
    assert many.to_xarray().attrs["quantity"] == "data"
    assert posterior(BoundedRelease(np.zeros(0), 0.1, 9, (1, 1)), quantity="data").mean("mu").shape == (0,)


def test_variances_no_data_can_have_keep_their_probability() -> None:
    """Without the bounds: of the data's own statistics, about as much as of the population's."""
    found = posterior(LEAD, INFORMATIVE, False, quantity="data")
    draws = found.sample(10_000, rng=2)["posterior"]
    u = draws["sigma2"] * 42 / 43
    outside = float((u > draws["mu"] * (1.0 - draws["mu"])).mean())
    assert found.infeasible == pytest.approx(outside, abs=5.0 * math.sqrt(outside / 10_000) + 0.005)
    assert posterior(LEAD, INFORMATIVE, quantity="data").infeasible == 0.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quantity": "sample"}, "quantity must be one of population, data, got 'sample'"),
        ({"quantity": "data", "feasibility": "normalised"}, 'quantity="data" needs feasibility="event"'),
        ({"quantity": "data", "prior": lambda mu, v: -v}, 'quantity="data" needs a flat prior or a NormalInverseGamma'),
    ],
)
def test_what_has_no_answer_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        posterior(LEAD, **options)


def test_a_new_value_is_of_the_population() -> None:
    with pytest.raises(ValueError, match='use quantity="population"'):
        posterior(LEAD, quantity="data").predictive()


@pytest.mark.parametrize(("nu0", "infinite"), [(1.0, True), (3.0, False)])
def test_a_variance_of_which_nothing_was_released_may_have_no_mean(nu0: float, infinite: bool) -> None:
    """Given the mean alone sigma2 has the density of its prior times its -1/2th power, far out: v^(-(nu0 + 3) / 2)."""
    release = BoundedRelease(0.3, None, n=12, epsilon=0.5)
    for quantity in ("population", "data"):
        found = posterior(release, NormalInverseGamma(0.3, 1.0, nu0, 0.1), False, quantity=quantity)
        assert math.isinf(found.mean("sigma2")) == infinite
        assert math.isinf(found.sd("sigma2"))
        assert math.isfinite(found.mean("sigma"))
        assert found.quadrature_error < 1e-2
