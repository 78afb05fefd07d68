"""Liu, He, Chanyaswad, Wang and Mittal (2019), "Investigating statistical privacy frameworks from the perspective of
hypothesis testing", PoPETs: precision, recall and F-score of the best test, and the epsilon that keeps them low.

Table 1 is the only printed table; its figures survive as formulas. Other values were computed from those formulas and
checked by sorting likelihood ratios. `r` is the prior odds against the positive value. Corrections of the paper are
tested with both numbers. The frameworks of its section 6 are in `test_privacy_frameworks.py`.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit, ndtr, ndtri

import adversary as adv
from adversary.privacy import decisions
from adversary.privacy.decisions.auxiliary import coefficients_from_joint, prior_from_odds
from adversary.privacy.losses.analytic import GaussianLoss, LaplaceLoss
from adversary.privacy.losses.composition import compose_losses
from tests.oracles import published


def classical(epsilon: float, delta: float) -> GaussianLoss:
    """The Gaussian pair at the paper's calibration."""
    return GaussianLoss(decisions.gaussian_mu(epsilon, delta, method="classical"))


# Table 1: epsilon from an F-score, Laplace noise


@pytest.mark.parametrize(
    ("row", "f", "beta", "expected", "printed"),
    [
        (2, 0.58, 0.5, 0.34351, 0.34),
        (3, 0.62, 0.5, 0.54881, 0.55),
        (4, 0.67, 0.5, 0.82583, 0.82),
        (5, 0.76, 0.5, 1.42016, 1.42),
        (6, 0.83, 0.5, 2.04380, 2.04),
        (7, 0.90, 0.5, 3.00370, 3.0),
        (8, 0.95, 0.5, 4.28991, 4.29),
        (9, 0.58, 0.6, 0.32684, 0.33),
        (10, 0.62, 0.6, 0.54106, 0.54),
        (11, 0.67, 0.6, 0.83081, 0.83),
        (13, 0.67, 0.8, 0.79700, 0.8),
        (14, 0.90, 0.8, 3.20931, 3.21),
        (15, 0.95, 0.8, 4.57972, 4.58),
        (16, 0.67, 1.0, 0.71573, 0.71),
        (17, 0.76, 1.0, 1.40861, 1.4),
        (18, 0.83, 1.0, 2.12829, 2.12),
        (19, 0.90, 1.0, 3.20883, 3.2),
        (20, 0.95, 1.0, 4.60267, 4.6),
        (22, 0.90, 2.0, 2.69192, 2.69),
        (23, 0.95, 2.0, 4.12001, 4.12),
    ],
)
def test_ht02_to_ht23_epsilon_from_an_f_score(row: int, f: float, beta: float, expected: float, printed: float) -> None:
    target = decisions.epsilon_from_f_score(f, beta)
    assert target.status == "attained"
    assert target.epsilon == pytest.approx(expected, abs=1e-5), row
    assert target.epsilon == pytest.approx(printed, abs=0.01), row


@pytest.mark.parametrize(
    ("row", "f", "beta", "floor", "printed"),
    [
        ("HT-01", 0.55, 0.5, 0.55556, 0.22),
        ("HT-12", 0.62, 0.8, 0.62121, 0.49),
        ("E8", 0.76, 1.5, 0.76471, 1.17),
        ("HT-21", 0.83, 2.0, 0.83333, 1.61),
    ],
)
def test_ht01_ht12_ht21_and_e8_below_the_floor_no_epsilon_qualifies(
    row: str, f: float, beta: float, floor: float, printed: float
) -> None:
    """The paper prints the turning point log(1 + beta^2) there, which does not keep the score below f."""
    target = decisions.epsilon_from_f_score(f, beta)
    assert target.status == "unattainable", row
    assert math.isnan(target)
    assert f < floor == pytest.approx(LaplaceLoss(1e-9).f_score(0.5, beta), abs=1e-5)
    fallback = decisions.epsilon_from_f_score(f, beta, allow_floor=True)
    assert fallback == pytest.approx(math.log(1 + beta**2), abs=1e-5)
    assert fallback == pytest.approx(printed, abs=0.01)
    assert LaplaceLoss(fallback).f_score(0.5, beta) > f


def _highest_f_score(epsilon: float, beta: float) -> float:
    """Over a million levels of the trade-off of Laplace noise: its three pieces, and the uniform prior."""
    a = np.linspace(1e-7, 1.0, 1_000_001)
    pieces = [np.exp(epsilon) * a, 1.0 - np.exp(-epsilon) / (4.0 * a), 1.0 - np.exp(-epsilon) * (1.0 - a)]
    recall = np.select([a <= 0.5 * np.exp(-epsilon), a <= 0.5], pieces[:2], pieces[2])
    return float(((1.0 + beta**2) * recall / (recall + a + beta**2)).max())


@pytest.mark.parametrize(
    ("f", "beta", "exact", "printed"),
    [(0.90, 1.0, 3.20883, 3.2), (0.90, 1.5, 2.99692, 2.99), (0.95, 1.5, 4.41577, 4.41)],
)
def test_e9_some_cells_are_truncated(f: float, beta: float, exact: float, printed: float) -> None:
    """3.2 for 3.20883, 2.99 for 2.99692, 4.41 for 4.41577: an epsilon cut off errs on the safe side."""
    assert decisions.epsilon_from_f_score(f, beta) == pytest.approx(exact, abs=1e-5)
    assert _highest_f_score(exact, beta) == pytest.approx(f, abs=1e-6)
    assert printed < round(exact, 2) == pytest.approx(printed + 0.01)
    assert _highest_f_score(printed, beta) < f < _highest_f_score(printed + 0.01, beta)


# Figure 3: Laplace, uniform prior


@pytest.mark.parametrize(
    ("row", "epsilon", "recall", "expected"),
    [
        (24, 0.01, 0.5, 0.50250),
        (25, 5.0, 0.5, 0.99331),
        (26, 1.0, 0.9, 0.55277),
        (27, 2.0, 0.75, 0.84714),
        (28, 5.0, 0.95, 0.96575),
        (29, 0.5, 0.75, 0.56061),
    ],
)
def test_ht24_to_ht29_precision_at_a_recall(row: int, epsilon: float, recall: float, expected: float) -> None:
    assert LaplaceLoss(epsilon).precision(recall, 0.5) == pytest.approx(expected, abs=1e-5), row
    assert adv.Laplace(1 / epsilon).privacy_loss().precision(recall, 0.5) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("row", "epsilon", "beta", "expected"),
    [
        (30, 0.5, 1.0, 0.66667),
        (31, 1.0, 1.0, 0.70979),
        (32, 2.0, 1.0, 0.81910),
        (33, 3.0, 1.0, 0.88912),
        (34, 5.0, 1.0, 0.95899),
        (35, 1.0, 0.5, 0.69886),
        (36, 3.0, 2.0, 0.91377),
        (37, 2.0, 0.5, 0.82581),
        (38, 2.0, 1.5, 0.83901),
    ],
)
def test_ht30_to_ht38_highest_f_score(row: int, epsilon: float, beta: float, expected: float) -> None:
    loss = LaplaceLoss(epsilon)
    assert loss.f_score(0.5, beta) == pytest.approx(expected, abs=1e-5), row
    assert float(decisions.max_f_score(loss, 0.5, beta)["f_score"]) == pytest.approx(expected, abs=1e-5), row


def test_ht39_floors() -> None:
    floors = decisions.max_f_score(LaplaceLoss(0.1), 0.5, [0.5, 1.0, 2.0])["f_score"]
    np.testing.assert_allclose(floors, [0.55556, 0.66667, 0.83333], atol=1e-5)


def test_ht40_turning_points() -> None:
    """The epsilon at which the score leaves its floor."""
    floors = [(1 + b * b) / (2 + b * b) for b in (0.5, 1.0, 2.0)]
    for b, floor, expected in zip((0.5, 1.0, 2.0), floors, (0.22314, 0.69315, 1.60944), strict=True):
        assert decisions.epsilon_from_f_score(floor, b) == pytest.approx(expected, abs=1e-5)
        assert LaplaceLoss(expected - 1e-3).f_score(0.5, b) == pytest.approx(floor, abs=1e-14)
        assert LaplaceLoss(expected + 1e-3).f_score(0.5, b) > floor + 1e-8


@pytest.mark.parametrize(
    ("row", "epsilon", "beta", "odds", "expected"),
    [
        (41, 2.0, 1.0, 1.0, (0.40854, 0.84681, 0.22086, 0.79314)),
        (42, 2.0, 1.0, 0.8, (0.36232, 0.86033, 0.24225, 0.81615)),
        (43, 3.0, 2.0, 1.0, (0.25037, 0.94724, 0.23592, 0.80060)),
    ],
)
def test_ht41_to_ht43_the_best_test(
    row: int, epsilon: float, beta: float, odds: float, expected: tuple[float, ...]
) -> None:
    best = decisions.max_f_score(LaplaceLoss(epsilon), prior_from_odds(odds), beta)
    found = [float(best[name]) for name in ("release_threshold", "recall", "level", "precision")]
    assert found == pytest.approx(expected, abs=1e-5), row
    assert published.laplace_rates(found[0], epsilon) == pytest.approx(expected[1:3], abs=1e-5)


# Epsilon from an observed point, areas


@pytest.mark.parametrize(
    ("row", "precision", "recall", "odds", "laplace", "universal"),
    [
        (44, 0.6, 0.3, 1.0, 0.40547, 0.40547),
        (45, 0.9, 0.9, 1.0, 3.21888, 2.19722),
        (46, 0.55, 0.95, 1.0, 1.49393, 1.49393),
        (47, 0.8, 0.8, 0.8, 1.60944, 1.32176),
    ],
)
def test_ht44_to_ht47_epsilon_from_a_point(
    row: int, precision: float, recall: float, odds: float, laplace: float, universal: float
) -> None:
    prior = prior_from_odds(odds)
    assert decisions.epsilon_from_point(precision, recall, prior, "laplace") == pytest.approx(laplace, abs=1e-5), row
    assert decisions.epsilon_from_point(precision, recall, prior, "any") == pytest.approx(universal, abs=1e-5), row
    bounds = [decisions.epsilon_lower_bound(precision, recall, prior, mechanism=m) for m in ("laplace", "any")]
    assert bounds == pytest.approx([laplace, universal], abs=1e-5)


def test_e17_the_largest_over_points_is_the_sharper_bound() -> None:
    """Section 5.3.1 fits the largest whole curve below the observed points: their smallest epsilon, not the largest."""
    precision, recall = [0.6, 0.9, 0.55], [0.3, 0.9, 0.95]
    each = [decisions.epsilon_from_point(p, t, 0.5, "laplace") for p, t in zip(precision, recall, strict=True)]
    assert decisions.epsilon_lower_bound(precision, recall, 0.5, mechanism="laplace") == max(each)
    assert (min(each), max(each)) == pytest.approx((0.40547, 3.21888), abs=1e-5)
    for p, t, e in zip(precision, recall, each, strict=True):  # and each is valid: a smaller epsilon forbids the point
        assert LaplaceLoss(e - 1e-6).precision(t, 0.5) < p


@pytest.mark.parametrize(("row", "epsilon", "expected"), [(48, 1.0, 0.68795), (49, 2.0, 0.83925)])
def test_ht48_ht49_average_precision(row: int, epsilon: float, expected: float) -> None:
    assert decisions.average_precision(LaplaceLoss(epsilon), 0.5) == pytest.approx(expected, abs=1e-5), row


@pytest.mark.parametrize(
    ("row", "epsilon", "auc", "advantage"),
    [(50, 1.0, 0.72409, 0.39347), (51, 2.0, 0.86466, 0.63212), (52, 5.0, 0.98821, 0.91792)],
)
def test_ht50_to_ht52_area_and_advantage(row: int, epsilon: float, auc: float, advantage: float) -> None:
    loss = LaplaceLoss(epsilon)
    assert (loss.auc, loss.advantage) == pytest.approx((auc, advantage), abs=1e-5), row


# Auxiliary information: sections 5.1 to 5.3


@pytest.mark.parametrize(
    ("row", "coefficients", "epsilon", "expected"),
    [
        (53, (0.2,), 1.0, 0.73821),
        (54, (0.2,), 2.0, 0.83766),
        (55, (0.2,), 3.0, 0.90071),
        (56, (0.2, 0.1), 1.0, 0.76774),
        (57, (0.2, 0.1), 2.0, 0.85666),
        (58, (0.2, 0.1), 3.0, 0.91249),
    ],
)
def test_ht53_to_ht58_highest_f_score_with_auxiliary_information(
    row: int, coefficients: tuple[float, ...], epsilon: float, expected: float
) -> None:
    prior = decisions.prior_from_coefficients(*coefficients)
    assert LaplaceLoss(epsilon).f_score(prior) == pytest.approx(expected, abs=1e-5), row
    assert float(decisions.max_f_score(LaplaceLoss(epsilon), prior)["f_score"]) == pytest.approx(expected, abs=1e-5)


def test_ht59_and_ht60_implied_priors() -> None:
    assert decisions.prior_from_coefficients(0.2) == pytest.approx(0.55556, abs=1e-5)
    assert decisions.prior_from_coefficients(0.2, 0.1) == pytest.approx(0.61728, abs=1e-5)
    assert decisions.prior_from_coefficients(0.2, 0.1, 0.1) == pytest.approx(0.68587, abs=1e-5)
    odds = [decisions.odds_from_coefficients(*c) for c in ((0.0,), (0.2,), (0.2, 0.1), (0.2, 0.1, 0.1))]
    assert odds == pytest.approx([1.0, 0.8, 0.62, 0.458], abs=1e-12)
    np.testing.assert_allclose(-np.log(odds[1:]), [0.22314, 0.47804, 0.78089], atol=1e-5)


@pytest.mark.parametrize(
    ("coefficients", "floor", "turn"), [((0.2,), 0.71429, 0.81093), ((0.2, 0.1), 0.76336, 0.96046)]
)
def test_ht61_floor_and_turn_with_auxiliary_information(
    coefficients: tuple[float, ...], floor: float, turn: float
) -> None:
    prior = decisions.prior_from_coefficients(*coefficients)
    assert LaplaceLoss(turn / 2).f_score(prior) == pytest.approx(floor, abs=1e-5)
    target = decisions.epsilon_from_f_score(0.5, 1.0, prior, allow_floor=True)
    assert target == pytest.approx(turn, abs=1e-5)


def test_ht62_ht63_epsilon_with_auxiliary_information() -> None:
    prior = decisions.prior_from_coefficients(0.2)
    assert decisions.epsilon_from_f_score(0.83, 1.0, prior) == pytest.approx(1.90515, abs=1e-5)
    assert decisions.epsilon_from_f_score(0.90, 1.0, prior) == pytest.approx(2.98568, abs=1e-5)
    more = decisions.prior_from_coefficients(0.2, 0.1)
    assert decisions.epsilon_from_f_score(0.90, 1.0, more) == pytest.approx(2.73079, abs=1e-5)
    assert decisions.epsilon_from_f_score(0.76, 1.0, more).status == "unattainable"


@pytest.mark.parametrize(
    ("row", "epsilon", "recall", "odds", "expected"),
    [(64, 1.0, 0.9, 0.8, 0.60707), (65, 2.0, 0.75, 0.8, 0.87385), (66, 1.0, 0.9, 0.62, 0.66594)],
)
def test_ht64_to_ht66_precision_with_auxiliary_information(
    row: int, epsilon: float, recall: float, odds: float, expected: float
) -> None:
    found = LaplaceLoss(epsilon).precision(recall, prior_from_odds(odds))
    assert found == pytest.approx(expected, abs=1e-5), row


def test_ht67_ht68_and_e13_how_far_coefficients_go_together() -> None:
    """Each "in [0, 1]" is not enough: beyond (2 - rho_p)(1 - rho_c)(1 - rho_t) = 1 the odds would be negative."""
    assert decisions.largest_correlation(0.2) == pytest.approx(0.44444, abs=1e-5)
    assert decisions.largest_correlation(0.2, 0.1) == pytest.approx(0.38272, abs=1e-5)
    assert decisions.odds_from_coefficients(0.2, decisions.largest_correlation(0.2)) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match=r"must be at least 1, got 0\.99"):
        decisions.odds_from_coefficients(0.2, 0.45)


def test_ht69_and_e13_worst_cases_of_different_values_do_not_go_together() -> None:
    joint = xr.DataArray(
        [[0.85, 0.05], [0.05, 0.05]], dims=["value", "bit"], coords={"value": ["a", "b"], "bit": [0, 1]}
    )
    found = coefficients_from_joint(joint)
    rho_p, rho_c = float(found["rho_p"]), float(found["rho_c"])
    assert (rho_p, rho_c) == pytest.approx((0.88889, 0.80000), abs=1e-5)
    assert 1 - rho_p - rho_c * (2 - rho_p) == pytest.approx(-0.77778, abs=1e-5)
    assert str(found["status"].values) == "unattainable"
    assert float(found["smallest_odds"]) == pytest.approx(0.05882, abs=1e-5)


# Gaussian noise: section 4.3


def test_ht70_to_ht72_gaussian_scores() -> None:
    assert decisions.gaussian_mu(1.0, 0.01, method="classical") == pytest.approx(0.321801, abs=1e-6)
    assert classical(1.0, 0.01).f_score(0.5) == pytest.approx(0.667230, abs=1e-6)
    assert decisions.gaussian_mu(1.0, 1e-5, method="classical") == pytest.approx(0.206407, abs=1e-6)
    assert classical(1.0, 1e-5).f_score(0.5, 0.5) == pytest.approx(0.560220, abs=1e-6)
    assert classical(2.0, 1e-5).f_score(0.5) == pytest.approx(0.669209, abs=1e-6)
    for loss, beta, expected in ((classical(1.0, 0.01), 1.0, 0.667230), (classical(1.0, 1e-5), 0.5, 0.560220)):
        assert float(decisions.max_f_score(loss, 0.5, beta)["f_score"]) == pytest.approx(expected, abs=1e-6)


def test_ht73_ht74_gaussian_precision() -> None:
    assert classical(1.0, 0.01).precision(0.5, 0.5) == pytest.approx(0.57221, abs=1e-5)
    assert classical(1.0, 1e-5).precision(0.75, 0.5) == pytest.approx(0.52443, abs=1e-5)


def test_ht75_ht76_the_classical_calibration_is_loose_then_false() -> None:
    mu = decisions.gaussian_mu(1.0, 1e-5, method="classical")
    assert adv.GaussianDP(mu).delta(1.0) == pytest.approx(4.114e-8, rel=5e-3)
    limit = published.classical_limit(1e-5)
    assert limit == pytest.approx(8.4198, abs=1e-3)
    for epsilon, kept in ((limit * 0.999, True), (limit * 1.001, False)):
        mu = decisions.gaussian_mu(epsilon, 1e-5, method="classical")
        assert (adv.GaussianDP(mu).delta(epsilon) <= 1e-5) == kept


def test_ht77_mu_from_an_f_score() -> None:
    target = decisions.epsilon_from_f_score(0.76, 1.0, mechanism="gaussian")
    assert target.status == "attained"
    assert target == pytest.approx(1.32398, abs=1e-5)
    assert GaussianLoss(float(target)).f_score(0.5) == pytest.approx(0.76, abs=1e-12)


def test_e4_the_printed_gaussian_scale_is_too_small() -> None:
    """sqrt(2 log(1.25/delta) sensitivity/epsilon), the whole product under the root, as printed."""
    epsilon, delta = 0.1, 1e-5
    printed = math.sqrt(2 * math.log(1.25 / delta) / epsilon)
    right = 1 / decisions.gaussian_mu(epsilon, delta, method="classical")
    assert right == pytest.approx(math.sqrt(2 * math.log(1.25 / delta)) / epsilon, rel=1e-14)
    assert adv.GaussianDP(1 / printed).delta(epsilon) == pytest.approx(1.87e-3, rel=5e-3)
    assert adv.GaussianDP(1 / right).delta(epsilon) < delta
    assert math.sqrt(2 * math.log(1.25 / delta)) == pytest.approx(1 / decisions.gaussian_mu(1.0, delta, "classical"))


# Any mechanism, and several coordinates


def test_ht78_any_pure_mechanism() -> None:
    for beta in (1.0, 0.5):
        assert adv.PureDP(2.0).f_score(0.5, beta) == pytest.approx(0.88080, abs=1e-5)
        assert float(decisions.max_f_score(adv.PureDP(2.0), 0.5, beta)["f_score"]) == pytest.approx(0.88080, abs=1e-5)
        response = adv.RandomizedResponse(2.0).privacy_loss()
        assert response.f_score(0.5, beta) == pytest.approx(0.88080, abs=1e-5)  # attained
    assert decisions.epsilon_from_f_score(0.9, 1.0, mechanism="any") == pytest.approx(2.19722, abs=1e-5)


def test_ht79_any_approximate_mechanism() -> None:
    guarantee = adv.ApproximateDP(1.0, 0.01)
    assert guarantee.f_score(0.5) == pytest.approx(0.73375, abs=1e-5)
    assert float(decisions.max_f_score(guarantee)["f_score"]) == pytest.approx(0.73375, abs=1e-5)
    back = decisions.epsilon_from_f_score(guarantee.f_score(0.5), 1.0, mechanism="any", delta=0.01)
    assert back == pytest.approx(1.0, abs=1e-9)


def test_ht80_and_e5_two_full_coordinates_are_weaker_than_one_of_twice_the_epsilon() -> None:
    """Theorem 4 claims the scalar 2 epsilon: 0.63212, 0.86466, 0.81910."""
    loss = compose_losses([LaplaceLoss(1.0), LaplaceLoss(1.0)])
    assert loss.advantage == pytest.approx(0.44818, abs=5e-5)
    assert loss.advantage == pytest.approx(1 - math.exp(-1) * 1.5, abs=5e-5)
    assert loss.auc == pytest.approx(0.80828, abs=5e-5)
    assert loss.f_score(0.5) == pytest.approx(0.75483, abs=5e-5)
    scalar = LaplaceLoss(2.0)
    assert (scalar.advantage, scalar.auc, scalar.f_score(0.5)) == pytest.approx((0.63212, 0.86466, 0.81910), abs=1e-5)
    level = np.linspace(0.01, 0.99, 25)
    assert np.all(loss.power(level) <= scalar.power(level) + 5e-5)


def test_ht81_and_e5_an_even_split_of_one_sensitivity_is_weaker_than_one_coordinate() -> None:
    loss = compose_losses([LaplaceLoss(0.5), LaplaceLoss(0.5)])
    assert loss.advantage == pytest.approx(0.24184, abs=5e-5)
    assert loss.advantage == pytest.approx(1 - math.exp(-0.5) * 1.25, abs=5e-5)
    assert loss.f_score(0.5) == pytest.approx(0.68669, abs=5e-5)
    scalar = LaplaceLoss(1.0)
    assert (scalar.advantage, scalar.f_score(0.5)) == pytest.approx((0.39347, 0.70979), abs=1e-5)
    level = np.linspace(0.01, 0.99, 25)
    assert np.all(loss.power(level) <= scalar.power(level) + 5e-5)


# Thresholds: Theorem 3 and section 4.1.5


def test_ht82_e3_and_e18_the_ratio_threshold_is_clamped() -> None:
    """Beyond level 1/2 one ratio serves every level; the printed formula rises with the level."""
    epsilon, level = 1.0, 0.75
    assert math.exp(published.laplace_loss_threshold(level, epsilon)) == pytest.approx(0.36788, abs=1e-5)
    unclamped = epsilon * (2 * published.laplace_threshold(level, epsilon) - 1)  # Equation 8 outside its range
    assert math.exp(unclamped) == pytest.approx(0.09197, abs=1e-5)
    assert math.exp(-epsilon) / (4 * (1 - level) ** 2) == pytest.approx(1.47152, abs=1e-5)  # as printed
    levels = np.array([0.01, 0.1, math.exp(-1) / 2, 0.3, 0.5, 0.75, 0.99])
    clamped = np.exp(published.laplace_loss_threshold(levels, epsilon))
    np.testing.assert_allclose(clamped[[0, 1, 2]], math.e, rtol=1e-12)
    np.testing.assert_allclose(clamped[[4, 5, 6]], math.exp(-1), rtol=1e-12)
    assert np.all(np.diff(published.laplace_threshold(levels, epsilon)) < 0)  # level and release threshold: one to one


def test_ht83_threshold_inside_the_range() -> None:
    assert published.laplace_threshold(0.3, 1.0) == pytest.approx(0.51083, abs=1e-5)
    ratio = math.exp(published.laplace_loss_threshold(0.3, 1.0))
    assert ratio == pytest.approx(1.02189, abs=1e-5)
    assert ratio == pytest.approx(math.exp(-1) / (4 * 0.3**2), rel=1e-12)


def test_e1_the_sign_below_the_answer() -> None:
    """1 - e^-x / 2 is printed for x = -2 noise scales, -2.69453; the exponent has a plus."""
    assert 1 - 0.5 * math.exp(2.0) == pytest.approx(-2.69453, abs=1e-5)
    recall, level = published.laplace_rates(-2.0, 1.0)
    assert level == pytest.approx(1 - 0.5 * math.exp(-2.0), abs=1e-15)
    assert recall == pytest.approx(1 - 0.5 * math.exp(-3.0), abs=1e-15)


def test_e2_the_exponential_under_the_root() -> None:
    """Equations 18 and 24 print 4 beta^2 epsilon there: the score it gives is no test's maximum."""
    epsilon, odds = 3.0, 0.8
    right, printed = (math.sqrt(1 + 4 * x / odds) for x in (math.exp(epsilon), epsilon))
    score, wrong = (2 * (s - 1) / (2 * s) for s in (right, printed))
    level = np.linspace(0, 1, 200_001)
    power = LaplaceLoss(epsilon).power(level)
    best = float((2 * power / (power + odds * level + 1)).max())
    assert score == pytest.approx(best, abs=1e-9)
    assert wrong == pytest.approx(0.75, abs=1e-12)
    assert best == pytest.approx(0.90071, abs=1e-5)


def test_e10_other_values_of_a_record_are_no_easier_to_tell_apart() -> None:
    """The extreme pair is the hardest for privacy; a pair with half the difference has half the epsilon."""
    level = np.linspace(0, 1, 101)
    assert np.all(LaplaceLoss(0.5).power(level) <= LaplaceLoss(1.0).power(level) + 1e-15)


# The posterior behind the decision


def test_ht84_ht85_bayes_error() -> None:
    assert decisions.bayes_error(LaplaceLoss(1.0), 0.5) == pytest.approx(0.30327, abs=1e-5)
    assert decisions.bayes_error(LaplaceLoss(1.0), 0.1) == pytest.approx(0.10000, abs=1e-5)
    assert decisions.bayes_error(LaplaceLoss(2.0), 0.2) == pytest.approx(0.14715, abs=1e-5)


def test_ht86_posterior_of_a_laplace_release() -> None:
    loss = LaplaceLoss(1.0)
    assert loss.posterior(0.5).mean("in") == pytest.approx(0.58538, abs=1e-5)
    assert loss.posterior(0.5).quantile(1.0, "in") == pytest.approx(0.73106, abs=1e-5)
    assert loss.posterior_bounds(0.5)[1] == pytest.approx(0.73106, abs=1e-5)
    assert loss.ratio_bounds(0.5)[1] == pytest.approx(1.46212, abs=1e-5)


def test_e16_uniform_binary_records_have_a_smaller_membership_epsilon() -> None:
    """Proposition 2 repeats Proposition 1; for uniform binary records posterior over prior is at most 2 e / (1 + e),
    so the membership epsilon is log((1 + e^epsilon) / 2), below epsilon itself."""
    worst = max(abs(math.log(x)) for x in LaplaceLoss(1.0).ratio_bounds(0.5))
    assert worst == pytest.approx(math.log((1 + math.e) / 2), abs=1e-12)
    assert worst < 1.0


# What the paper's Gaussian formulas say in general


def test_theorem_6_and_equation_14_in_closed_form() -> None:
    loss, recall = GaussianLoss(0.7), np.array([0.1, 0.5, 0.9])
    level = 1 - ndtr(0.7 + ndtri(1 - recall))
    np.testing.assert_allclose(loss.level(recall), level, rtol=1e-12)
    np.testing.assert_allclose(loss.precision(recall, 0.2), recall / (recall + 4 * level), rtol=1e-12)


def test_the_excess_over_the_floor_is_tiny_for_weak_gaussians() -> None:
    """4.19e-6 at mu 0.2, 3.34e-4 at 0.3, 6.19e-3 at 0.5: strictly above 2/3, unlike Laplace's flat stretch."""
    for mu, excess in ((0.2, 4.19e-6), (0.3, 3.34e-4), (0.5, 6.19e-3)):
        assert GaussianLoss(mu).f_score(0.5) - 2 / 3 == pytest.approx(excess, rel=5e-3)


def test_the_any_mechanism_summaries() -> None:
    """Advantage tanh(epsilon/2) and area e^epsilon / (1 + e^epsilon), attained by randomised response."""
    for epsilon in (0.3, 1.0, 4.0):
        for g in (adv.PureDP(epsilon), adv.RandomizedResponse(epsilon).privacy_loss()):
            assert g.advantage == pytest.approx(math.tanh(epsilon / 2), abs=1e-12)
            assert g.auc == pytest.approx(expit(epsilon), abs=1e-6)


def test_plausible_deniability_at_the_epsilon_of_every_pair() -> None:
    """Under epsilon-DP the likelihoods of a release, given any two records, are within a factor e^epsilon."""
    records = np.arange(5)
    noise = adv.Laplace(4.0)
    for release in (-3.0, 0.3, 7.0):
        logs = noise.log_prob(release, records)
        assert published.plausible_deniability(logs, 0, math.e) == 5
    logs = noise.log_prob(7.0, records)  # beyond every answer: likelihoods apart by e^0.25 each
    assert published.plausible_deniability(logs, 4, math.exp(0.5)) == 3
    assert published.plausible_deniability(logs, 4, 1.0) == 1
