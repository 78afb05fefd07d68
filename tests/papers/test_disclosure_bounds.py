"""Kazan, Sharma, Zhang, Jiang and Yan (2025), "Interpreting differential privacy in terms of disclosure risk".

Numbers as in Chapter 5 of Kazan's thesis; the conference version counts theorems 3.x. Printed values are rounded to
nearest and so state bounds that are slightly false (erratum F1): tests hold the exact value and the print.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit

import adversary as adv
from adversary.privacy import definitions
from adversary.privacy.definitions import composition_rules
from adversary.privacy.losses.lattice import LatticeLoss
from tests.oracles import published


def first_above(threshold: float, posterior: Callable[[int], float]) -> int:
    """First number of releases whose bound on the posterior exceeds the threshold."""
    return next(k for k in range(1, 400) if posterior(k) > threshold)


def largest(allowed: Callable[[float], bool], low: float, high: float) -> float:
    """Largest argument allowed, of a condition that holds up to a point."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def test_b01_loss_bound_of_a_small_epsilon() -> None:
    """Example 6: (0.1, 1e-7)-DP with failure 0.01, Theorem 35."""
    assert adv.ApproximateDP(0.1, 1e-7).loss_bound(0.01) == pytest.approx(0.10001905, abs=1e-8)


def test_b02_posterior_of_a_small_epsilon() -> None:
    """Example 6: 48% to 52% are printed; 47.5% to 52.5% is true (F1)."""
    lower, upper = adv.ApproximateDP(0.1, 1e-7).posterior_bounds(0.5, failure=0.01)
    assert (lower, upper) == pytest.approx((0.475016, 0.524984), abs=1e-6)
    assert lower < 0.48
    assert upper > 0.52


def test_b03_ratio_and_difference_of_a_small_epsilon() -> None:
    """Example 6: 0.90 to 1.1, and 2% (2.5%, F1)."""
    g = adv.ApproximateDP(0.1, 1e-7)
    assert g.ratio_bounds(failure=0.01) == pytest.approx((0.904820, 1.105192), abs=1e-6)
    assert g.difference_bounds(failure=0.01) == pytest.approx((-0.0249996, 0.0249996), abs=1e-6)


@pytest.mark.parametrize(("failure", "expected"), [(1e-5, 1.141488), (1e-4, 1.013722), (0.05, 1.000027)])
def test_b04_loss_bound_against_failure(failure: float, expected: float) -> None:
    """Figure 5.1: epsilon 1, delta 1e-6."""
    assert adv.ApproximateDP(1.0, 1e-6).loss_bound(failure) == pytest.approx(expected, abs=1e-6)


def test_b05_and_b06_releases_until_80_percent() -> None:
    """Figure 5.3: epsilon 0.05 each, prior 1/2, failure 0.05; 28 basic, and (F3) 26, 42 and 45 at delta 1e-6."""

    def first(total: Callable[[int], float], delta: float) -> int:
        def posterior(count: int) -> float:
            return float(adv.ApproximateDP(total(count), delta).posterior_bounds(0.5, failure=0.05)[1])

        return first_above(0.8, posterior)

    assert first(lambda k: composition_rules.compose_basic([0.05] * k)[0], 0.0) == 28
    assert first(lambda k: composition_rules.compose_advanced([0.05] * k, 1e-6), 1e-6) == 26
    assert first(lambda k: composition_rules.compose_lattice(0.05, k, 1e-6), 1e-6) == 42
    assert first(lambda k: composition_rules.compose_optimal(0.05, k, 1e-6), 1e-6) == 45


@pytest.mark.parametrize(
    ("count", "basic", "advanced", "lattice", "optimal"),
    [
        (25, 1.25, 1.378219, 1.05, 0.995234),
        (50, 2.5, 1.986639, 1.5, 1.489043),
        (100, 5.0, 2.884616, 2.30, 2.207533),
    ],
)
def test_b07_and_b25_composed_epsilons(
    count: int, basic: float, advanced: float, lattice: float, optimal: float
) -> None:
    """Figure 5.2: epsilon 0.05 each, total delta 1e-6."""
    assert composition_rules.compose_basic([0.05] * count)[0] == pytest.approx(basic, abs=1e-9)
    assert composition_rules.compose_advanced([0.05] * count, 1e-6) == pytest.approx(advanced, abs=1e-6)
    assert composition_rules.compose_lattice(0.05, count, 1e-6) == pytest.approx(lattice, abs=1e-6)
    assert composition_rules.compose_optimal(0.05, count, 1e-6) == pytest.approx(optimal, abs=1e-6)
    assert (count * adv.PureDP(0.05)).epsilon(1e-6) == pytest.approx(optimal, abs=1e-6)


def test_b08_and_b23_a_week_of_daily_releases() -> None:
    """Example 7: rho = 7 x 0.01, failure 0.01.

    The published route turns zCDP into (epsilon, delta)-DP by rho + 2 sqrt(rho log(1/delta)), takes the best delta and
    applies Theorem 35: loss 1.584140, posterior 0.829790 (83%), difference 0.376551 (38%). Markov's inequality on the
    loss itself gives 1.236547 and 0.774962 (B23): what `loss_bound` answers.
    """
    week = 7 * adv.ZeroConcentratedDP(0.01)
    published = definitions.published_loss_bound(week.rho, 0.01)
    assert published == pytest.approx(1.584140, abs=1e-5)
    at_best = definitions.probabilistic_epsilon(definitions.simple_epsilon(week.rho, 7.4e-4), 7.4e-4, 0.01)
    assert at_best == pytest.approx(published, abs=5e-6)
    promise = adv.PureDP(published)
    assert promise.posterior_bounds(0.5)[1] == pytest.approx(0.829790, abs=1e-5)
    assert promise.difference_bounds()[1] == pytest.approx(0.376551, abs=1e-5)
    worst, rise = definitions.worst_prior(published)
    assert (worst, worst + rise) == pytest.approx((0.31172, 0.68828), abs=1e-5)
    assert promise.posterior_bounds(worst)[1] == pytest.approx(0.68828, abs=1e-5)
    assert week.loss_bound(0.01) == pytest.approx(1.236547, abs=1e-6)
    assert definitions.direct_loss_bound(week.rho, 0.01) == week.loss_bound(0.01)
    assert week.posterior_bounds(0.5, failure=0.01)[1] == pytest.approx(0.774962, abs=1e-6)
    assert week.loss_bound(0.01) < published


@pytest.mark.parametrize(
    ("days", "posterior", "difference"),
    [
        (1, 0.651302, None),
        (14, 0.902308, None),
        (30, 0.963050, 0.672412),
        (90, 0.997070, 0.897156),
        (365, 0.999998, 0.997186),
    ],
)
def test_b09_b24_and_b26_daily_releases(days: int, posterior: float, difference: float | None) -> None:
    """Figures 5.4 and 5.5: rho 0.01 a day, failure 0.01, the published route."""
    loss = definitions.published_loss_bound(days * 0.01, 0.01)
    assert expit(loss) == pytest.approx(posterior, abs=1e-5)
    if difference is not None:
        assert definitions.worst_prior(loss)[1] == pytest.approx(difference, abs=1e-5)


def test_b09_a_month_at_the_worst_prior() -> None:
    """Example 7: loss 3.260531; from 19% to 81% is printed, 16.4% to 83.6% follows from its own 67% (F4)."""
    loss = definitions.published_loss_bound(0.3, 0.01)
    assert loss == pytest.approx(3.260531, abs=1e-5)
    prior, rise = definitions.worst_prior(loss)
    assert (prior, prior + rise) == pytest.approx((0.16379, 0.83621), abs=1e-5)
    assert 0.81 - 0.19 < 0.67 < rise


def test_b10_a_fixed_delta_does_not_give_the_printed_week() -> None:
    """Delta 1e-6 instead of the best: 0.8846, not 83%."""
    loss = definitions.probabilistic_epsilon(definitions.simple_epsilon(0.07, 1e-6), 1e-6, 0.01)
    assert expit(loss) == pytest.approx(0.8846, abs=1e-4)


def test_b11_epsilon_for_twenty_points_at_any_prior() -> None:
    """Example 8: a rise of at most 0.2 needs a loss of 2 log 1.5 = 0.810930; at delta 1e-6, epsilon 0.810786."""
    loss = 2 * math.log((1 + 0.2) / (1 - 0.2))
    assert loss == pytest.approx(0.810930, abs=1e-6)
    assert adv.PureDP(loss).difference_bounds()[1] == pytest.approx(0.2, abs=1e-12)
    total = published.approximate_epsilon(loss, 1e-6, 0.01)
    assert total == pytest.approx(0.810786, abs=1e-6)
    assert adv.ApproximateDP(total, 1e-6).difference_bounds(failure=0.01)[1] == pytest.approx(0.2, abs=1e-12)


def test_b12_and_b14_epsilon_of_each_of_twelve_releases() -> None:
    """Example 8, delta 1e-8 each: 0.135 and "a factor of two" are printed; 0.0678, a 0.3% gain, is true (F2)."""
    total = published.approximate_epsilon(2 * math.log(1.5), 1e-6, 0.01)

    def each(compose: Callable[[float], float]) -> float:
        return largest(lambda e: compose(e) <= total, 0.0, 0.2)

    optimal = each(lambda e: composition_rules.compose_optimal(e, 12, 1e-6, 1e-8))
    assert optimal == pytest.approx(0.067767, abs=1e-6)
    assert each(lambda e: composition_rules.compose_lattice(e, 12, 1e-6, 1e-8)) == pytest.approx(0.067565, abs=1e-6)
    assert each(lambda e: composition_rules.compose_basic([e] * 12)[0]) == pytest.approx(0.067565, abs=1e-6)
    assert each(lambda e: composition_rules.compose_advanced([e] * 12, 1e-6, 1e-8)) == pytest.approx(0.043078, abs=1e-6)
    assert optimal / (total / 12) == pytest.approx(1.003, abs=1e-3)
    assert 2 * math.log(1.5) / 12 == pytest.approx(0.067578, abs=1e-6)  # pure, basic


def test_b13_the_printed_epsilon_breaks_its_own_requirement() -> None:
    """Erratum F2: at 0.135 the third lattice point has delta 0.0090, and so has the real disclosure risk."""
    assert composition_rules.optimal_profile(6 * 0.135, 0.135, 12) == pytest.approx(0.00899900, abs=1e-8)
    twelve = 12 * adv.PureDP(0.135)
    allowed = 2 * math.log(1.5)
    assert twelve.tail(allowed)[0] + twelve.swapped.tail(allowed)[1] > 0.01
    assert not adv.ProbabilisticDP(allowed, 0.01).is_satisfied_by(twelve)
    assert adv.ProbabilisticDP(allowed, 0.01).is_satisfied_by(12 * adv.PureDP(0.0677))


def test_b15_advertising_system() -> None:
    """Example 9: epsilon 1.8, delta 1e-5, failure 0.05, prior 1/2 (86%, 36%, 1.7)."""
    g = adv.ApproximateDP(1.8, 1e-5)
    assert g.loss_bound(0.05) == pytest.approx(1.800233, abs=1e-6)
    assert g.posterior_bounds(0.5, failure=0.05)[1] == pytest.approx(0.858177, abs=1e-6)
    assert g.difference_bounds(0.5, failure=0.05)[1] == pytest.approx(0.358177, abs=1e-6)
    assert g.ratio_bounds(0.5, failure=0.05)[1] == pytest.approx(1.716355, abs=1e-6)


def test_b16_ratio_at_small_priors() -> None:
    """Example 9: "at most 6" is printed; 6.05 is true (F1), reached as the prior tends to 0 (F5)."""
    g = adv.ApproximateDP(1.8, 1e-5)
    for prior in (None, 0.0):
        assert g.ratio_bounds(prior, failure=0.05)[1] == pytest.approx(6.051058, abs=1e-6)
    assert g.ratio_bounds(1e-9, failure=0.05)[1] == pytest.approx(6.051058, abs=1e-6)
    assert g.ratio_bounds(failure=0.05)[1] > 6


def test_b17_worst_priors() -> None:
    """Section 5.4.4, text: epsilon 2, delta 1e-6, failure 0.01 (0.27, 0.73, 0.46); Lemma 30."""
    g = adv.ApproximateDP(2.0, 1e-6)
    grid = np.linspace(0.2, 0.8, 600_001)
    lower, upper = g.difference_bounds(grid, failure=0.01)
    assert grid[np.argmax(upper)] == pytest.approx(0.268930, abs=2e-6)
    assert grid[np.argmin(lower)] == pytest.approx(0.731070, abs=2e-6)
    assert upper.max() == pytest.approx(0.462139, abs=1e-6)
    assert g.difference_bounds(failure=0.01)[1] == pytest.approx(0.462139, abs=1e-6)


def test_b17_worst_priors_in_closed_form() -> None:
    loss = adv.ApproximateDP(2.0, 1e-6).loss_bound(0.01)
    assert definitions.worst_prior(loss) == pytest.approx((0.268930, 0.462139), abs=1e-6)
    assert definitions.worst_prior(loss, "fall") == pytest.approx((0.731070, 0.462139), abs=1e-6)


def test_b18_two_sided_criteria() -> None:
    """Figures 5.6 and 5.7, prior 1/4, the parameters of Example 9 (their caption; the text has others, F6)."""
    loss = adv.ApproximateDP(1.8, 1e-5).loss_bound(0.05)
    assert definitions.two_sided_ratio(0.25, loss) == pytest.approx(2.674190, abs=1e-4)
    assert definitions.two_sided_difference(0.25, loss) == pytest.approx(0.418550, abs=1e-4)


@pytest.mark.parametrize(("epsilon", "wider"), [(0.5, 0.508066), (1.0, 1.071693), (2.0, 3.234638), (2.19, 6.601984)])
def test_b19_and_b27_from_a_difference_bound(epsilon: float, wider: float) -> None:
    """Theorem 31.2."""
    implied = published.approximate_from_difference(epsilon, 0.01)
    assert implied[0] == (epsilon, 0.02)
    assert implied[1] == pytest.approx((wider, 0.01), abs=1e-6)


def test_b27_and_f7_the_difference_bound_says_nothing_from_2_log_3_on() -> None:
    """Theorem 31.2 and Corollary 38.1 are stated for every epsilon; the logarithm exists below 2 log 3 = 2.1972."""
    with pytest.raises(ValueError, match="below 2 log 3"):
        published.approximate_from_difference(2.2, 0.01)


def test_b20_profile_at_a_lattice_point() -> None:
    """Thirty releases at 0.05: total 1.0 is the fifth point."""
    assert composition_rules.optimal_profile(1.0, 0.05, 30) == pytest.approx(5.626137e-6, abs=1e-11)


def test_b21_epsilon_for_a_ratio_of_three() -> None:
    """Section 6: ratio at most 3 at prior 0.1, delta 1e-6, failure 0.05."""
    loss = math.log(3 * 0.9 / (1 - 0.3))
    assert loss == pytest.approx(1.349927, abs=1e-6)
    assert adv.PureDP(loss).ratio_bounds(0.1)[1] == pytest.approx(3.0, abs=1e-12)
    assert published.approximate_epsilon(loss, 1e-6, 0.05) == pytest.approx(1.349902, abs=1e-6)


def test_b22_a_gaussian_itself() -> None:
    """Theorem 27: rho 0.07, the loss is N(0.07, 0.14); beyond 0.980163 either way with probability 0.01."""
    loss = adv.Gaussian.from_rho(0.07).privacy_loss()
    edge = largest(lambda e: float(loss.tail(e)[0] + loss.swapped.tail(e)[1]) > 0.01, 0.0, 5.0)
    assert edge == pytest.approx(0.980163, abs=1e-6)
    assert expit(edge) == pytest.approx(0.727141, abs=1e-6)
    assert edge < definitions.direct_loss_bound(0.07, 0.01) < definitions.published_loss_bound(0.07, 0.01)


def test_b28_composition_of_approximate_releases() -> None:
    """Theorem 25.3: twelve at (0.05, 1e-8), total delta 1e-6."""
    assert composition_rules.compose_optimal(0.05, 12, 1e-6, 1e-8) == pytest.approx(0.597316, abs=1e-6)
    assert (12 * adv.ApproximateDP(0.05, 1e-8)).epsilon(1e-6) == pytest.approx(0.597316, abs=1e-6)
    assert composition_rules.compose_lattice(0.05, 12, 1e-6, 1e-8) == pytest.approx(0.6, abs=1e-6)
    assert composition_rules.compose_advanced([0.05] * 12, 1e-6, 1e-8) == pytest.approx(0.945421, abs=1e-6)


def test_f1_bounds_rounded_to_nearest_are_false() -> None:
    """Printed 48% to 52%, 1.1, 2% and 6 lie inside what a mechanism with the guarantee reaches."""
    attained = adv.RandomizedResponse(0.1).privacy_loss().maximum
    assert expit(-attained) < 0.48
    assert expit(attained) > 0.52
    assert math.exp(attained) > 1.1
    assert math.tanh(attained / 4) > 0.02
    assert math.exp(1.8) > 6


def test_f3_what_the_figure_was_run_with() -> None:
    """51 (advanced) and 96 (optimal) come out at delta 1e-3, the tight first term, and no step to a failure."""

    def tight(count: int) -> float:
        return composition_rules.compose_advanced([0.05] * count, 1e-3, variant="tight")

    assert first_above(0.8, lambda k: float(expit(tight(k)))) == 51
    assert first_above(0.8, lambda k: float(expit(composition_rules.compose_lattice(0.05, k, 1e-3)))) == 96


def test_f5_a_ratio_near_its_bound_needs_a_small_prior() -> None:
    """Prior near 1 is printed; there the ratio cannot exceed 1 / prior."""
    g = adv.PureDP(2.0)
    assert g.ratio_bounds(1e-6)[1] == pytest.approx(math.exp(2.0), rel=1e-5)
    assert g.ratio_bounds(1 - 1e-6)[1] == pytest.approx(1.0, abs=1e-5)


def test_f6_text_and_caption_of_figure_5_7_have_different_settings() -> None:
    """B17 belongs to (2, 1e-6) and 0.01, B18 to (1.8, 1e-5) and 0.05; exchanged they miss."""
    text, caption = adv.ApproximateDP(2.0, 1e-6).loss_bound(0.01), adv.ApproximateDP(1.8, 1e-5).loss_bound(0.05)
    assert abs(definitions.worst_prior(caption)[1] - 0.462139) > 0.02
    assert abs(definitions.two_sided_ratio(0.25, text) - 2.674190) > 0.05


def test_f8_the_other_tail_carries_the_loss_and_not_epsilon() -> None:
    """Proof of Theorem 35: delta (1 + e^-loss) / (1 - e^(epsilon - loss)); e^-epsilon, printed once, is off it."""
    epsilon, delta, failure = 0.5, 0.01, 0.05
    loss = definitions.probabilistic_epsilon(epsilon, delta, failure)
    right, printed = (delta * (1 + math.exp(-e)) / -math.expm1(epsilon - loss) for e in (loss, epsilon))
    assert right == pytest.approx(failure, rel=1e-12)
    assert printed > failure * 1.01


def test_example_10_a_difference_bound_is_weaker_than_probabilistic_dp() -> None:
    """With probability delta (1 + e^-wider) a randomised response at the wider epsilon, otherwise nothing."""
    epsilon, delta = 1.0, 0.05
    wider = published.approximate_from_difference(epsilon, delta)[1][0]
    share, keep = delta * (1 + math.exp(-wider)), float(expit(wider))
    loss = LatticeLoss.from_probs(
        [share * keep, share * (1 - keep), 1 - share], [share * (1 - keep), share * keep, 1 - share]
    )
    law = loss.posterior(np.linspace(0.01, 0.99, 99))
    prior = np.linspace(0.01, 0.99, 99)
    allowed = math.tanh(epsilon / 4) + 1e-9
    for truth in ("in", "out"):
        outside = (
            1 - law.cdf(np.minimum(prior + allowed, 1.0), truth) + law.cdf(np.maximum(prior - allowed, 0.0), truth)
        )
        assert np.max(outside) <= delta * (1 + 1e-9)
    assert loss.tail(epsilon)[0] + loss.swapped.tail(epsilon)[1] == pytest.approx(share)
    assert share > delta
