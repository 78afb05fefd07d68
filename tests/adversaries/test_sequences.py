"""Many releases of the same people: against visiting every sequence, and against what is known in closed form."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import xarray as xr
from scipy.special import expit, logit

import adversary as adv
from adversary.adversaries import risk
from tests.catalogue import DG, RHO1, RHO2
from tests.oracles import paths

NARROW = {
    "discrete gaussian, 1.5": (DG(1.5), paths.discrete_gaussian(1.5, reach=8)),
    "discrete gaussian, 2.3": (DG(2.3), paths.discrete_gaussian(2.3, reach=8)),
    "geometric": (adv.Geometric(4.0), paths.geometric(4.0, reach=12)),
}
REACH = {"discrete gaussian, 1.5": 5, "discrete gaussian, 2.3": 4, "geometric": 9}


def every_sequence(names: tuple[str, ...], known: int, prior: float, target: int) -> dict[str, float]:
    """Averages by visiting every sequence of releases and Bayes' rule on each."""
    mean = right = tie = mass = 0.0
    truth = known + target
    for y in itertools.product(*[range(truth - REACH[name], truth + REACH[name] + 1) for name in names]):
        laws = [NARROW[name][1] for name in names]
        weight = math.exp(sum(law(one, truth) for law, one in zip(laws, y, strict=True)))
        inside = prior * math.exp(sum(law(one, known + 1) for law, one in zip(laws, y, strict=True)))
        out = (1 - prior) * math.exp(sum(law(one, known) for law, one in zip(laws, y, strict=True)))
        odds = math.log(inside) - math.log(out)
        mean += weight * inside / (inside + out)
        right += weight * ((odds > 1e-9) == bool(target))
        tie += weight * (abs(odds) <= 1e-9)
        mass += weight
    assert mass == pytest.approx(1.0, abs=1e-12)
    return {"posterior_mean": mean, "prob_correct": right, "tie_mass": tie, "ratio_mean": mean / prior}


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("prior", [0.5, 0.2, 0.03])
@pytest.mark.parametrize(
    "names",
    [
        ("discrete gaussian, 1.5", "discrete gaussian, 2.3", "geometric"),
        ("discrete gaussian, 2.3",) * 3,
        ("geometric", "geometric", "discrete gaussian, 1.5"),
    ],
    ids=["three kinds", "one kind", "two of one kind"],
)
def test_three_levels_visit_every_release(names: tuple[str, ...], prior: float, target: int) -> None:
    expected = every_sequence(names, 0, prior, target)
    found = risk.unique_target([NARROW[name][0] for name in names], prior, truth="in" if target else "out")
    for name, value in expected.items():
        assert found[name].attrs["direction"] == "exact"
        assert float(found[name]) == pytest.approx(value, abs=2e-12)


@pytest.mark.slow_cases("0.5-out--1")
@pytest.mark.parametrize(("prior", "truth", "sign"), [(0.5, "out", -1), (1 / 864, "in", 1)])
def test_six_census_levels_are_one_normal_law(prior: float, truth: str, sign: int) -> None:
    """Below rho = 1/4 only the sum S of the rhos matters: E expit(logit p + S + sqrt(2 S) N)."""
    noises = [DG(rho) for rho in adv.census.DETAILED_RHO.values()]
    s = sum(noise.rho() for noise in noises)
    x = np.linspace(-12, 12, 4801)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    found = risk.unique_target(noises, prior, truth=truth)
    assert found["posterior_mean"].attrs["direction"] == "exact"
    mean = float((density * expit(logit(prior) + sign * s + math.sqrt(2 * s) * x)).sum())
    assert float(found["posterior_mean"]) == pytest.approx(mean, abs=1e-11)


@pytest.mark.slow_cases("six levels-0.1")
@pytest.mark.parametrize(("kind", "prior"), [("long", 0.5), ("long", 0.001), ("six levels", 0.1)])
def test_the_average_posterior_over_both_truths_is_the_prior(kind: str, prior: float) -> None:
    noises = [DG(0.01)] * 400 if kind == "long" else [DG(rho) for rho in adv.census.DETAILED_RHO.values()]
    inside, out = (float(risk.unique_target(noises, prior, truth=t)["posterior_mean"]) for t in ("in", "out"))
    assert prior * inside + (1 - prior) * out == pytest.approx(prior, abs=1e-12)


# One release after another

MIXED = [DG(RHO1), adv.Geometric(0.8), DG(RHO2), adv.Gaussian(1.4), adv.Laplace(2.0), adv.RandomizedResponse(1.1)]
SEEN = [3, -1, 0, 0.7, -2.5, 1]


def test_each_release_is_read_by_the_reader_who_has_seen_those_before() -> None:
    found = risk.sequential(SEEN, MIXED, 0, 0.2, rng=1)
    reader = adv.Adversary(0.2)
    for i, (release, noise) in enumerate(zip(SEEN, MIXED, strict=True)):
        plan = adv.Plan([adv.Level("count", noise)])
        told = reader.posterior(plan, plan.observe({"count": release}))
        assert float(found["factor"][i]) == pytest.approx(float(told["ratio"]), rel=1e-12)
        assert float(found["posterior"][i]) == pytest.approx(float(told["posterior"]), rel=1e-12)
        assert float(found["log_factor"][i]) == pytest.approx(
            float(told["log_odds"]) - reader.prior_log_odds, abs=1e-12
        )
        reader = reader.after(plan, plan.observe({"count": release}))
    assert float(found["posterior"][-1]) == pytest.approx(reader.prior, rel=1e-12)
    assert float(found["ratio"][-1]) == pytest.approx(reader.prior / 0.2, rel=1e-12)


@pytest.mark.parametrize("prior", [0.0, 1e-9, 0.3, 1 - 1e-9, 1.0])
def test_factors_multiply_and_their_order_does_not_matter(prior: float) -> None:
    noises, releases = [DG(0.2), adv.Geometric(0.9), DG(1.3)], [4, -2, 3]
    totals = []
    for order in itertools.permutations(range(3)):
        found = risk.sequential([releases[i] for i in order], [noises[i] for i in order], 1, prior)
        assert not any(found[name].isnull().any() for name in found)
        assert float(found["factor"].prod()) == pytest.approx(float(found["ratio"][-1]), rel=1e-9)
        np.testing.assert_allclose(np.cumprod(found["factor"]), found["ratio"], rtol=1e-9)
        totals.append([float(found[name][-1]) for name in ("ratio", "posterior")] + [float(found["posterior_mean"])])
    np.testing.assert_allclose(totals, [totals[0]] * 6, rtol=1e-12)


def test_certain_readers_have_limits() -> None:
    never, always = (risk.sequential([5, 1, -3], DG(0.4), 0, prior) for prior in (0.0, 1.0))
    np.testing.assert_allclose(never["ratio"], np.exp(np.cumsum(0.4 * (2 * np.array([5, 1, -3]) - 1))))
    np.testing.assert_array_equal(never["posterior"], 0.0)
    np.testing.assert_array_equal(always["posterior"], 1.0)
    np.testing.assert_array_equal(always["ratio"], 1.0)
    np.testing.assert_array_equal(always["factor"], 1.0)


def test_one_mechanism_may_stand_for_all() -> None:
    one, listed = risk.sequential([2, 0, 1], DG(0.3), 1, 0.2), risk.sequential([2, 0, 1], [DG(0.3)] * 3, 1, 0.2)
    xr.testing.assert_identical(one, listed)
    assert one["factor"].dims == ("release",)
    assert one["posterior_mean"].dims == ()


def test_gaussian_releases_are_one_of_all_their_information() -> None:
    several = risk.unique_target([adv.Gaussian(2.0), adv.Gaussian(1.0), adv.Gaussian(0.8)], 0.3)
    one = risk.unique_target([adv.Gaussian((1 / 4 + 1 + 1 / 0.64) ** -0.5)], 0.3)
    for name in ("posterior_mean", "prob_correct", "ratio_mean"):
        assert several[name].attrs["direction"] == "exact"
        assert float(several[name]) == pytest.approx(float(one[name]), abs=1e-10)


@pytest.mark.parametrize("first", ["gaussian", "discrete"])
def test_one_continuous_release_among_listed_ones(first: str) -> None:
    """Gaussian noise integrated at every discrete release."""
    noises = [adv.Gaussian(1.5), DG(1.1)]
    found = risk.unique_target(noises if first == "gaussian" else noises[::-1], 0.3)
    assert found["posterior_mean"].attrs["direction"] == "exact"
    mean = 0.0
    for y in range(-6, 9):
        weight, factor = math.exp(DG(1.1).log_prob(y, 1)), 1.1 * (2 * y - 1)

        def integrand(x: float, factor: float = factor) -> float:
            z = (2 * x - 1) / (2 * 1.5**2)
            return math.exp(adv.Gaussian(1.5).log_prob(x, 1)) * float(expit(logit(0.3) + factor + z))

        mean += weight * scipy.integrate.quad(integrand, -20.0, 22.0, limit=200)[0]
    assert float(found["posterior_mean"]) == pytest.approx(mean, abs=1e-9)


def test_several_laplace_releases_are_simulated_with_their_error() -> None:
    found = risk.unique_target([adv.Laplace(2.0), adv.Laplace(1.0)], 0.3, rng=5)
    near = risk.unique_target([adv.Laplace(2.0), adv.Laplace(1.0)], 0.3, rng=6)
    assert found["posterior_mean"].attrs["direction"] == "estimate"
    error = math.hypot(*(float(d["mcse"].sel(measure="posterior_mean")) for d in (found, near)))
    assert float(found["posterior_mean"]) == pytest.approx(float(near["posterior_mean"]), abs=4 * error)


# What is refused


def test_an_exact_release_settles_it() -> None:
    found = risk.sequential([2, 1], [DG(0.3), adv.Exact()], 0, 0.25)
    np.testing.assert_array_equal(found["posterior"][1], 1.0)
    assert float(found["ratio"][1]) == 4.0
    gone = risk.sequential([2, 0, 1], [DG(0.3), adv.Exact(), DG(0.3)], 0, 0.25)
    np.testing.assert_array_equal(gone["posterior"][1:], 0.0)
    assert float(gone["factor"][2]) == pytest.approx(math.exp(0.3))
    assert not any(gone[name].isnull().any() for name in gone)
