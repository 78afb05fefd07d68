"""What a mechanism attains: Theorem 4 where it is tight, listed and integrated releases everywhere else."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import laplace, norm

import adversary as adv
from adversary.budget.attained import attained_profile, attained_risk, attained_tail
from adversary.budget.evidence import TRUTHS
from adversary.budget.risk_bounds import absolute_risk_bound, relative_risk_bound
from tests.oracles import budget

STATISTICS = ("any", "count")
MECHANISMS: dict[str, adv.Mechanism] = {
    "geometric": adv.Geometric(0.8),
    "geometric, strong": adv.Geometric(5.0),
    "laplace": adv.Laplace(1.3),
    "laplace, narrow": adv.Laplace(0.1),
    "randomized response": adv.RandomizedResponse(1.1),
    "discrete gaussian": adv.DiscreteGaussian.from_rho(0.05),
    "discrete gaussian, narrow": adv.DiscreteGaussian(0.5),
    "gaussian": adv.Gaussian(1.7),
    "gaussian, narrow": adv.Gaussian(0.3),
}
PRIORS = [(0.5, 0.1), (1.0, 0.3), (0.2, 1.0), (0.03, 0.6), (1.0, 1.0)]

prior = st.floats(1e-4, 1.0)


def noisy_bits(mechanism: adv.Mechanism) -> tuple[dict[int, float], dict[int, float]]:
    """Laws of the release of a 1 and of a 0, on all releases that matter."""
    listed = np.union1d(mechanism.support(0), mechanism.support(1))
    one, none = ({int(y): float(np.exp(mechanism.log_prob(y, value))) for y in listed} for value in (1, 0))
    return one, none


# Theorem 4 is attained


@given(prior, prior, st.floats(1e-3, 20.0), st.sampled_from(["upper", "lower"]), st.sampled_from(STATISTICS))
@settings(max_examples=150, deadline=None)
def test_geometric_and_laplace_counts_attain_the_bound(p: float, q: float, e: float, side: str, counted: str) -> None:
    bound = relative_risk_bound(p, q, e, side, counted)
    for mechanism in (adv.Geometric(e), adv.Laplace(1.0 / e), adv.RandomizedResponse(e)):
        assert attained_risk(mechanism, p, q, side, counted) == pytest.approx(bound, rel=1e-12)


def test_the_bound_is_attained_on_a_grid_of_readers_at_once() -> None:
    rng = np.random.default_rng(5)
    p, q = 1.0 - rng.random((2, 10_000))
    for e, side, counted in itertools.product((0.01, 0.5, 4.0), ("upper", "lower"), STATISTICS):
        attained = attained_risk(adv.Geometric(e), p, q, side, counted)
        np.testing.assert_allclose(attained, relative_risk_bound(p, q, e, side, counted), rtol=1e-12)
        posterior = absolute_risk_bound(p, q, e, side, counted)
        np.testing.assert_allclose(p * q * attained, posterior, rtol=1e-12)


@pytest.mark.parametrize("mechanism", [adv.Gaussian(2.0), adv.DiscreteGaussian(2.0), adv.Exact()])
@pytest.mark.parametrize("counted", STATISTICS)
def test_unbounded_noise_lets_some_release_tell_all(mechanism: adv.Mechanism, counted: str) -> None:
    assert attained_risk(mechanism, 0.5, 0.1, "upper", counted) == 20.0
    assert attained_risk(mechanism, 0.5, 0.1, "lower", counted) == 0.0
    assert attained_risk(mechanism, 1.0, 1.0, "upper", counted) == 1.0
    assert attained_risk(mechanism, 1.0, 1.0, "lower", counted) == 1.0


def test_extremes_agree_with_the_listed_releases() -> None:
    for p, q in [(0.5, 0.1), (0.9, 0.02), (0.01, 1.0)]:
        listed = budget.two_bin_ratios(budget.geometric_noise(0.5), p, q)
        assert attained_risk(adv.Geometric(0.5), p, q) == pytest.approx(listed.largest, rel=1e-12)
        assert attained_risk(adv.Geometric(0.5), p, q, "lower") == pytest.approx(listed.smallest, rel=1e-12)


# Tails


@pytest.mark.parametrize("name", [name for name in MECHANISMS if "laplace" not in name and not name.startswith("gau")])
@pytest.mark.parametrize("counted", STATISTICS)
def test_discrete_tails_are_sums_over_listed_releases(name: str, counted: str) -> None:
    mechanism = MECHANISMS[name]
    bits = noisy_bits(mechanism)
    for p, q in PRIORS[:-1]:
        listed = (budget.two_count_outcomes if counted == "any" else budget.one_count_outcomes)(p, q, *bits)
        for ratio in (0.2, 0.77, 0.999, 1.111, 1.9, 0.9 / (p * q), 1.1 / (p * q)):
            expected = budget.outcome_tails(listed, ratio)
            found = [attained_tail(mechanism, p, q, ratio, truth, counted) for truth in TRUTHS]
            assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("counted", STATISTICS)
@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(9, 10), Fraction(1, 100)])
def test_a_release_does_not_exceed_its_own_ratio(x: Fraction, counted: str) -> None:
    """At every value the ratio takes, exactly: strictly larger ratios only."""
    mechanism = adv.Geometric(-math.log(x))
    for p, q in [(Fraction(1, 2), Fraction(1, 10)), (Fraction(1), Fraction(1, 3)), (Fraction(1, 5), Fraction(1))]:
        lumped = budget.lumped_geometric(x)
        listed = (budget.two_count_outcomes if counted == "any" else budget.one_count_outcomes)(p, q, *lumped)
        for ratio in {outcome.ratio for outcome in listed}:
            expected = budget.outcome_tails(listed, ratio)
            found = [attained_tail(mechanism, float(p), float(q), float(ratio), truth, counted) for truth in TRUTHS]
            assert found == pytest.approx(expected, rel=1e-12, abs=0.0)


def test_atoms_of_laplace_noise_do_not_exceed_themselves() -> None:
    """Both counts end with probability e^-epsilon / 2 or 1/2, so the largest ratio has probability 1/4 under "in S"."""
    for e, (p, q) in itertools.product((1e-3, 0.7, 3.0, 40.0), [(0.5, 0.1), (1.0, 0.3), (0.003, 0.2)]):
        top = attained_risk(adv.Laplace(1.0 / e), p, q)
        assert attained_tail(adv.Laplace(1.0 / e), p, q, top) == 0.0
        # below it lie this atom and the releases almost as telling; most of the mass between is far away
        just_below = attained_tail(adv.Laplace(1.0 / e), p, q, top * (1.0 - 1e-9))
        assert just_below == pytest.approx(0.25, abs=1e-5) or top == pytest.approx(1.0 / (p * q), rel=1e-8)


@pytest.mark.parametrize("name", ["laplace", "laplace, narrow", "gaussian", "gaussian, narrow"])
@pytest.mark.parametrize(("p", "q"), [(0.5, 0.1), (1.0, 0.3), (0.3, 0.95)])
def test_continuous_tails_agree_with_quadrature_over_both_releases(name: str, p: float, q: float) -> None:
    mechanism = MECHANISMS[name]
    law = norm(scale=mechanism.sigma) if isinstance(mechanism, adv.Gaussian) else laplace(scale=mechanism.scale)  # type: ignore[attr-defined]
    reach = float(law.isf(1e-15))
    if isinstance(mechanism, adv.Gaussian):
        sigma = mechanism.sigma
        density = lambda y: math.exp(-0.5 * (y / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))  # noqa: E731
        survival = lambda y: 0.5 * math.erfc(y / sigma / math.sqrt(2))  # noqa: E731
    else:
        scale = mechanism.scale  # type: ignore[attr-defined]
        density = lambda y: math.exp(-abs(y) / scale) / (2 * scale)  # noqa: E731
        survival = lambda y: 0.5 * math.exp(-y / scale) if y > 0 else 1 - 0.5 * math.exp(y / scale)  # noqa: E731
    for ratio, truth in zip((1.13, 0.8, 1.02), TRUTHS, strict=True):
        expected = budget.two_count_tail(density, survival, reach, p, q, ratio, truth)
        assert attained_tail(mechanism, p, q, ratio, truth) == pytest.approx(expected, abs=3e-9)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("counted", STATISTICS)
def test_tails_fall_and_the_worst_truth_is_in_s(name: str, counted: str) -> None:
    mechanism = MECHANISMS[name]
    for p, q in PRIORS:
        ratios = np.concatenate([[0.0], np.geomspace(1e-3, 1.2 / (p * q), 60), [np.inf]])
        tails = np.array([attained_tail(mechanism, p, q, ratios, truth, counted) for truth in TRUTHS])
        assert (np.diff(tails, axis=1) <= 1e-14).all()
        assert (tails[0] >= tails[1:] - 1e-14).all()
        np.testing.assert_allclose(tails[:, 0], 1.0, atol=1e-12)
        assert (tails[:, -2:] == 0.0).all()


@pytest.mark.slow_cases("any-gaussian", "any-gaussian, narrow")
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("counted", STATISTICS)
def test_beliefs_are_right_on_average(name: str, counted: str) -> None:
    """Averaged over what the reader holds possible, posterior over prior is 1: the integral of its tail."""
    p, q = 0.6, 0.3
    top = attained_risk(MECHANISMS[name], p, q, "upper", counted)
    ratios = top * (np.arange(4000) + 0.5) / 4000.0
    means = [top * attained_tail(MECHANISMS[name], p, q, ratios, truth, counted).mean() for truth in TRUTHS]
    assert means[0] * p * q + means[1] * p * (1.0 - q) + means[2] * (1.0 - p) == pytest.approx(1.0, abs=2e-3)


def test_small_tails_keep_their_digits() -> None:
    """One count with Gaussian noise far out: P(U > u) in closed form; two counts at value prior 1 tell the same."""
    mechanism, p = adv.Gaussian(1.0), 1e-9
    for threshold in (5.0, 20.0, 30.0):
        ratio = 1.0 / (p + (1.0 - p) * math.exp(-threshold))
        expected = 0.5 * math.erfc((threshold - 0.5) / math.sqrt(2.0))
        for counted in STATISTICS:
            assert attained_tail(mechanism, p, 1.0, ratio, "in S", counted) == pytest.approx(expected, rel=1e-8)
    assert attained_tail(mechanism, p, 1.0, 100.0) == pytest.approx(
        0.5 * math.erfc((-math.log(0.01 - p) + math.log1p(-p) - 0.5) / math.sqrt(2.0)), rel=1e-12
    )


def test_exact_counts_tell_who_is_there() -> None:
    for counted in STATISTICS:
        assert attained_tail(adv.Exact(), 0.5, 0.1, [0.0, 5.0, 19.9, 20.0], "in S", counted).tolist() == [1, 1, 1, 0]
        assert attained_tail(adv.Exact(), 0.5, 0.1, [0.0, 5.0], "out", counted).tolist() == [0.0, 0.0]
        assert attained_risk(adv.Exact(), 0.5, 0.1, "upper", counted, failure=0.5) == 20.0
    assert attained_tail(adv.Exact(), 0.5, 1.0, 0.5, "not in S") == 0.0


# Ratios with a failure probability


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("counted", STATISTICS)
def test_the_attained_ratio_is_the_smallest_exceeded_so_rarely(name: str, counted: str) -> None:
    mechanism, failures = MECHANISMS[name], np.array([1e-6, 1e-3, 0.05, 0.3, 0.7, 0.95])
    for p, q in PRIORS[:-1]:
        found = attained_risk(mechanism, p, q, "upper", counted, failure=failures)
        assert (attained_tail(mechanism, p, q, found, "in S", counted) <= failures * (1 + 1e-12)).all()
        assert (attained_tail(mechanism, p, q, found * (1 - 1e-7), "in S", counted) > failures * (1 - 1e-4)).all()
        assert (np.diff(found) <= 1e-12).all()


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("counted", STATISTICS)
def test_without_failure_the_ratio_is_the_largest_and_with_nothing_else_the_smallest(name: str, counted: str) -> None:
    for p, q in PRIORS:
        upper, lower = (attained_risk(MECHANISMS[name], p, q, side, counted) for side in ("upper", "lower"))
        ends = attained_risk(MECHANISMS[name], p, q, "upper", counted, failure=[0.0, 1.0])
        assert ends.tolist() == pytest.approx([upper, lower], rel=1e-14)
        assert (
            attained_risk(MECHANISMS[name], p, q, "upper", counted, failure=[1e-9, 0.5]) <= upper * (1.0 + 1e-14)
        ).all()


@pytest.mark.slow_cases(
    "0.05-any-gaussian",
    "0.05-any-gaussian, narrow",
    "0.3-any-gaussian",
    "0.3-any-gaussian, narrow",
    "1e-06-any-gaussian",
    "1e-06-any-gaussian, narrow",
)
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("counted", STATISTICS)
@pytest.mark.parametrize("failure", [0.0, 1e-6, 0.05, 0.3])
def test_nothing_attains_more_than_its_guarantee_allows(name: str, counted: str, failure: float) -> None:
    mechanism = MECHANISMS[name]
    grid = [0.001, 0.05, 0.3, 0.7, 1.0]
    own = {"guarantee": mechanism.privacy_loss(), "two": mechanism.privacy_loss(cells=2)}
    for asked in ({}, own):
        found: Any = attained_profile(mechanism, grid, grid, failure=failure, statistic=counted, **asked)
        assert (found["attained"] <= found["bound"] * (1 + 1e-12)).all()
        inner = found.where(found["wasted"].notnull())
        assert (inner["attained_epsilon"].fillna(0.0) <= inner["bound_epsilon"].fillna(0.0) + 1e-9).all()


# Profiles


def test_geometric_noise_wastes_nothing_and_gaussian_noise_some() -> None:
    priors = [0.02, 0.3, 0.9]
    assert abs(attained_profile(adv.Geometric(0.7), priors, priors)["wasted"]).max() < 1e-12
    sold = attained_profile(adv.DiscreteGaussian.from_rho(0.02), priors, priors)["wasted"]
    assert ((sold > 0.2) & (sold < 0.9)).all()
    mechanism = adv.DiscreteGaussian.from_rho(0.02)
    loss, two = mechanism.privacy_loss(), mechanism.privacy_loss(cells=2)
    own = attained_profile(mechanism, priors, priors, guarantee=loss, two=two)["wasted"]
    assert ((own > 0.0) & (own < sold)).all()


def test_certain_readers_and_certainty_have_no_waste_to_speak_of() -> None:
    found = attained_profile(adv.Gaussian(4.0), [0.5, 1.0], [0.5, 1.0])
    assert np.isnan(found["wasted"].sel(inclusion=1.0, value=1.0))
    assert found["attained"].sel(inclusion=1.0, value=1.0) == 1.0
    assert attained_profile(adv.Gaussian(4.0), 0.5, 0.5, failure=0.0)["wasted"].isnull().all()
    assert attained_profile(adv.Geometric(1.0), 0.5, 0.5, failure=1.0)["attained_epsilon"].item() == 0.0


# Shapes and bad input


def test_readers_do_not_depend_on_their_neighbours() -> None:
    """Rows of a large grid are worked off in pieces."""
    rng = np.random.default_rng(3)
    p, q = 1.0 - rng.random((2, 3000))
    mechanism = adv.DiscreteGaussian(6.0)
    together = attained_tail(mechanism, p, q, 1.1, "out")
    alone = [attained_tail(mechanism, p[i], q[i], 1.1, "out") for i in (5, 2500)]
    assert together[[5, 2500]] == pytest.approx(alone, rel=1e-14)  # the order of a sum is the processor's


@pytest.mark.parametrize("statistic", ["any", "count"])
@pytest.mark.parametrize("mechanism", [adv.Laplace(1.0), adv.Gaussian(2.0), adv.DiscreteGaussian(0.4)])
def test_priors_whose_product_is_no_double_give_no_warning(mechanism: adv.Mechanism, statistic: str) -> None:
    assert attained_risk(mechanism, 1e-300, 1e-300, statistic=statistic) > 1.0
    assert attained_risk(mechanism, 1e-300, 1e-300, "upper", statistic, failure=0.05) > 1.0
