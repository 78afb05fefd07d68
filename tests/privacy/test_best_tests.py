"""The best test of every loss and definition: its curves against sorted likelihood ratios, its F-score against grids,
and targets against the curves they invert."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import xarray as xr
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

import adversary as adv
from adversary.privacy import decisions
from adversary.privacy.decisions.auxiliary import prior_from_odds, prior_odds
from adversary.privacy.decisions.targets import Target, confidence_limits
from adversary.privacy.losses.analytic import GaussianLoss, LaplaceLoss
from tests.catalogue import BRACKETED, GUARANTEES, LOSSES
from tests.oracles import published
from tests.tables import over, refusals

EVERY: dict[str, adv.Guarantee] = {**GUARANTEES, **{f"loss: {name}": loss for name, loss in LOSSES.items()}}
CHEAP = {name: g for name, g in EVERY.items() if not name.startswith(("zCDP", "renyi"))}
EXACT = {name: loss for name, loss in LOSSES.items() if name not in BRACKETED}
PRIORS = (0.02, 0.3, 0.5, 0.8)
LEVELS = np.concatenate([[0.0], np.geomspace(1e-9, 0.04, 12), np.linspace(0.05, 1.0, 39)])
EPSILONS = st.floats(0.01, 15.0)
ODDS = st.floats(0.02, 50.0)
BETAS = st.floats(0.1, 5.0)
MECHANISMS = ("laplace", "any", "gaussian")


# The slow twin: cut the outputs into cells, sort by likelihood ratio, merge ties, add up


def sorted_curve(p: Any, q: Any) -> tuple[Any, Any]:
    """(level, power) at the corners of the trade-off of two laws on the same cells."""
    p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.round(np.log(p) - np.log(q), 9)
    live = (p > 0) | (q > 0)
    p, q, ratio = p[live], q[live], np.where(q[live] == 0, np.inf, ratio[live])
    values = np.unique(ratio)[::-1]
    p, q = (np.array([law[ratio == value].sum() for value in values]) for law in (p, q))
    return np.concatenate([[0.0], np.cumsum(q)]), np.concatenate([[0.0], np.cumsum(p)])


def cells(cdf: Callable[[Any], Any], low: float, high: float, count: int = 4000) -> tuple[Any, Any]:
    """Masses of the cells of [low, high], and of the two ends, under noise about 1 and about 0; left is 1 - right."""
    edges = np.linspace(low, high, count + 1)

    def masses(x: Any) -> Any:
        below, above = cdf(x), cdf(-x)
        inner = np.where(x[1:] <= 0, np.diff(below), -np.diff(above))
        return np.concatenate([[below[0]], inner, [above[-1]]])

    return masses(edges - 1.0), masses(edges)


def laplace_cdf(epsilon: float) -> Callable[[Any], Any]:
    return lambda x: np.where(x < 0, 0.5 * np.exp(-epsilon * np.abs(x)), 1 - 0.5 * np.exp(-epsilon * np.abs(x)))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 5.0])
def test_laplace_curves_are_those_of_sorted_likelihood_ratios(epsilon: float) -> None:
    level, power = sorted_curve(*cells(laplace_cdf(epsilon), 0.0, 1.0))
    loss = LaplaceLoss(epsilon)
    np.testing.assert_allclose(loss.power(level), power, atol=1e-12)  # between corners the chords are 1e-7 lower
    np.testing.assert_allclose(loss.power(LEVELS), np.interp(LEVELS, level, power), atol=1e-6)
    assert loss.auc == pytest.approx(float(np.trapezoid(power, level)), abs=1e-6)
    assert loss.advantage == pytest.approx(float((power - level).max()), abs=1e-6)


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_gaussian_curves_are_those_of_sorted_likelihood_ratios(mu: float) -> None:
    level, power = sorted_curve(*cells(lambda x: ndtr(mu * x), -9.0 / mu, 1.0 + 9.0 / mu))
    np.testing.assert_allclose(GaussianLoss(mu).power(level), power, atol=1e-11)
    assert GaussianLoss(mu).auc == pytest.approx(float(np.trapezoid(power, level)), abs=1e-6)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", ["randomized response", "geometric", "discrete gaussian", "partly revealing"])
def test_discrete_curves_are_those_of_sorted_likelihood_ratios(name: str, prior: float) -> None:
    noise = {"randomized response": adv.RandomizedResponse(1.2), "geometric": adv.Geometric(0.8)}
    if name == "partly revealing":
        p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.6, 0.0, 0.2])
    elif name == "randomized response":
        p, q = (np.exp(noise[name].log_prob(np.arange(2), value)) for value in (1, 0))
    else:
        law = noise.get(name, adv.DiscreteGaussian.from_rho(0.3))
        p, q = (np.exp(law.log_prob(np.arange(-60, 62), value)) for value in (1, 0))
    level, power = sorted_curve(p, q)
    loss = LOSSES[name]
    np.testing.assert_allclose(loss.power(LEVELS), np.interp(LEVELS, level, power), atol=1e-11)
    r = prior_odds(prior)
    corners = (power > 0) & (np.append(-1.0, power[:-1]) < 1 - 1e-15)  # once the power is 1, level rises for nothing
    curve = decisions.pr_curve(loss, prior, power[corners])
    np.testing.assert_allclose(curve["precision"], power[corners] / (power[corners] + r * level[corners]), rtol=1e-8)
    best = (5 * power / (power + r * level + 4)).max()
    assert float(decisions.max_f_score(loss, prior, 2.0)["f_score"]) == pytest.approx(float(best), abs=1e-11)
    assert loss.auc == pytest.approx(float(np.trapezoid(power, level)), abs=1e-6)
    fine = np.unique(np.concatenate([power[corners], np.geomspace(1e-12, 1e-4, 200), np.linspace(1e-4, 1, 10_000)]))
    precision = fine / (fine + r * np.interp(fine, np.append(0.0, power[corners]), np.append(0.0, level[corners])))
    area = float(np.trapezoid(precision, fine)) + precision[0] * fine[0]
    assert decisions.average_precision(loss, prior) == pytest.approx(area, abs=1e-6)


def many_tests(g: adv.Guarantee) -> tuple[Any, Any]:
    """Levels and powers of many tests, even in both."""
    even = np.concatenate([np.linspace(0, 1, 501), np.geomspace(1e-12, 1, 100)])
    return np.concatenate([even, g.level(even)]), np.concatenate([np.asarray(g.power(even)), even])


# Laws of the curves


@over(EVERY)
def test_the_best_test_is_concave_nondecreasing_and_beats_guessing(g: adv.Guarantee) -> None:
    power = np.asarray(g.power(LEVELS))
    assert np.all(np.diff(power) >= -1e-12)
    assert np.all(power >= LEVELS - 1e-12)
    assert np.all((power >= 0) & (power <= 1))
    slopes = np.diff(power) / np.diff(LEVELS)
    assert np.all(np.diff(slopes) <= 1e-6 * np.abs(slopes[:-1]) + 1e-7)


def test_curves_say_whether_they_are_attained() -> None:
    assert decisions.pr_curve(adv.PureDP(1.0)).attrs == {"definition": "pure DP", "direction": "upper"}
    assert decisions.pr_curve(LaplaceLoss(1.0)).attrs["direction"] == "exact"
    assert decisions.pr_curve(LaplaceLoss(1.0), 0.2)["precision"].dims == ("recall",)
    assert decisions.pr_curve(LaplaceLoss(1.0)).sizes["recall"] == 401


# Areas and errors


@pytest.mark.parametrize("prior", [0.01, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_average_precision_is_the_integral_of_precision(epsilon: float, prior: float) -> None:
    loss = LaplaceLoss(epsilon)
    kinks = [0.5, 1 - math.exp(-epsilon) / 2]
    area = scipy.integrate.quad(lambda t: loss.precision(t, prior), 0.0, 1.0, points=kinks, epsabs=1e-12)[0]
    assert decisions.average_precision(loss, prior) == pytest.approx(area, abs=1e-7)


@pytest.mark.parametrize("prior", [1e-300, 1e-16, 1e-6, 0.001, 0.5, 1.0 - 1e-16])
@pytest.mark.parametrize("epsilon", [1e-10, 0.5, 20.0, 25.0, 40.0, 700.0])
def test_average_precision_of_pure_dp_is_its_integral_in_800_digits(epsilon: float, prior: float) -> None:
    """Two straight pieces: level q T / t up to the corner (q, t), then on to (1, 1)."""
    with mpmath.workdps(800):
        p = mpmath.mpf(prior)
        odds, q = (1 - p) / p, 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
        t, slope = 1 - q, (1 - q) / q  # of level in recall beyond the corner
        offset, rise = odds * (q - slope * t), 1 + odds * slope  # T + r level = offset + rise T
        beyond = (1 - t) / rise - offset / rise**2 * mpmath.log((offset + rise) / (offset + rise * t))
        expected = float(t / (1 + odds * q / t) + beyond)
    assert decisions.average_precision(adv.PureDP(epsilon), prior) == pytest.approx(expected, rel=1e-12)


@over(EVERY)
def test_precision_at_recall_0_is_the_posterior_after_the_largest_loss(g: adv.Guarantee) -> None:
    for prior in (0.0, 1e-300, 0.3, 1.0 - 1e-16, 1.0):
        limit = g.posterior_bounds(prior)[1] if prior else 0.0
        if g.swapped is g:
            assert g.precision(0.0, prior) == pytest.approx(limit, rel=1e-12)
        assert prior <= g.precision(0.0, prior) <= limit * (1.0 + 1e-12)
        assert g.precision(1e-300, prior) <= g.precision(0.0, prior) * (1.0 + 1e-9)


def test_average_precision_of_no_information_and_of_certainty_is_the_prior_and_one() -> None:
    assert decisions.average_precision(adv.PureDP(0.0), 0.3) == pytest.approx(0.3, abs=1e-12)
    assert decisions.average_precision(adv.NoPrivacy(), 0.3) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(decisions.average_precision(LaplaceLoss(1.0), [0.0, 1.0]), [0.0, 1.0], atol=1e-9)
    prior = xr.DataArray([0.2, 0.4], dims="reader", coords={"reader": ["a", "b"]})
    assert decisions.average_precision(LaplaceLoss(1.0), prior).reader.values.tolist() == ["a", "b"]


@over(EXACT)
def test_bayes_error_is_that_of_deciding_by_the_posterior(g: adv.PrivacyLoss) -> None:
    """Least of prior (1 - power) + (1 - prior) level over tests; E min(posterior, 1 - posterior) over releases."""
    level, power = many_tests(g)
    for prior in PRIORS:
        error = prior * (1 - power) + (1 - prior) * level
        found = decisions.bayes_error(g, prior)
        assert found == pytest.approx(float(error.min()), abs=2e-3)
        assert found <= error.min() + 1e-12
        assert found <= min(prior, 1 - prior) + 1e-15


# The largest F-score


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@over(CHEAP)
def test_the_largest_f_score_is_that_of_a_grid_search(g: adv.Guarantee, beta: float) -> None:
    level, power = many_tests(g)
    for prior in PRIORS:
        r = prior_odds(prior)
        best = float(((1 + beta**2) * power / (power + r * level + beta**2)).max())
        found = decisions.max_f_score(g, prior, beta)
        score = float(found["f_score"])
        assert best <= score + 1e-9
        assert score == pytest.approx(best, abs=2e-3)
        assert score == pytest.approx(g.f_score(prior, beta), abs=1e-9)
        assert score >= (1 + beta**2) / (1 + beta**2 + r) - 1e-12


@over(CHEAP)
def test_the_best_test_has_the_score_and_thresholds_it_claims(g: adv.Guarantee) -> None:
    found = decisions.max_f_score(g, PRIORS, [0.5, 1.0])
    assert found["f_score"].sizes == {"prior": 4, "beta": 2}
    b2 = found["beta"] ** 2
    precision, recall = found["precision"], found["recall"]
    np.testing.assert_allclose(found["f_score"], decisions.f_score(precision, recall, found["beta"]), rtol=1e-12)
    np.testing.assert_allclose(found["posterior_threshold"], found["f_score"] / (1 + b2), rtol=1e-12)
    posterior = 1 / (1 + prior_odds(found["prior"]) * np.exp(-found["loss_threshold"]))
    np.testing.assert_allclose(posterior, found["posterior_threshold"], rtol=1e-9)
    reached = g.power(np.minimum(found["level"].values * (1 + 1e-9), 1.0))
    assert np.all(recall.values <= reached + 1e-9)  # a test can do this


@over(EXACT)
def test_thresholding_the_loss_at_the_threshold_has_the_largest_score(g: adv.PrivacyLoss) -> None:
    for prior in PRIORS:
        found = decisions.max_f_score(g, prior)
        recall, level = g.tail(float(found["loss_threshold"]) - 1e-9)
        score = 2 * recall / (recall + prior_odds(prior) * level + 1)
        assert score == pytest.approx(float(found["f_score"]), abs=1e-7)


@settings(deadline=None, max_examples=50)
@given(EPSILONS, ODDS, BETAS)
def test_the_published_fixed_point_ends_at_the_closed_form(epsilon: float, odds: float, beta: float) -> None:
    """Accept where the posterior is at least F / (1 + beta^2), recompute F, repeat: from the floor upwards."""
    loss, b2 = LaplaceLoss(epsilon), beta**2
    score = (1 + b2) / (1 + b2 + odds)
    for _ in range(60):
        recall, level = loss.tail(math.log(odds * score / (1 + b2 - score)) * (1 + 1e-15) - 1e-15)
        better = (1 + b2) * recall / (recall + odds * level + b2)
        if better - score < 1e-14:
            break
        score = better
    assert float(decisions.max_f_score(loss, prior_from_odds(odds), beta)["f_score"]) == pytest.approx(score, abs=1e-9)


@settings(deadline=None, max_examples=50)
@given(EPSILONS, ODDS, BETAS)
def test_auxiliary_information_acts_as_extra_loss(epsilon: float, odds: float, beta: float) -> None:
    """Above the turn F(epsilon, beta, r) = F(epsilon - log r, beta, 1)."""
    if epsilon < math.log1p(beta**2 / odds) + 1e-6 or epsilon - math.log(odds) < math.log1p(beta**2) + 1e-6:
        return
    one = decisions.max_f_score(LaplaceLoss(epsilon), prior_from_odds(odds), beta)["f_score"]
    other = decisions.max_f_score(LaplaceLoss(epsilon - math.log(odds)), 0.5, beta)["f_score"]
    assert float(one) == pytest.approx(float(other), rel=1e-9)


def test_the_release_threshold_of_laplace_gives_the_rates() -> None:
    for epsilon, prior, beta in ((0.3, 0.5, 1.0), (2.0, 0.2, 0.5), (5.0, 0.7, 2.0)):
        best = decisions.max_f_score(LaplaceLoss(epsilon), prior, beta)
        rates = published.laplace_rates(float(best["release_threshold"]), epsilon)
        assert rates == pytest.approx((float(best["recall"]), float(best["level"])), abs=1e-12)
        if epsilon > 1:
            assert 0 <= float(best["release_threshold"]) <= 1
            ratio = epsilon * (2 * float(best["release_threshold"]) - 1)
            assert float(best["loss_threshold"]) == pytest.approx(ratio, abs=1e-9)
        else:  # always "in"
            assert float(best["release_threshold"]) == -math.inf
    far = decisions.max_f_score(LaplaceLoss(1200.0), 0.2)  # e^epsilon overflows, nothing here does
    assert float(far["recall"]) == 1.0
    assert float(far["level"]) == pytest.approx(math.exp(-600) / 4, rel=1e-9)
    assert "release_threshold" not in decisions.max_f_score(GaussianLoss(1.0))


def test_f_score_of_a_point() -> None:
    assert decisions.f_score(0.5, 1.0) == pytest.approx(2 / 3)
    assert decisions.f_score(0.0, 0.0) == 0.0
    assert decisions.f_score(0.8, 0.4, 0.5) == pytest.approx(1.25 * 0.32 / (0.25 * 0.8 + 0.4))


# Targets: the inverse of the curves


def keeps(mechanism: str, target: float, delta: float = 0.0) -> Any:
    """The guarantee whose curves a target inverts."""
    if mechanism == "gaussian":
        return adv.GaussianDP(target)
    if mechanism == "laplace":
        return LaplaceLoss(target)
    return adv.ApproximateDP(target, delta) if delta else adv.PureDP(target)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(deadline=None, max_examples=40)
@given(parameter=st.floats(0.3, 6.0), odds=ODDS, beta=BETAS)
def test_epsilon_from_an_f_score_is_the_inverse(mechanism: str, parameter: float, odds: float, beta: float) -> None:
    prior = prior_from_odds(odds)
    g = keeps(mechanism, parameter)
    score, floor = g.f_score(prior, beta), (1 + beta**2) / (1 + beta**2 + odds)
    target = decisions.epsilon_from_f_score(score, beta, prior, mechanism)
    assert target.status == "attained"
    if score > floor * (1 + 1e-6) and score < 1 - 1e-6:
        assert target == pytest.approx(parameter, rel=1e-6)
    assert keeps(mechanism, float(target)).f_score(prior, beta) == pytest.approx(score, rel=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@settings(deadline=None, max_examples=60)
@given(parameter=st.floats(0.01, 6.0), recall=st.floats(0.001, 0.999), odds=ODDS)
@example(parameter=2.0, recall=0.5, odds=1.0)
def test_epsilon_from_a_point_is_the_inverse(mechanism: str, parameter: float, recall: float, odds: float) -> None:
    g, prior = keeps(mechanism, parameter), prior_from_odds(odds)
    precision = float(recall / (recall + odds * g.worst_pair.level(recall)))
    target = decisions.epsilon_from_point(precision, recall, prior, mechanism)
    assert target.status == ("attained" if precision < 1 else "unconstrained")
    bound = decisions.epsilon_lower_bound(precision, recall, prior, mechanism=mechanism)
    assert bound == pytest.approx(float(target), rel=1e-9, abs=1e-9)
    if precision < 1 - 1e-9:
        assert target == pytest.approx(parameter, rel=1e-6, abs=1e-6)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(epsilon=st.floats(0.01, 6.0), delta=st.floats(1e-9, 0.3), odds=ODDS, beta=BETAS, recall=st.floats(0.001, 0.999))
def test_targets_of_approximate_dp_are_the_inverse(
    epsilon: float, delta: float, odds: float, beta: float, recall: float
) -> None:
    g, prior = adv.ApproximateDP(epsilon, delta), prior_from_odds(odds)
    score = float(decisions.max_f_score(g, prior, beta)["f_score"])
    target = decisions.epsilon_from_f_score(score, beta, prior, "any", delta=delta)
    assert target.status == "attained"
    assert float(decisions.max_f_score(target.guarantee, prior, beta)["f_score"]) <= score * (1 + 1e-9)
    assert target >= epsilon * (1 - 1e-6) - 1e-9
    level = float(g.worst_pair.level(recall))
    if recall - delta > 1e-9 and level > 0:  # closer, the level keeps no digit
        precision = recall / (recall + odds * level)
        point = decisions.epsilon_from_point(precision, recall, prior, "any", delta=delta)
        assert point == pytest.approx(epsilon, rel=1e-6, abs=1e-6)
        bound = decisions.epsilon_lower_bound(precision, recall, prior, delta)
        assert bound == pytest.approx(float(point), rel=1e-9, abs=1e-9)


@given(st.floats(0.0, 12.0), st.floats(1e-4, 0.9999), st.sampled_from(["laplace", "any"]))
def test_epsilon_from_a_posterior_is_the_inverse(epsilon: float, prior: float, mechanism: str) -> None:
    cap = adv.PureDP(epsilon).posterior_bounds(prior)[1]
    if cap < 1 - 1e-9:
        target = decisions.epsilon_from_posterior(cap, prior, mechanism)
        assert target == pytest.approx(epsilon, rel=1e-6, abs=1e-9)
        assert decisions.epsilon_from_point(cap, 0.0, prior, mechanism) == target


def test_status_of_targets_nobody_can_keep_or_break() -> None:
    f, point, posterior = (
        decisions.epsilon_from_f_score,
        decisions.epsilon_from_point,
        decisions.epsilon_from_posterior,
    )
    for mechanism in MECHANISMS:
        for target in (
            f(0.6, 1.0, 0.5, mechanism),
            f(0.0, 1.0, 0.5, mechanism),
            f(0.9, 1.0, 1.0, mechanism),
            point(0.49, 0.3, 0.5, mechanism),
            point(0.49, 1.0, 0.5, mechanism),
            posterior(0.49, 0.5, mechanism),
        ):
            assert target.status == "unattainable"
            assert math.isnan(target)
            assert target.guarantee is None
        for target in (
            f(1.0, 1.0, 0.5, mechanism),
            f(0.3, 1.0, 0.0, mechanism),
            point(0.5, 1.0, 0.5, mechanism),
            point(0.7, 1.0, 0.5, mechanism),
            point(1.0, 0.5, 0.5, mechanism),
            point(0.2, 0.5, 0.0, mechanism),
            posterior(1.0, 0.5, mechanism),
        ):
            assert target.status == "unconstrained"
            assert target == math.inf
        for target in (point(0.5, 0.3, 0.5, mechanism), posterior(0.5, 0.5, mechanism)):
            assert target.status == "attained"  # only no information at all
            assert target == 0.0
    assert posterior(0.9, 0.5, "any", delta=1e-9).status == "unattainable"
    assert posterior(0.9, 0.5, "gaussian") == 0.0
    assert f(2 / 3, 1.0, mechanism="gaussian") == 0.0
    assert f(0.6, 1.0, mechanism="gaussian", allow_floor=True) == 0.0
    assert point(0.9, 0.1, 0.5, "any", delta=0.2).status == "unattainable"  # a fifth is certain of "in"


def test_a_target_is_a_number_that_knows_what_it_is() -> None:
    target = decisions.epsilon_from_f_score(0.9, 1.0)
    assert isinstance(target, float)
    assert target.epsilon == float(target)
    assert repr(target) == "<epsilon 3.20883, attained>"
    assert target.guarantee == adv.PureDP(float(target))
    assert repr(decisions.epsilon_from_f_score(0.55, 0.5)) == "<epsilon nan, unattainable>"
    for twin in (copy.copy(target), pickle.loads(pickle.dumps(target))):
        assert (twin, twin.status, twin.guarantee) == (target, target.status, target.guarantee)
    assert Target(1.0).status == "attained"
    approximate = decisions.epsilon_from_f_score(0.9, 1.0, mechanism="any", delta=1e-5)
    assert approximate.guarantee == adv.ApproximateDP(float(approximate), 1e-5)


def test_gaussian_targets_are_in_mu_and_convert_exactly() -> None:
    target = decisions.epsilon_from_point(0.9, 0.9, 0.5, "gaussian")
    assert target.unit == "mu"
    assert float(target) == pytest.approx(2.563103, abs=1e-6)
    assert repr(target) == "<mu 2.5631, attained>"
    epsilon = target.guarantee.epsilon(1e-6)
    assert adv.GaussianDP(float(target)).delta(epsilon) <= 1e-6
    assert adv.GaussianDP(float(target)).delta(epsilon - 1e-9) > 1e-6 * (1 - 1e-6)
    with pytest.raises(ValueError, match=r"epsilon must be queried of Gaussian noise at a delta"):
        _ = target.epsilon


def test_targets_of_arrays_are_labelled_with_their_status() -> None:
    found = decisions.epsilon_from_f_score([0.55, 0.9, 1.0], [0.5, 1.0])
    assert found["epsilon"].sizes == {"f": 3, "beta": 2}
    assert found["epsilon"].sel(f=0.9, beta=1.0) == decisions.epsilon_from_f_score(0.9, 1.0)
    assert found["status"].sel(beta=0.5).values.tolist() == ["unattainable", "attained", "unconstrained"]
    prior = xr.DataArray([0.1, 0.5], dims="reader", coords={"reader": ["a", "b"]})
    assert decisions.epsilon_from_point(0.9, 0.5, prior, "any")["epsilon"].reader.values.tolist() == ["a", "b"]
    assert "mu" in decisions.epsilon_from_f_score([0.7, 0.8], mechanism="gaussian")
    assert decisions.epsilon_from_posterior([0.6, 0.7])["status"].dims == ("cap",)


# Epsilon from an attack


def test_points_no_better_than_guessing_say_nothing() -> None:
    bound = decisions.epsilon_lower_bound([0.5, 0.2, math.nan], [0.7, 0.3, 0.0], 0.5)
    assert bound == 0.0
    assert bound.status == "unconstrained"
    certain = decisions.epsilon_lower_bound(1.0, 0.1, 0.5)
    assert certain == math.inf
    assert certain.status == "attained"
    assert decisions.epsilon_lower_bound(1.0, 0.1, 0.5, delta=0.2) == 0.0  # a fifth may be certain
    assert decisions.epsilon_lower_bound(0.9, 0.9, 0.5, mechanism="gaussian") == pytest.approx(2.563103, abs=1e-6)


def test_confidence_limits_are_those_of_clopper_and_pearson() -> None:
    lower, upper = confidence_limits([0, 5, 20], 20, 0.025)
    np.testing.assert_allclose(lower, [0.0, 0.08657147, 0.025 ** (1 / 20)], atol=1e-8)
    np.testing.assert_allclose(upper, [1 - 0.025 ** (1 / 20), 0.49104587, 1.0], atol=1e-8)
    tail = sum(math.comb(20, k) * lower[1] ** k * (1 - lower[1]) ** (20 - k) for k in range(5, 21))
    assert tail == pytest.approx(0.025, abs=1e-12)
    with pytest.raises(ValueError, match="failure must be"):
        confidence_limits(5, 20, 1.5)


def test_counts_share_the_failure_over_points() -> None:
    one = decisions.epsilon_lower_bound_from_counts(900, 1000, 100, 1000)
    two = decisions.epsilon_lower_bound_from_counts([900, 500], 1000, [100, 500], 1000)
    assert 0 < two < one < decisions.epsilon_lower_bound(0.9, 0.9, 0.5)
    assert decisions.epsilon_lower_bound_from_counts(10, 10, 0, 10) < math.inf


def _limits_by_scipy(successes: int, trials: int, share: float) -> tuple[float, float]:
    k, n = successes, trials
    lower = scipy.stats.beta.ppf(share, k, n - k + 1) if k else 0.0
    return float(lower), float(scipy.stats.beta.isf(share, k + 1, n - k)) if k < n else 1.0


@pytest.mark.parametrize("failure", [0.05, 0.2])
@pytest.mark.parametrize("points", [[(90, 10)], [(90, 10), (60, 2), (20, 0)], [(97, 40), (97, 40)]], ids=str)
def test_the_failure_is_shared_over_both_sides_and_over_the_points(
    points: list[tuple[int, int]], failure: float
) -> None:
    """Clopper and Pearson's limits, each wrong with failure / (2 points), in the two inequalities of pure DP."""
    share, bounds = failure / (2 * len(points)), [0.0]
    for hits, alarms in points:
        power, level = _limits_by_scipy(hits, 100, share)[0], _limits_by_scipy(alarms, 100, share)[1]
        bounds += [math.log(power / level), math.log((1.0 - level) / (1.0 - power))]
    hits_of, alarms_of = ([point[i] for point in points] for i in (0, 1))
    found = decisions.epsilon_lower_bound_from_counts(hits_of, 100, alarms_of, 100, failure=failure)
    assert found == pytest.approx(max(bounds), rel=1e-10)


def test_the_failure_of_scores_is_shared_over_both_sides_and_all_ranks() -> None:
    """Of 100 scores the ranks are 1, 2, 4, ..., 64: fourteen limits in all."""
    share, bounds = 0.05 / 14, [0.0]
    for rank in (1, 2, 4, 8, 16, 32, 64):
        hits = sum(score > 100 - rank for score in range(40, 140))
        power, level = _limits_by_scipy(hits, 100, share)[0], _limits_by_scipy(rank - 1, 100, share)[1]
        bounds += [math.log(power / level) if power > level else 0.0]
        bounds += [math.log((1.0 - level) / (1.0 - power)) if power > level else 0.0]
    found = decisions.epsilon_lower_bound_from_scores(range(40, 140), range(100))
    assert found == pytest.approx(max(bounds), rel=1e-10)


def test_an_attack_with_its_sign_turned_is_told_from_one_that_proves_nothing() -> None:
    present, out = np.arange(40, 140), np.arange(100)
    with pytest.warns(
        UserWarning, match="they separate the other way round: scores are larger where the target is out"
    ):
        turned = decisions.epsilon_lower_bound_from_scores(-present, -out)
    assert (float(turned), turned.status) == (0.0, "reversed: they separate the other way round")
    assert "other way round" in repr(turned)
    with pytest.warns(UserWarning, match="other way round.*exchange its answers"):
        counts = decisions.epsilon_lower_bound_from_counts(10, 100, 90, 100)
    assert (float(counts), counts.status) == (0.0, turned.status)
    assert decisions.epsilon_lower_bound_from_scores(present, out).status == "attained"
    nothing = decisions.epsilon_lower_bound_from_counts([50, 20], 100, [50, 21], 100)
    assert (float(nothing), nothing.status) == (0.0, "unconstrained")


# Gaussian calibration


@settings(deadline=None, max_examples=100)
@given(st.floats(0.0, 50.0), st.floats(1e-300, 0.999))
@example(0.0, 1e-300)
@example(1e-12, 1e-20)
def test_exact_calibration_is_safe_and_tight(epsilon: float, delta: float) -> None:
    mu = decisions.gaussian_mu(epsilon, delta)
    assert adv.GaussianDP(mu).delta(epsilon) <= delta
    if mu > 1e-3:
        assert adv.GaussianDP(mu * (1 + 1e-6)).delta(epsilon) > delta * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 1e-3, 1.0, 1e5])
@pytest.mark.parametrize("delta", [1e-300, 1e-20, 1e-5, 0.3])
def test_exact_calibration_yields_the_delta_asked_for_in_600_digits(epsilon: float, delta: float) -> None:
    mu = decisions.gaussian_mu(epsilon, delta)
    with mpmath.workdps(600):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        found = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        assert float(found / mpmath.mpf(delta)) == pytest.approx(1.0, rel=1e-11)


def test_calibration_of_arrays_and_of_delta_zero() -> None:
    assert decisions.gaussian_mu(1.0, 0.0) == 0.0
    assert decisions.gaussian_mu(0.0, 1e-5, method="classical") == 0.0
    assert decisions.gaussian_mu([1.0, 2.0], 1e-5).shape == (2,)
    delta = xr.DataArray([1e-5, 1e-6], dims="delta", coords={"delta": [1e-5, 1e-6]})
    assert decisions.gaussian_mu(1.0, delta).dims == ("delta",)
    assert str(adv.GaussianDP(0.0).delta(1.0)) == "0.0"  # and not -0.0
    assert isinstance(decisions.gaussian_mu(1.0, 1e-5), float)


# Thresholds


@given(st.floats(1e-6, 1.0 - 1e-6), EPSILONS)
def test_level_and_release_threshold_are_one_to_one(level: float, epsilon: float) -> None:
    threshold = published.laplace_threshold(level, epsilon)
    recall, back = published.laplace_rates(threshold, epsilon)
    assert back == pytest.approx(level, rel=1e-9)
    assert recall == pytest.approx(LaplaceLoss(epsilon).power(level), rel=1e-9)
    assert abs(published.laplace_loss_threshold(level, epsilon)) <= epsilon


# Bad input


test_bad_input_is_named = refusals(
    (lambda: decisions.epsilon_from_f_score(0.9, mechanism="exponential"), "mechanism must be one of"),
    (lambda: decisions.epsilon_from_f_score(0.9, delta=0.1), 'delta must be 0 unless mechanism is "any"'),
    (lambda: decisions.epsilon_from_f_score(np.full((2, 2), 0.9)), "f must be a number, a vector or a DataArray"),
    (lambda: decisions.epsilon_lower_bound_from_counts(11, 10, 0, 10), "successes must be at most trials"),
    (lambda: decisions.max_f_score(LaplaceLoss(1.0), 0.0), "prior must be strictly between 0 and 1"),
)
