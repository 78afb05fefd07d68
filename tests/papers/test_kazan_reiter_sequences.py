"""Kazan and Reiter (2025): several releases about one person, and what one attack could do.

Sections 2.6.3 (a target known to be unique at several levels), 2.10 (sequential releases) and the appendix (sums of
noise). Unless a test says otherwise: Census 2020 noise at full precision, nobody else with the trait, the target in.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.adversaries import risk

NOISE = [adv.DiscreteGaussian.from_rho(rho) for rho in adv.census.DETAILED_RHO.values()]
BLOCK, BLOCK_GROUP = NOISE[:2]
RHO1 = float(adv.census.DETAILED_RHO["block"])


@pytest.mark.parametrize(
    ("prior", "means"),
    [(1 / 2, (0.523666, 0.574547, 0.583846)), (1 / 10, (0.116761, 0.162837, 0.172761))],
)
def test_c23_unique_at_one_two_or_three_levels(prior: float, means: tuple[float, ...]) -> None:
    """Figure 2.7, left."""
    for levels, mean in enumerate(means, start=1):
        found = risk.unique_target(NOISE[:levels], prior)
        assert found["posterior_mean"].attrs["direction"] == "exact"
        assert float(found["posterior_mean"]) == pytest.approx(mean, abs=1e-6)


def test_c24_variance_of_narrow_noise() -> None:
    """Figure 2.8: 1/(2 rho) = 0.5. Claim: the gap is below 0.002 from there on."""
    assert adv.DiscreteGaussian(sigma2=0.5).variance - 0.5 == pytest.approx(-0.00102087, abs=1e-7)
    for s in (0.5, 0.6, 0.8, 1.0, 2.0, 10.0):
        assert abs(adv.DiscreteGaussian(sigma2=s).variance - s) < 0.002


@pytest.mark.parametrize(("rho", "siblings", "distance"), [(1.0, 5, 0.00108051), (RHO1, 27, 0.0)])
def test_c25_a_sum_of_noise_and_one_discrete_gaussian(rho: float, siblings: int, distance: float) -> None:
    """Figure 2.9: total variation of the exact sum from DG(0, d / (2 rho)); below 1e-13 at the census rate."""
    single, one = adv.DiscreteGaussian.from_rho(rho), adv.DiscreteGaussian(sigma2=siblings / (2 * rho))
    reach = single.tail_radius(60.0)
    pmf = np.exp(single.log_prob(np.arange(-reach, reach + 1), 0))
    total = np.ones(1)
    for _ in range(siblings):
        total = np.convolve(total, pmf)
    k = np.arange(total.size) - total.size // 2
    approximate = np.exp(one.log_prob(k, 0))
    assert 0.5 * np.abs(total - approximate).sum() == pytest.approx(distance, abs=1e-7 if distance else 1e-13)
    exact = np.exp(single.total(siblings).log_prob(k, 0))
    np.testing.assert_allclose(exact, total, atol=1e-14)
    if siblings == 5:
        assert exact[total.size // 2] == pytest.approx(0.253158, abs=1e-6)
        assert approximate[total.size // 2] == pytest.approx(0.252313, abs=1e-6)


def test_c26_two_releases_one_after_the_other() -> None:
    """Section 2.10: p = 1/10, releases 3 then 0, and the other way round."""
    forward, backward = (risk.sequential(order, BLOCK, 0, 0.1) for order in ([3, 0], [0, 3]))
    np.testing.assert_allclose(forward["factor"], [1.543226, 0.918934], atol=1e-6)
    np.testing.assert_allclose(backward["factor"], [0.914173, 1.551262], atol=1e-6)
    for found in (forward, backward):
        assert float(found["ratio"][-1]) == pytest.approx(1.418122, abs=1e-6)


def test_average_ratios_do_not_multiply() -> None:
    """Section 2.10: two block releases at p = 1/10 have ratio 1.34693; one, squared, 1.36330."""
    assert float(risk.sequential([1, 1], BLOCK, 0, 0.1)["ratio_mean"]) == pytest.approx(1.34693, abs=1e-5)
    assert float(risk.sequential([1], BLOCK, 0, 0.1)["ratio_mean"]) ** 2 == pytest.approx(1.36330, abs=1e-5)


@pytest.mark.parametrize(
    ("noise", "failure", "expected"),
    [
        pytest.param(BLOCK, 0.05, 0.893037, id="C32"),
        pytest.param(BLOCK, 0.01, 1.091490, id="C41, block, 0.01"),
        pytest.param(BLOCK, 0.001, 1.488395, id="C41, block, 0.001"),
        pytest.param(BLOCK_GROUP, 0.01, 1.725392, id="C41, block group, 0.01"),
    ],
)
def test_empirical_epsilon_of_one_attack(noise: Any, failure: float, expected: float) -> None:
    """Section 8.3 of the notes: far below the 17.9 of the whole release, and an odd multiple of rho."""
    plan = adv.Plan([adv.Level("block", noise)])
    found = risk.empirical_epsilon(plan, adv.Adversary(), {"block": 1}, failure)
    assert found == pytest.approx(expected, abs=1e-6)
    assert found / noise.rho() == pytest.approx(round(found / noise.rho()), abs=1e-9)
    assert round(found / noise.rho()) % 2 == 1


def test_c36_a_fifth_needs_a_release_of_eight() -> None:
    """Figure 2.3: p = 1/5, "a fraction of a percent"."""
    plan, reader = adv.Plan([adv.Level("block", BLOCK)]), adv.Adversary(0.2)
    posterior = reader.posterior(plan, plan.observe({"block": np.arange(12)}))["posterior"]
    assert int(np.argmax(posterior.values > 0.5)) == 8
    assert risk.prob_correct(plan, reader, {"block": 1}) == pytest.approx(0.001752, abs=1e-6)


@pytest.mark.slow
def test_c38_unique_up_to_the_nation() -> None:
    """Figure 2.7, right: risk R at levels 2 to 6 for p = 1/864; about exp(2 sum rho)."""
    ratios = [1.9897, 2.1986, 2.4335, 2.6880, 2.9709]
    for levels, ratio in enumerate(ratios, start=2):
        found = risk.unique_target(NOISE[:levels], 1 / 864)
        assert found["ratio_mean"].attrs["direction"] == "exact"
        assert float(found["ratio_mean"]) == pytest.approx(ratio, abs=1e-4)
        assert float(found["ratio_mean"]) < math.exp(2 * sum(noise.rho() for noise in NOISE[:levels]))


@pytest.mark.parametrize(("prior", "mean"), [(1 / 10, 0.192711), (1 / 2, 0.601372)])
def test_c42_five_releases(prior: float, mean: float) -> None:
    """Section 2.10: averages over all sequences of five block releases."""
    assert float(risk.sequential([1] * 5, BLOCK, 0, prior)["posterior_mean"]) == pytest.approx(mean, abs=1e-6)
