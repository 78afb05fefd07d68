"""Laws every guarantee obeys, each definition against its formula; true promises are kept, false ones caught."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest
from scipy.special import expit

import adversary as adv
from adversary.literature.frameworks import mutual_information
from adversary.privacy.definitions.concentrated_bounds import simple_epsilon
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.losses.composition import ComposedLoss, compose_losses
from adversary.privacy.losses.discrete_gaussian import DiscreteGaussianLoss
from adversary.privacy.profiles import loss_bound_from_profile
from tests.catalogue import BRACKETED, DG, GUARANTEES, LOSSES, RHO1, RHO2
from tests.oracles import paths
from tests.tables import over, refusals

EVERY: dict[str, adv.Guarantee] = {**GUARANTEES, **{f"loss: {name}": loss for name, loss in LOSSES.items()}}
SYMMETRIC = {name: g for name, g in GUARANTEES.items() if name != "none"}
PRIORS = np.array([0.0, 1e-6, 0.1, 0.31172, 0.5, 0.9, 1.0])
RHOS = [1e-8, 1e-4, RHO1, RHO2, 1.0, 2.56, 30.0, 1e3]
EPSILONS = [1e-8, 1e-3, 0.1, 1.0, 5.0, 30.0, 1e3]


# The profile


@over(EVERY)
def test_delta_falls_and_is_a_probability(g: adv.Guarantee) -> None:
    e = np.concatenate([np.linspace(-8, 8, 161), np.geomspace(8.1, 1e4, 40)])
    delta = g.delta(e)
    assert np.all((delta >= 0) & (delta <= 1))
    assert np.all(np.diff(delta) <= 1e-13)
    assert isinstance(g.delta(0.3), float)
    assert g.delta(np.zeros((2, 3))).shape == (2, 3)
    np.testing.assert_allclose([g.delta(x) for x in e[::40]], delta[::40], rtol=1e-12, atol=1e-300)


@over(SYMMETRIC)
def test_delta_at_negative_epsilon_of_a_symmetric_definition(g: adv.Guarantee) -> None:
    """delta(-e) = 1 - e^-e (1 - delta(e))."""
    e = np.array([0.01, 0.5, 1.0, 3.0, 12.0])
    np.testing.assert_allclose(g.delta(-e), 1 - np.exp(-e) * (1 - g.delta(e)), rtol=1e-12, atol=1e-15)


@over(EVERY)
def test_epsilon_is_the_inverse_of_delta(g: adv.Guarantee) -> None:
    for e in (0.0, 0.05, 0.4, 0.9, 3.0):
        delta = g.worst_delta(e)  # epsilon takes the worse direction
        if delta == 0.0:  # certain protection, or a profile too small to represent: unattainable, and said so
            assert g.epsilon(0.0) == g.loss_bound(0.0)
            continue
        found = g.epsilon(delta)
        assert found <= e * (1 + 1e-9) + 1e-9
        assert g.worst_delta(found) <= delta * (1 + 1e-9) + 1e-300
        if 0 < delta < 1 and g.worst_delta(e * 0.999 - 1e-3) > delta:  # strictly falling there
            assert g.worst_delta(found * (1 - 1e-7) - 1e-12) >= delta * (1 - 1e-12)
    assert g.epsilon(1.0) == 0.0


@over(EVERY)
def test_unattainable_delta_gives_infinite_epsilon(g: adv.Guarantee) -> None:
    endless = isinstance(g, ComposedLoss) and g.maximum == math.inf and g.certain == 0.0
    if isinstance(g, DiscreteGaussianLoss) or endless:  # none is unattainable, some are below the resolution
        assert g.epsilon(1e-200) <= g.epsilon(1e-250) <= g.pbdp_epsilon(1e-250) < math.inf
        return
    least = g.delta(1e6)
    if least > 0:
        assert g.epsilon(least / 2) == math.inf


@pytest.mark.parametrize("epsilon0", [0.0, 0.3, 1.0, 8.0])
def test_pure_profile_is_that_of_randomized_response(epsilon0: float) -> None:
    keep = 1 / (1 + math.exp(-epsilon0))
    for e in (-9.0, -0.3, 0.0, 0.2, 0.9, 1.1, 9.0):
        expected = paths.privacy_profile([keep, 1 - keep], [1 - keep, keep], e)
        assert adv.PureDP(epsilon0).delta(e) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("delta0", [0.0, 1e-6, 0.2])
def test_approximate_profile_is_that_of_its_worst_pair(delta0: float) -> None:
    """Randomised response that reveals everything with probability delta."""
    keep = (1 - delta0) / (1 + math.exp(-0.7))
    p, q = [delta0, keep, 1 - delta0 - keep, 0.0], [0.0, 1 - delta0 - keep, keep, delta0]
    for e in (-2.0, -0.3, 0.0, 0.2, 0.7, 3.0):
        expected = paths.privacy_profile(p, q, e)
        assert adv.ApproximateDP(0.7, delta0).delta(e) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("rho", [1e-8, 0.01, 0.07, 1.0, 2.56, 1e3])
def test_zcdp_profile_is_the_best_renyi_order(rho: float) -> None:
    """inf over alpha of exp((alpha - 1)(alpha rho - e)) (1 - 1/alpha)^alpha / (alpha - 1), by a wide fine grid."""
    g = adv.ZeroConcentratedDP(rho)
    gap = np.geomspace(1e-9, 1e9, 400_001)
    for e in (0.0, rho / 2, rho, rho + 0.3 * math.sqrt(rho), rho + 4 * math.sqrt(rho), rho + 12 * math.sqrt(rho)):
        with np.errstate(over="ignore"):
            log_delta = gap * ((gap + 1) * rho - e) - (gap + 1) * np.log1p(1 / gap) - np.log(gap)
        expected = min(float(log_delta.min()), 0.0)
        assert math.log(g.delta(e)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("mu", [1e-3, 0.5, 3.0, 40.0])
def test_gaussian_profile_in_40_digits(mu: float) -> None:
    """Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), down to deltas of 1e-200."""
    g = adv.GaussianDP(mu)
    for z in (-3.0, 0.0, 1.0, 5.0, 12.0, 28.0):
        e = mu * z
        with mpmath.workdps(60):
            m, x = mpmath.mpf(mu), mpmath.mpf(e)
            upper, lower = mpmath.ncdf(m / 2 - x / m), mpmath.ncdf(-m / 2 - x / m)
            expected = upper - mpmath.exp(x) * lower
        assert g.delta(e) == pytest.approx(float(expected), rel=3e-9, abs=1e-300)


# Bounds


@over(EVERY)
@pytest.mark.parametrize("failure", [0.0, 1e-4, 0.05, 1.0])
def test_bounds_are_ordered_and_inside_the_unit_interval(g: adv.Guarantee, failure: float) -> None:
    assert g.loss_bound(failure) >= 0
    lower, upper = g.posterior_bounds(PRIORS, failure)
    slack = 1e-15
    assert np.all((lower >= 0) & (lower <= PRIORS + slack) & (upper >= PRIORS - slack) & (upper <= 1))
    assert (lower[0], upper[0], lower[-1], upper[-1]) == (0.0, 0.0, 1.0, 1.0)
    low, high = g.ratio_bounds(PRIORS, failure)
    assert np.all((low <= 1 + slack) & (high >= 1 - slack))
    assert (low[-1], high[-1]) == (1.0, 1.0)
    inner = slice(1, -1)
    np.testing.assert_allclose(low[inner], lower[inner] / PRIORS[inner], rtol=1e-9)
    np.testing.assert_allclose(high[inner], upper[inner] / PRIORS[inner], rtol=1e-9)
    down, up = g.difference_bounds(PRIORS, failure)
    np.testing.assert_allclose(down, lower - PRIORS, atol=1e-15)
    np.testing.assert_allclose(up, upper - PRIORS, atol=1e-15)
    every_down, every_up = g.difference_bounds(failure=failure)
    assert np.all(down >= every_down - 1e-15)
    assert np.all(up <= every_up + 1e-15)
    every_low, every_high = g.ratio_bounds(failure=failure)
    assert every_low <= low.min() + 1e-15
    assert every_high >= high.max() - 1e-15


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 2.0, 20.0])
def test_bounds_are_those_of_the_theorems(epsilon: float) -> None:
    """Theorems 28, 29 and 31 (3.2, 3.3 and 3.5 of the conference version)."""
    g = adv.PureDP(epsilon)
    for prior in (0.01, 0.5, 0.7):
        assert g.posterior_bounds(prior) == pytest.approx(paths.posterior_bounds(prior, epsilon), rel=1e-13)
        assert g.ratio_bounds(prior) == pytest.approx(paths.ratio_bounds(epsilon, prior), rel=1e-13)
        assert g.difference_bounds(prior) == pytest.approx(paths.difference_bounds(epsilon, prior), rel=1e-9)
    assert g.ratio_bounds() == pytest.approx(paths.ratio_bounds(epsilon), rel=1e-13)
    assert g.difference_bounds() == pytest.approx(paths.difference_bounds(epsilon), rel=1e-13)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 9.0])
def test_difference_bound_is_attained_at_the_worst_prior(epsilon: float) -> None:
    """Lemma 30: p = 1/(1 + e^(epsilon/2)), posterior 1/(1 + e^(-epsilon/2)); the mirror for a fall."""
    g, worst = adv.PureDP(epsilon), float(expit(-epsilon / 2))
    assert g.posterior_bounds(worst)[1] == pytest.approx(1 - worst, rel=1e-13)
    assert g.difference_bounds(worst)[1] == pytest.approx(g.difference_bounds()[1], rel=1e-12)
    assert g.difference_bounds(1 - worst)[0] == pytest.approx(g.difference_bounds()[0], rel=1e-12)
    grid = np.linspace(0, 1, 4001)
    assert grid[np.argmax(g.difference_bounds(grid)[1])] == pytest.approx(worst, abs=1e-3)


def test_infinite_loss_bounds_are_trivial_intervals() -> None:
    g = adv.NoPrivacy()
    assert g.posterior_bounds(0.3) == (0.0, 1.0)
    assert g.posterior_bounds(0.0) == (0.0, 0.0)
    assert g.posterior_bounds(1.0) == (1.0, 1.0)
    assert g.ratio_bounds() == (0.0, math.inf)
    assert g.ratio_bounds(0.25) == pytest.approx((0.0, 4.0))
    assert g.difference_bounds() == (-1.0, 1.0)
    assert adv.ZeroConcentratedDP(0.1).posterior_bounds(0.5) == (0.0, 1.0)  # failure 0: nobody can promise it
    assert g.loss_bound(1.0) == 0.0


# loss_bound, definition by definition


@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.1, 1.0, 3.0])
@pytest.mark.parametrize(("delta", "failure"), [(1e-7, 0.01), (1e-6, 1e-5), (0.01, 0.010001), (0.3, 1.0), (0.0, 0.05)])
def test_approximate_loss_bound_is_theorem_3_9(epsilon: float, delta: float, failure: float) -> None:
    expected = paths.pdp_epsilon(epsilon, delta, failure)
    assert adv.ApproximateDP(epsilon, delta).loss_bound(failure) == pytest.approx(expected, rel=1e-11, abs=1e-14)


def test_approximate_loss_bound_needs_room() -> None:
    assert adv.ApproximateDP(1.0, 0.01).loss_bound(0.01) == math.inf
    assert adv.ApproximateDP(1.0, 0.01).loss_bound(0.0) == math.inf
    assert adv.ApproximateDP(1.0, 0.0).loss_bound(0.0) == 1.0


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("failure", [1e-10, 0.01, 0.05, 0.5, 0.99])
def test_zcdp_loss_bound_is_the_direct_one(rho: float, failure: float) -> None:
    """Smallest e > rho with (1 + e^-e) exp(-(e - rho)^2 / (4 rho)) <= failure."""
    bound = adv.ZeroConcentratedDP(rho).loss_bound(failure)
    assert bound == pytest.approx(paths.zcdp_direct_epsilon(rho, failure), rel=1e-9)
    assert (1 + math.exp(-bound)) * math.exp(-((bound - rho) ** 2) / (4 * rho)) <= failure * (1 + 1e-9)


@over({name: loss for name, loss in EVERY.items() if name.startswith("loss: ")})
def test_loss_bound_holds_under_both_truths(g: Any) -> None:
    for failure in (0.01, 0.2):
        e = g.loss_bound(failure)
        if np.isfinite(e):
            p, q = g.tail(e * (1 + 1e-12))
            below_q, below_p = g.swapped.tail(e * (1 + 1e-12))
            assert p + below_p <= failure * (1 + 1e-9)
            assert q + below_q <= failure * (1 + 1e-9)
    assert g.loss_bound(0.0) == max(g.maximum, g.swapped.maximum)


@over(SYMMETRIC)
def test_loss_bound_covers_its_worst_pairs_after_postprocessing(g: adv.Guarantee) -> None:
    """The rule for any profile, (1 + e^-e) pbdp_delta(e) <= failure, never beats a definition's own sharper theorem."""
    if isinstance(g, adv.ProbabilisticDP):
        return
    for failure in (0.02001, 0.05, 0.3):
        assert g.loss_bound(failure) <= loss_bound_from_profile(g, failure) * (1 + 1e-6) + 1e-9


@over(EVERY)
def test_pbdp_delta_is_its_definition(g: adv.Guarantee) -> None:
    """min over e < epsilon of delta(e) / (1 - e^(e - epsilon)), on a plain grid: never above it, hardly below.

    The worse direction; and nothing is beyond the largest loss.
    """
    for epsilon in (0.2, 1.0, 4.0):
        if epsilon >= g.loss_bound(0.0):
            assert g.pbdp_delta(epsilon) == 0.0
            continue
        e = epsilon - np.geomspace(1e-6, 2 * epsilon + 15, 4001)
        sides = [np.min(np.asarray(side.delta(e)) / -np.expm1(e - epsilon)) for side in (g, g.swapped)]
        grid = min(1.0, float(max(sides)))
        assert g.pbdp_delta(epsilon) <= grid * (1 + 1e-6) + 1e-300
        assert g.pbdp_delta(epsilon) >= g.worst_delta(epsilon) * (1 - 1e-9)
        assert g.pbdp_delta(epsilon) >= grid * (1 - 1e-2) - 1e-300


def test_probabilistic_dp_promises_only_its_own_failure() -> None:
    g = adv.ProbabilisticDP(1.0, 1e-3)
    assert g.loss_bound(1e-3) == 1.0
    assert g.loss_bound(0.5) == 1.0
    assert g.loss_bound(0.9e-3) == math.inf
    e = np.linspace(-2, 3, 11)
    np.testing.assert_array_equal(g.delta(e), adv.ApproximateDP(1.0, 1e-3).delta(e))


# Promises: kept, and caught


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_true_zcdp_promises_are_kept_and_false_ones_caught(rho: float, sensitivity: int) -> None:
    for noise in (DG(rho, sensitivity), adv.Gaussian.from_rho(rho, sensitivity)):
        loss = noise.privacy_loss(sensitivity)
        assert adv.ZeroConcentratedDP(rho).is_satisfied_by(loss)
        assert adv.ZeroConcentratedDP(1.1 * rho).is_satisfied_by(loss)
        assert not adv.ZeroConcentratedDP(0.9 * rho).is_satisfied_by(loss)
        assert not adv.ZeroConcentratedDP(0.99 * rho).is_satisfied_by(loss)


@pytest.mark.parametrize("rho", [1e-3, RHO1, 1.0])
def test_zcdp_of_two_cells_and_of_a_path(rho: float) -> None:
    loss = DG(rho, cells=2).privacy_loss(1, 2)
    assert adv.ZeroConcentratedDP(rho).is_satisfied_by(loss)
    assert not adv.ZeroConcentratedDP(0.9 * rho).is_satisfied_by(loss)
    path = DG(rho).privacy_loss() + DG(2 * rho).privacy_loss()
    assert adv.ZeroConcentratedDP(3 * rho).is_satisfied_by(path)
    assert not adv.ZeroConcentratedDP(0.9 * 3 * rho).is_satisfied_by(path)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_true_pure_promises_are_kept_and_false_ones_caught(epsilon: float) -> None:
    for noise in (adv.Geometric(epsilon), adv.Laplace(1 / epsilon), adv.RandomizedResponse(min(epsilon, 600.0))):
        loss = noise.privacy_loss()
        spent = min(epsilon, 600.0) if isinstance(noise, adv.RandomizedResponse) else epsilon
        assert adv.PureDP(spent).is_satisfied_by(loss)
        assert not adv.PureDP(0.9 * spent).is_satisfied_by(loss)
        assert adv.ZeroConcentratedDP(spent**2 / 2).is_satisfied_by(loss)
    two = adv.Geometric.from_epsilon(epsilon, 1, 2).privacy_loss(1, 2)
    assert adv.PureDP(epsilon).is_satisfied_by(two)
    assert not adv.PureDP(0.9 * epsilon).is_satisfied_by(two)


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in BRACKETED])
def test_true_approximate_promises_are_kept_and_false_ones_caught(name: str) -> None:
    loss = LOSSES[name]
    for epsilon in (0.0, 0.1, 0.7, 2.0):
        delta = max(loss.delta(epsilon), loss.swapped.delta(epsilon))
        if delta >= 1:
            assert not adv.ApproximateDP(epsilon, 0.9).is_satisfied_by(loss)
            continue
        if delta == 0.0:
            assert adv.ApproximateDP(epsilon, 0.0).is_satisfied_by(loss) == adv.PureDP(epsilon).is_satisfied_by(loss)
            continue
        assert adv.ApproximateDP(epsilon, delta).is_satisfied_by(loss)
        if delta > 0:
            assert not adv.ApproximateDP(epsilon, 0.9 * delta).is_satisfied_by(loss)


@pytest.mark.parametrize("name", BRACKETED)
def test_a_bracketed_loss_is_judged_by_what_is_certain(name: str) -> None:
    """A promise at the upper end is kept, one well below the lower end is broken."""
    loss = LOSSES[name]
    epsilon = 0.3
    lower = max(side.bracket.delta(epsilon)[0] for side in (loss, loss.swapped))
    upper = max(side.bracket.delta(epsilon)[1] for side in (loss, loss.swapped))
    assert adv.ApproximateDP(epsilon, upper).is_satisfied_by(loss)
    assert not adv.ApproximateDP(epsilon, 0.9 * lower).is_satisfied_by(loss)


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in (*BRACKETED, "nothing released", "exact")])
def test_true_probabilistic_promises_are_kept_and_false_ones_caught(name: str) -> None:
    loss = LOSSES[name]
    for epsilon in (0.01, 0.25, 0.63):
        p, q = loss.tail(epsilon)
        below_q, below_p = loss.swapped.tail(epsilon)
        delta = max(p + below_p, q + below_q)
        if 0 < delta < 0.999:
            assert adv.ProbabilisticDP(epsilon, delta).is_satisfied_by(loss)
            assert not adv.ProbabilisticDP(epsilon, 0.9 * delta).is_satisfied_by(loss)


def test_true_probabilistic_promise_about_a_pure_mechanism() -> None:
    """A loss exactly at epsilon counts as inside, in spite of rounding."""
    for epsilon in (0.1, 0.3, 0.8, 1.7):
        assert adv.ProbabilisticDP(epsilon, 0.0).is_satisfied_by(adv.Geometric(epsilon).privacy_loss())
        assert adv.ProbabilisticDP(3 * epsilon, 0.0).is_satisfied_by(adv.Geometric(epsilon).privacy_loss(3))
        assert adv.ApproximateDP(3 * epsilon, 0.0).is_satisfied_by(adv.Geometric(epsilon).privacy_loss(3))
        assert not adv.ProbabilisticDP(0.9 * epsilon, 0.0).is_satisfied_by(adv.Geometric(epsilon).privacy_loss())


@pytest.mark.parametrize("mu", [1e-3, 0.1, 0.5, 2.0, 30.0])
def test_true_gaussian_promises_are_kept_and_false_ones_caught(mu: float) -> None:
    loss = adv.Gaussian(1 / mu).privacy_loss()
    assert adv.GaussianDP(mu).is_satisfied_by(loss)
    assert adv.GaussianDP(1.1 * mu).is_satisfied_by(loss)
    assert not adv.GaussianDP(0.9 * mu).is_satisfied_by(loss)


@pytest.mark.parametrize("rho", [1e-2, RHO1, RHO2, 1.0, 5.0])
def test_a_discrete_gaussian_is_not_gaussian_dp(rho: float) -> None:
    assert not adv.GaussianDP(math.sqrt(2 * rho)).is_satisfied_by(DG(rho).privacy_loss())
    assert adv.ZeroConcentratedDP(rho).is_satisfied_by(DG(rho).privacy_loss())


@over(GUARANTEES)
def test_no_loss_keeps_every_promise_and_an_invariant_almost_none(g: adv.Guarantee) -> None:
    assert g.is_satisfied_by(LOSSES["nothing released"])
    assert g.is_satisfied_by(LOSSES["exact"]) == isinstance(g, adv.NoPrivacy)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_keeps_its_own_promise(name: str) -> None:
    loss = LOSSES[name]
    assert loss.is_satisfied_by(loss)


def test_a_smaller_loss_keeps_a_larger_ones_promise_and_not_the_reverse() -> None:
    for small, large in (
        (DG(0.1), DG(0.3)),
        (adv.Geometric(0.5), adv.Geometric(0.8)),
        (adv.Gaussian(2.0), adv.Gaussian(1.0)),
    ):
        assert large.privacy_loss().is_satisfied_by(small.privacy_loss())
        assert not small.privacy_loss().is_satisfied_by(large.privacy_loss())


# Groups


def test_groups_of_each_definition() -> None:
    assert adv.PureDP(0.3).group(3).epsilon0 == pytest.approx(0.9)
    assert adv.ZeroConcentratedDP(0.3).group(3).rho == pytest.approx(2.7)
    assert adv.GaussianDP(0.3).group(3).mu == pytest.approx(0.9)
    assert isinstance(adv.NoPrivacy().group(4), adv.NoPrivacy)
    two: Any = adv.ApproximateDP(0.5, 1e-6).group(2)
    assert (two.epsilon0, two.delta0) == pytest.approx((1.0, 1e-6 * (1 + math.exp(0.5))))
    assert isinstance(adv.ApproximateDP(5.0, 1e-2).group(3), adv.NoPrivacy)


@over(GUARANTEES)
def test_a_group_of_one_is_the_guarantee_itself(g: adv.Guarantee) -> None:
    e = np.linspace(-2, 4, 13)
    np.testing.assert_allclose(g.group(1).delta(e), g.delta(e), rtol=1e-14)
    assert g.group(1).loss_bound(0.05) == g.loss_bound(0.05)


@over(GUARANTEES)
def test_a_larger_group_is_promised_less(g: adv.Guarantee) -> None:
    e = np.linspace(-2, 30, 65)
    assert np.all(g.group(2).delta(e) >= np.asarray(g.delta(e)) - 1e-12)
    if not isinstance(g, adv.ProbabilisticDP):
        assert g.group(2).loss_bound(0.05) >= g.loss_bound(0.05) - 1e-12


@pytest.mark.parametrize("size", [2, 3])
def test_groups_cover_mechanisms_moved_by_that_many(size: int) -> None:
    assert adv.ZeroConcentratedDP(0.3).group(size).is_satisfied_by(DG(0.3).privacy_loss(size))
    assert not adv.ZeroConcentratedDP(0.27).group(size).is_satisfied_by(DG(0.3).privacy_loss(size))
    assert adv.PureDP(0.8).group(size).is_satisfied_by(adv.Geometric(0.8).privacy_loss(size))
    assert adv.GaussianDP(0.5).group(size).is_satisfied_by(adv.Gaussian(2.0).privacy_loss(size))
    loss = DG(0.3).privacy_loss()
    delta = max(loss.delta(0.4), loss.swapped.delta(0.4))
    assert adv.ApproximateDP(0.4, delta).group(size).is_satisfied_by(DG(0.3).privacy_loss(size))
    p, q = loss.tail(0.4)
    below_q, below_p = loss.swapped.tail(0.4)
    promise = adv.ProbabilisticDP(0.4, max(p + below_p, q + below_q))
    assert promise.is_satisfied_by(loss)
    assert promise.group(size).is_satisfied_by(DG(0.3).privacy_loss(size))


# Bad input


@over(GUARANTEES)
def test_what_is_asked_of_a_loss_is_answered_by_the_way_to_it(g: Any) -> None:
    assert not hasattr(g, "tail")
    paired = type(g).worst_pair is not adv.Guarantee.worst_pair
    way = r"ask its \.worst_pair\.tail" if paired else "no worst pair: convert it first"
    with pytest.raises(AttributeError, match=f"{type(g).__name__} has no tail, which a PrivacyLoss has.*{way}"):
        g.tail(1.0)
    with pytest.raises(AttributeError, match=r"has no colour$"):
        _ = g.colour


NOISE: Any = adv.Laplace(1.0)


test_the_wrong_kind_of_object_is_refused_with_the_way_to_the_right_one = refusals(
    (lambda: mutual_information(adv.ZeroConcentratedDP(1.0)), "zCDP has no worst pair: convert it first"),  # type: ignore[arg-type]
    (lambda: adv.decisions.max_f_score(NOISE), r"guarantee must be.*ask its \.privacy_loss\(\)$"),
    (lambda: adv.budget.verdict(adv.RiskProfile.constant(2.0), NOISE), r"\.privacy_loss\(\)$"),
    (lambda: compose_losses([NOISE]), r"losses are composed with losses.*\.privacy_loss\(\)$"),
    error=TypeError,
)


@pytest.mark.parametrize("loss", [adv.census.pl94().loss, adv.DiscreteGaussian(0.01).privacy_loss()])
def test_below_the_least_double_the_moments_still_bound_the_loss(loss: Any) -> None:
    deltas = np.array([1e-230, 1e-239, 1e-241, 1e-300, 1e-307])
    for found in (loss.epsilon(deltas), loss.pbdp_epsilon(deltas), loss.loss_bound(deltas)):
        assert np.isfinite(found).all()
        assert (np.diff(found) >= 0.0).all()
        assert (found <= simple_epsilon(loss.rho, deltas) * (1 + 1e-6)).all()


@pytest.mark.parametrize("alpha", [1.0 + 1e-9, 1.0001, 1.05, 4.0, 1e6])
@pytest.mark.parametrize("delta", [0.4, 0.01, 1e-10, 1e-300])
def test_renyi_dp_of_any_order_bounds_the_loss(alpha: float, delta: float) -> None:
    """No weaker than Markov's inequality, (1 + e^-e) e^((alpha - 1)(gamma - e)); no sharper than the trade-off."""
    g = adv.RenyiDP(alpha, 0.5)
    markov = 0.5 - math.log(delta) / (alpha - 1.0)
    assert g.pbdp_epsilon(delta) <= g.loss_bound(delta) <= markov + math.log(2.0) / (alpha - 1.0)
    assert g.pbdp_delta(g.pbdp_epsilon(delta)) == pytest.approx(delta, rel=1e-5)
    assert g.pbdp_epsilon(delta) >= math.log(delta / max(g.level(delta), 1e-307)) * (1 - 1e-9) - 1e-12


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: adv.PureDP(math.inf), "epsilon must be non-negative and finite, got inf"),
    (lambda: adv.PureDP("1"), "epsilon must be a number.*'1'", TypeError),  # type: ignore[arg-type]
    (lambda: adv.PureDP(epsilon=1.0), r"PureDP takes epsilon0, got epsilon=1\.0", TypeError),  # type: ignore[call-arg]
    (lambda: adv.NoPrivacy(epsilon=1.0), "NoPrivacy takes nothing, got epsilon=1", TypeError),  # type: ignore[call-arg]
    (lambda: adv.ApproximateDP(1.0, 1.0), r"delta must be in \[0, 1\), got 1\.0"),
    (lambda: adv.ProbabilisticDP(-1.0, 0.1), "epsilon must be non-negative.*-1"),
    (lambda: adv.GaussianDP(math.nan), "mu must be non-negative.*nan"),
    (lambda: adv.ZeroConcentratedDP(1.0).group(1.5), r"size must be a whole number.*1\.5"),  # type: ignore[arg-type]
)


# What a bracket certifies, and labels


def test_probabilistic_promises_of_a_bracketed_loss_are_judged_by_certified_tails() -> None:
    """A three-way response moves L by 1, a weak Laplace release by at most 0.1: P(|L| > 1/2) = (e + 1) / (e + 2)."""
    loss = adv.RandomizedResponse(1.0, 3).privacy_loss() + adv.Laplace(10.0).privacy_loss()
    exactly = (math.e + 1) / (math.e + 2)
    assert adv.ProbabilisticDP(0.5, exactly).is_satisfied_by(loss)
    assert not adv.ProbabilisticDP(0.5, 0.99 * exactly).is_satisfied_by(loss)


def test_zcdp_claims_of_pure_mechanisms_are_judged_near_order_one() -> None:
    """The Renyi divergence of order alpha over alpha is largest as alpha goes to one: KL = 2.7154 for epsilon 3."""
    loss = adv.Geometric(3.0).privacy_loss()
    p = loss.expect(lambda z: z)[0]
    assert p == pytest.approx(2.7154, abs=1e-4)
    assert adv.ZeroConcentratedDP(1.001 * p).is_satisfied_by(loss)
    assert not adv.ZeroConcentratedDP(0.97 * p).is_satisfied_by(loss)


@pytest.mark.parametrize("make", [adv.PureDP, adv.ZeroConcentratedDP, adv.GaussianDP, partial(RenyiDP, 2.0)])
def test_a_parameter_is_one_number_and_never_rounded_to_nothing(make: Any) -> None:
    with pytest.raises(TypeError, match=r"must be one number, got range\(0, 3\)"):
        make(range(3))
    tiny = make(Fraction(1, 10**400))
    assert tiny == make(5e-324)
    assert tiny.loss_bound(0.0) > 0.0


@pytest.mark.parametrize(
    ("guarantee", "success"),
    [
        (adv.ZeroConcentratedDP(2.63), 0.69816),
        (adv.GaussianDP(2.63**0.5 * 2.0**0.5), 0.48689),
        (adv.PureDP(np.log(3.0)), 0.03),
    ],
)
def test_any_attack_from_its_baseline(guarantee: adv.Guarantee, success: float) -> None:
    assert float(guarantee.attack_success(0.01)) == pytest.approx(success, abs=1e-5)
    assert guarantee.attack_success([0.0, 1.0]).tolist()[1] == 1.0


def test_an_attack_on_a_lopsided_pair_takes_the_worse_direction() -> None:
    loss = adv.LatticeLoss.from_probs([0.9, 0.1], [0.5, 0.5])
    both = [float(one.power(0.1)) for one in (loss, loss.swapped)]
    assert both[0] != pytest.approx(both[1])
    assert float(loss.attack_success(0.1)) == max(both)
