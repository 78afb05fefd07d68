"""Laws at the ends: no NaN, no warning, no number beyond its own bound, whatever the parameter, prior, level or shape.

Warnings are errors here as everywhere, so a call that returns is a call that neither overflowed nor divided by 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary.privacy.decisions.best_tests import average_precision, bayes_error
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.losses.composition import ComposedLoss
from adversary.privacy.losses.discrete_gaussian import DiscreteGaussianLoss
from adversary.privacy.losses.loss import PrivacyLoss
from tests.catalogue import BRACKETED, EXTREME_GUARANTEES, EXTREME_LOSSES, GUARANTEES, LOSSES
from tests.tables import over

EVERY: dict[str, adv.Guarantee] = {
    **GUARANTEES,
    **{f"loss: {name}": loss for name, loss in LOSSES.items() if name not in BRACKETED},
    **{f"extreme: {name}": g for name, g in EXTREME_GUARANTEES.items()},
    **{f"extreme loss: {name}": loss for name, loss in EXTREME_LOSSES.items()},
}
EVERY_LOSS = {name: g for name, g in EVERY.items() if "loss: " in name}
FEW = {
    f"{type(g).__name__}, {'' if g.maximum < np.inf else 'un'}bounded": g
    for g in reversed((*EVERY.values(), *LOSSES.values()))
}
"""The first of each class that bounds the loss, and of each that does not: none is extreme but where all are."""

CHANCES = np.array([0.0, 1e-300, 1e-16, 0.3, 1.0 - 1e-16, 1.0])
"""Priors, levels, recalls and failures alike."""
NATS = np.array([0.0, 1e-300, 1e-10, 1e-3, 1.0, 700.0, 800.0, 1e5, 1e300, np.inf])
EPSILONS = np.concatenate([-NATS[::-1], NATS])
DIGITS = 1e-12


def falls(values: Any, axis: int = 0, slack: float = DIGITS) -> bool:
    """Whether values fall along an axis but for last digits; infinities count as very large."""
    x = np.minimum(values, 1e308)
    before, after = (np.take(x, range(*ends), axis) for ends in ((0, x.shape[axis] - 1), (1, x.shape[axis])))
    return bool(np.all(after <= before * (1.0 + slack) + 1e-15))


def rises(values: Any, axis: int = 0) -> bool:
    return falls(np.flip(values, axis), axis)


@over(EVERY)
def test_the_profile_is_a_falling_probability_above_the_floor_of_every_profile(g: adv.Guarantee) -> None:
    delta = g.delta(EPSILONS)
    assert np.all((delta >= 0.0) & (delta <= 1.0))
    assert falls(delta[EPSILONS >= 0.0])
    if not isinstance(g, RenyiDP):  # which bounds each epsilon for itself: below 0 better, at times, than at 0
        assert falls(delta)
    assert np.all(delta >= -np.expm1(np.minimum(EPSILONS, 0.0)) * (1.0 - DIGITS))


@over(EVERY)
def test_the_trade_off_lies_between_guessing_and_certainty(g: adv.Guarantee) -> None:
    power, level = g.power(CHANCES), g.level(CHANCES)
    assert np.all((power >= CHANCES) & (power <= 1.0))
    assert np.all((level >= 0.0) & (level <= CHANCES))
    assert rises(power)
    assert rises(level)
    assert 0.0 <= g.advantage <= 1.0


@over(EVERY)
def test_precision_and_errors_lie_between_guessing_and_certainty(g: adv.Guarantee) -> None:
    precision = g.precision(CHANCES[:, None], CHANCES)
    assert np.all((precision >= CHANCES) & (precision <= 1.0))
    assert falls(precision, 0, 1e-9)  # levels from a profile err towards more precision
    assert rises(precision, 1)
    score = g.f_score(CHANCES)
    assert np.all((score >= 2.0 * CHANCES / (1.0 + CHANCES) * (1.0 - DIGITS)) & (score <= 1.0))
    assert rises(score)
    error = bayes_error(g, CHANCES)
    assert np.all((error >= 0.0) & (error <= np.minimum(CHANCES, 1.0 - CHANCES)))


@over({name: g for name, g in EVERY.items() if "discrete gaussian" not in name and not name.startswith("zCDP, ")})
def test_average_precision_lies_between_the_prior_and_one(g: adv.Guarantee) -> None:
    average = average_precision(g, CHANCES)
    assert np.all((average >= CHANCES * (1.0 - DIGITS)) & (average <= 1.0))
    assert rises(average)


@pytest.mark.slow_cases("extreme loss: discrete gaussians, 1e-10 and 0.3, and geometric")
@over(EVERY)
def test_bounds_on_beliefs_hold_the_prior_and_stay_in_range(g: adv.Guarantee) -> None:
    loss = g.loss_bound(CHANCES)
    assert np.all(loss >= 0.0)
    assert falls(loss)
    for failure in (0.0, 0.05):
        lower, upper = g.posterior_bounds(CHANCES, failure)
        assert np.all((lower >= 0.0) & (lower <= CHANCES) & (upper >= CHANCES) & (upper <= 1.0))
        for prior in (CHANCES, None):
            lower, upper = g.ratio_bounds(prior, failure)
            assert np.all((np.asarray(lower) >= 0.0) & (np.asarray(lower) <= 1.0) & (np.asarray(upper) >= 1.0))
            lower, upper = g.difference_bounds(prior, failure)
            assert np.all((np.asarray(lower) >= -1.0) & (np.asarray(lower) <= 0.0))
            assert np.all((np.asarray(upper) >= 0.0) & (np.asarray(upper) <= 1.0))


@over(EVERY)
def test_probabilistic_bounds_fall_and_cover_the_profile(g: adv.Guarantee) -> None:
    delta = g.pbdp_delta(NATS[1:])
    assert np.all((delta >= 0.0) & (delta <= 1.0))
    assert falls(delta)
    assert np.all(delta >= g.worst_delta(NATS[1:]) * (1.0 - 1e-9) - 1e-15)
    epsilon = g.pbdp_epsilon(CHANCES)
    assert np.all(epsilon >= 0.0)
    assert falls(epsilon)
    assert np.all(epsilon <= g.loss_bound(0.0))


@over(EVERY)
def test_epsilon_keeps_the_delta_it_was_asked_for_or_names_the_resolution(g: adv.Guarantee) -> None:
    delta = np.array([0.0, 1e-300, 1e-16, 0.3, 1.0])
    epsilon = g.epsilon(delta)
    assert np.all(epsilon >= 0.0)
    assert falls(epsilon)
    kept = np.array([g.worst_delta(one) for one in epsilon[np.isfinite(epsilon)]])
    asked = delta[np.isfinite(epsilon)]
    if isinstance(g, DiscreteGaussianLoss | ComposedLoss) and g.maximum == np.inf:
        kept, asked = kept[asked != 1e-300], asked[asked != 1e-300]  # beyond what their profiles resolve
    assert np.all(kept <= asked * (1.0 + 1e-9) + 1e-16 * (asked == 0.0))


@over({**GUARANTEES, **EXTREME_GUARANTEES})
def test_a_guarantee_for_two_people_or_twice_is_no_stronger_or_refused_by_its_field(g: adv.Guarantee) -> None:
    for ask in (lambda: g.group(2), lambda: 2 * g, lambda: g + g, lambda: g + adv.ZeroConcentratedDP(1.0)):
        more = _or_refused(ask)
        assert more is None or np.all(more.delta(NATS) >= g.delta(NATS) * (1.0 - 1e-9))


def _or_refused(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (ValueError, TypeError) as error:
        if "must be" in str(error) or "not compose" in str(error):
            return None
        raise


@over(EVERY_LOSS)
def test_whether_a_loss_keeps_a_guarantee_is_told(g: Any) -> None:
    for promised in (*GUARANTEES.values(), *EXTREME_GUARANTEES.values()):
        assert promised.is_satisfied_by(g) in (True, False)


@over(EVERY_LOSS)
def test_tails_of_a_loss_are_falling_probabilities(g: Any) -> None:
    for tail in g.tail(EPSILONS):
        assert np.all((tail >= 0.0) & (tail <= 1.0))
        assert falls(tail)
    delta = g.probabilistic_delta(NATS)
    assert np.all((delta >= 0.0) & (delta <= 1.0))
    assert falls(delta)


@over(EVERY_LOSS)
def test_divergences_rise_from_0_to_the_largest_loss(g: Any) -> None:
    orders = (1.0, 1.0 + 1e-3, 1.5, 2.0, 100.0, 1e6, np.inf)
    divergence = np.array([g.renyi(order) for order in orders])
    assert np.all(divergence >= 0.0)
    assert np.all(divergence <= g.maximum * (1.0 + DIGITS))
    assert np.all(np.minimum(divergence[1:], 1e308) >= np.minimum(divergence[:-1], 1e308) * (1.0 - 1e-9))


@over(EVERY_LOSS)
def test_mean_posteriors_lie_on_their_truths_side_of_the_prior(g: Any) -> None:
    law = g.posterior(CHANCES)
    present, absent = law.mean("in"), law.mean("out")
    assert np.all((present >= CHANCES * (1.0 - DIGITS)) & (present <= 1.0 + DIGITS))
    assert np.all((absent >= 0.0) & (absent <= CHANCES * (1.0 + DIGITS)))
    for truth in ("in", "out"):
        assert np.all((law.cdf(CHANCES[:, None], truth) >= 0.0) & (law.cdf(CHANCES[:, None], truth) <= 1.0))


ANSWERS: dict[str, Callable[[adv.Guarantee, Any], Any]] = {
    "delta": lambda g, x: g.delta(x),
    "epsilon": lambda g, x: g.epsilon(x),
    "power": lambda g, x: g.power(x),
    "level": lambda g, x: g.level(x),
    "precision": lambda g, x: g.precision(x, 0.3),
    "precision over priors": lambda g, x: g.precision(0.3, x),
    "precision at recall": lambda g, x: g.precision(0.3, x),
    "f_score": lambda g, x: g.f_score(x, 2.0),
    "loss_bound": lambda g, x: g.loss_bound(x),
    "posterior_bounds": lambda g, x: g.posterior_bounds(x, 0.05)[1],
    "ratio_bounds": lambda g, x: g.ratio_bounds(x, 0.05)[0],
    "difference_bounds": lambda g, x: g.difference_bounds(x, 0.05)[1],
    "pbdp_delta": lambda g, x: g.pbdp_delta(x),
    "pbdp_epsilon": lambda g, x: g.pbdp_epsilon(x),
    "bayes_error": lambda g, x: bayes_error(g, x),
}


ANSWERS_OF_LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "tail": lambda g, x: g.tail(x)[0],
    "probabilistic_delta": lambda g, x: g.probabilistic_delta(x),
    "posterior mean": lambda g, x: g.posterior(x).mean("in"),
}


@over({name: g for name, g in FEW.items() if isinstance(g, PrivacyLoss)})
@pytest.mark.parametrize("name", ANSWERS_OF_LOSSES)
def test_answers_of_losses_have_the_shape_and_the_labels_of_the_question(g: Any, name: str) -> None:
    _shaped(lambda x: ANSWERS_OF_LOSSES[name](g, x))


@pytest.mark.slow_cases("f_score-ZeroConcentratedDP, unbounded")
@over(FEW)
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_those_of_each_number_with_the_shape_and_labels_of_all(g: adv.Guarantee, name: str) -> None:
    _shaped(lambda x: ANSWERS[name](g, x))


def _shaped(ask: Callable[[Any], Any]) -> None:
    for shape in ((), (0,), (3,), (2, 3)):
        x = 0.2 + 0.1 * np.arange(np.prod(shape, dtype=int)).reshape(shape)
        answer = ask(x)
        assert np.shape(answer) == shape
        assert not np.isnan(answer).any()
        if shape == ():
            assert isinstance(answer, float)
        if shape == (3,):  # nodes and searches are for all questions together: the last digits may differ
            np.testing.assert_allclose(answer, [ask(float(one)) for one in x], rtol=1e-12)
    named = xr.DataArray(x, dims=("row", "column"), coords={"row": ["a", "b"]})
    labelled = ask(named)
    assert labelled.dims == ("row", "column")
    assert labelled.row.values.tolist() == ["a", "b"]
    np.testing.assert_array_equal(labelled.values, answer)
    np.testing.assert_array_equal(ask(named[:0]).shape, (0, 3))


def test_orders_next_to_one_bound_the_loss() -> None:
    g = RenyiDP(1.0001, 0.5)
    assert g.level(0.05) > 0.0
    assert g.pbdp_epsilon(0.05) <= g.loss_bound(0.05) < np.inf


def test_the_least_failure_that_a_double_holds_is_none() -> None:
    assert adv.Laplace(2.0).privacy_loss().loss_bound(5e-324) == 0.5
    assert adv.Gaussian(2.0).privacy_loss().loss_bound(5e-324) == np.inf
