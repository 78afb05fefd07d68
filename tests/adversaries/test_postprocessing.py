"""Post-processed releases against plain enumeration: wrappers, least squares, the simplex, and what a reader learns."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.stats

import adversary as adv
from adversary.adversaries.postprocessing.coarsening import clamped, rounded
from adversary.adversaries.postprocessing.interval_mass import log_between
from adversary.adversaries.postprocessing.nonnegative import NonNegative, _placed
from adversary.adversaries.postprocessing.rounding import RULES, last_numerator, nearest
from adversary.adversaries.postprocessing.sibling_adjustment import LeastSquares, Postprocessing, WeightedNoise
from adversary.adversaries.risk.postprocessed_risk import consistency_risk
from tests.catalogue import DG, RHO1
from tests.oracles import postprocessing
from tests.tables import over, refusals

NOISES: dict[str, tuple[adv.Mechanism, postprocessing.Pmf]] = {
    "discrete gaussian": (DG(0.5), postprocessing.discrete_gaussian(0.5, 9)),
    "discrete gaussian, narrow": (DG(3.0), postprocessing.discrete_gaussian(3.0, 4)),
    "geometric": (adv.Geometric(1.4), postprocessing.geometric(1.4, 26)),
}


class Wrapped(NamedTuple):
    """A wrapper, and what it does to one whole number."""

    wrap: Callable[[adv.Mechanism], adv.Mechanism]
    function: Callable[[int], int]


def to_multiple(base: int, rule: str) -> Callable[[int], int]:
    return lambda y: base * postprocessing.nearest(Fraction(y, base), rule)


WRAPPERS: dict[str, Wrapped] = {
    "clamp at 0": Wrapped(clamped, lambda y: max(y, 0)),
    "clamp at 2": Wrapped(lambda m: clamped(m, 2), lambda y: max(y, 2)),
    "clamp to -1..3": Wrapped(lambda m: clamped(m, -1, 3), lambda y: max(-1, min(y, 3))),
    "clamp from above": Wrapped(lambda m: clamped(m, None, 2), lambda y: min(y, 2)),
    "one value": Wrapped(lambda m: clamped(m, 2, 2), lambda y: 2),
    "round to 1": Wrapped(lambda m: rounded(m, 1), lambda y: y),
    "round to 3": Wrapped(lambda m: rounded(m, 3), to_multiple(3, "half_even")),
    "round to 4, even": Wrapped(lambda m: rounded(m, 4), to_multiple(4, "half_even")),
    "round to 4, up": Wrapped(lambda m: rounded(m, 4, "half_up"), to_multiple(4, "half_up")),
    "round to 4, down": Wrapped(lambda m: rounded(m, 4, "half_down"), to_multiple(4, "half_down")),
    "round, then clamp": Wrapped(lambda m: clamped(rounded(m, 4), 3), lambda y: max(3, to_multiple(4, "half_even")(y))),
    "clamp, then round": Wrapped(lambda m: rounded(clamped(m, 1), 2, "half_up"), lambda y: 2 * ((max(y, 1) + 1) // 2)),
    "round twice": Wrapped(
        lambda m: rounded(rounded(m, 2), 6, "half_down"),
        lambda y: to_multiple(6, "half_down")(to_multiple(2, "half_even")(y)),
    ),
}


# Rounding


@pytest.mark.parametrize("rule", RULES)
def test_rounding_agrees_with_fractions(rule: str) -> None:
    for denominator in range(1, 9):
        numerator = np.arange(-40, 41)
        wanted = [postprocessing.nearest(Fraction(int(n), denominator), rule) for n in numerator]
        np.testing.assert_array_equal(nearest(numerator, denominator, rule), wanted)
        np.testing.assert_array_equal(nearest(numerator.astype(float), denominator, rule), wanted)


@pytest.mark.parametrize("rule", RULES)
def test_the_last_numerator_is_the_last_that_rounds_there(rule: str) -> None:
    index = np.arange(-5.0, 6.0)
    for denominator in range(1, 9):
        last = last_numerator(index, denominator, rule)
        np.testing.assert_array_equal(nearest(last, denominator, rule), index)
        np.testing.assert_array_equal(nearest(last + 1, denominator, rule), index + 1)
    np.testing.assert_array_equal(last_numerator(np.array([-np.inf, np.inf]), 4, rule), [-np.inf, np.inf])


# Clamped and rounded mechanisms


@over(WRAPPERS, "case")
@over(NOISES, "noise")
def test_wrappers_agree_with_enumeration(noise: tuple[adv.Mechanism, postprocessing.Pmf], case: Wrapped) -> None:
    mechanism, possible = case.wrap(noise[0]), {case.function(y) for y in range(-40, 41)}
    for value in (0, 1, 5):
        law = postprocessing.pushed(noise[1], value, case.function)
        for release in range(-6, 13):
            p, below = law.get(release, 0.0), math.fsum(q for r, q in law.items() if r <= release)
            assert math.exp(mechanism.log_prob(release, value)) == pytest.approx(p, rel=1e-12, abs=2e-15)
            assert (mechanism.log_prob(release, value) == -np.inf) == (release not in possible)
            assert mechanism.cdf(release, value) == pytest.approx(below, rel=1e-12, abs=2e-15)
            assert mechanism.sf(release, value) == pytest.approx(1.0 - below, abs=1e-14)


@over(WRAPPERS, "case")
@over(NOISES, "noise")
def test_wrappers_never_cost_more_than_the_mechanism_inside(
    noise: tuple[adv.Mechanism, postprocessing.Pmf], case: Wrapped
) -> None:
    """delta(epsilon) of every pair of values, by plain sums, is at most that of the loss inside (post-processing)."""
    loss = case.wrap(noise[0]).privacy_loss(2)
    for value in (0, 1, 2, 8):
        p, q = (postprocessing.pushed(noise[1], v, case.function) for v in (value + 2, value))
        for epsilon in (-0.5, 0.0, 0.3, 1.0, 2.5):
            own = math.fsum(max(0.0, p.get(r, 0.0) - math.exp(epsilon) * q.get(r, 0.0)) for r in {*p, *q})
            assert own <= loss.delta(epsilon) + 1e-12


def test_a_pooled_tail_keeps_its_relative_accuracy() -> None:
    """P(release 0 | 60) is the tail beyond 60, e^-365; of the geometric law with epsilon 1, e^-60 / (1 + e^-1)."""
    assert clamped(DG(0.1)).log_prob(0, 60) == pytest.approx(math.log(DG(0.1).sf(59, 0)), rel=1e-13)
    assert clamped(DG(0.1)).log_prob(0, 60) < -360
    wanted = -700 - math.log1p(math.exp(-1))
    assert clamped(adv.Geometric(1.0)).log_prob(0, 700) == pytest.approx(wanted, rel=1e-14)
    assert clamped(adv.Geometric(1.0), None, 9).log_prob(9, -691) == pytest.approx(wanted, rel=1e-14)


def test_rounding_far_out_keeps_its_relative_accuracy() -> None:
    """Multiples of 10 far above the value: ten terms of the geometric law, in closed form."""
    mechanism = rounded(adv.Geometric(1.0), 10, "half_up")
    for release in (50, 700, 5000):
        first = release - 5  # half way up from release - 10
        wanted = math.log(math.tanh(0.5)) - first + math.log((1 - math.exp(-10)) / (1 - math.exp(-1)))
        assert mechanism.log_prob(release, 0) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("base", [511, 512, 513, 514, 2000])
def test_long_intervals_agree_with_their_sums(base: int) -> None:
    noise = DG(1e-6)
    for release in (-3 * base, 0, base, 4 * base):
        at = np.arange(release - base, release + base + 1)
        kept = np.array([to_multiple(base, "half_even")(int(y)) == release for y in at])
        log_p = noise.log_prob(at[kept], 3)
        wanted = float(log_p.max() + np.log(np.exp(log_p - log_p.max()).sum()))
        assert rounded(noise, base).log_prob(release, 3) == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("ties", RULES)
@pytest.mark.parametrize("base", [1, 2, 5, 6])
def test_the_variance_of_rounding_is_the_mean_square_over_values(base: int, ties: str) -> None:
    mechanism = rounded(DG(0.3), base, ties)
    squares = [
        math.fsum(float(w) * (r - v) ** 2 for r, w in zip(*mechanism.releases(v), strict=True)) for v in range(2 * base)
    ]
    assert mechanism.variance == pytest.approx(float(np.mean(squares)), rel=1e-12)


def test_the_variance_of_clamping_is_that_inside_far_from_the_ends_and_a_bound_elsewhere() -> None:
    mechanism = clamped(DG(0.3))
    for value in (0, 1, 3, 40):
        square = math.fsum(float(w) * (r - value) ** 2 for r, w in zip(*mechanism.releases(value), strict=True))
        assert square <= mechanism.variance + 1e-12
        if value == 40:
            assert square == pytest.approx(mechanism.variance, rel=1e-12)


@pytest.mark.parametrize("mechanism", [clamped(DG(0.2)), clamped(DG(0.2), 6), rounded(clamped(DG(0.2)), 5)])
def test_counts_beyond_the_reach_are_that_much_less_likely(mechanism: adv.Mechanism) -> None:
    reach = mechanism.tail_radius(30.0)
    for release in mechanism.support(4):
        count = np.arange(0, 200)
        log_p = mechanism.log_prob(int(release), count)
        assert np.all(log_p[np.abs(count - release) >= reach] <= log_p.max() - 30.0)


def test_a_capped_release_fits_every_larger_count() -> None:
    assert clamped(DG(0.2), 0, 9).tail_radius() == math.inf
    np.testing.assert_allclose(clamped(DG(0.2), 0, 9).log_prob(9, np.array([40, 4000])), 0.0, atol=1e-15)


def test_an_invariant_count_is_not_clamped_at_zero() -> None:
    assert clamped(adv.Exact()) == adv.Exact()
    assert clamped(adv.Exact(), 3).log_prob(3, np.array([0, 3, 4])).tolist() == [0.0, 0.0, -np.inf]
    assert rounded(adv.Exact(), 5).log_prob(10, np.array([7, 8, 12])).tolist() == [-np.inf, 0.0, 0.0]


def test_randomised_response_can_be_made_coarser() -> None:
    answers = adv.RandomizedResponse(1.0, categories=5)
    coarse = clamped(answers, 0, 2)
    mass = np.exp(answers.log_prob(np.arange(5), 1))
    np.testing.assert_allclose(np.exp(coarse.log_prob(np.arange(3), 1)), [mass[0], mass[1], mass[2:].sum()], rtol=1e-14)
    assert coarse.log_likelihood(np.array([1.0]), np.array([9.0])).tolist() == [-np.inf]
    with pytest.raises(ValueError, match="value must be below categories = 5, got 9"):
        coarse.log_prob(1, 9)


# Continuous noise


def test_rounded_continuous_noise_is_a_law_on_the_multiples() -> None:
    noise, mechanism = scipy.stats.laplace(2, 0.8), rounded(adv.Laplace(0.8), 5)
    for release in (-10, 0, 5, 10):
        wanted = noise.cdf(release + 2.5) - noise.cdf(release - 2.5)
        assert math.exp(mechanism.log_prob(release, 2)) == pytest.approx(wanted, rel=1e-9)
    assert mechanism.log_prob(1, 2) == -np.inf
    assert np.exp(mechanism.log_prob(mechanism.support(2), 2)).sum() == pytest.approx(1.0, abs=1e-14)
    assert mechanism.sf(int(mechanism.support(2)[-1]), 2) < 1e-18
    far = rounded(adv.Gaussian(1.0), 2).log_prob(40, 0)
    assert far == pytest.approx(scipy.stats.norm.logsf(39), rel=1e-12)
    draws = mechanism.sample(2, np.random.default_rng(1), 4000)
    assert draws.dtype == np.int64
    assert set(draws % 5) == {0}
    assert abs(np.mean(draws == 0) - math.exp(mechanism.log_prob(0, 2))) < 0.04


def test_clamped_continuous_noise_has_atoms_and_a_density_between() -> None:
    noise, mechanism = adv.Gaussian(1.7), clamped(adv.Gaussian(1.7), 0, 6)
    assert mechanism.is_continuous
    assert mechanism.log_prob(0, 2) == pytest.approx(math.log(noise.cdf(0, 2)), rel=1e-12)
    assert mechanism.log_prob(6, 2) == pytest.approx(math.log(noise.sf(6, 2)), rel=1e-12)
    assert mechanism.log_prob(1.25, 2) == noise.log_prob(1.25, 2)
    assert mechanism.log_prob(-0.5, 2) == -np.inf
    inside = scipy.integrate.quad(lambda x: math.exp(mechanism.log_prob(x, 2)), 1e-9, 6 - 1e-9)[0]
    assert inside + math.exp(mechanism.log_prob(0, 2)) + math.exp(mechanism.log_prob(6, 2)) == pytest.approx(
        1, abs=1e-8
    )
    assert mechanism.cdf(0.0, 2) == pytest.approx(noise.cdf(0, 2), rel=1e-12)
    assert mechanism.sf(0.0, 2) == pytest.approx(noise.sf(0, 2), rel=1e-12)
    assert mechanism.sf(6.0, 2) == 0.0
    assert mechanism.log_ratio(0.0, 1, 0) == pytest.approx(math.log(noise.cdf(0, 1) / noise.cdf(0, 0)), rel=1e-12)
    with pytest.raises(TypeError, match="continuous"):
        mechanism.support(2)


def test_an_atom_half_way_is_rounded_by_the_rule() -> None:
    """Clamped at 5, all that was below goes where 5 goes: to 0 or to 10."""
    pooled = clamped(adv.Gaussian(3.0), 5)
    between = adv.Gaussian(3.0).cdf(15, 2) - adv.Gaussian(3.0).cdf(5, 2)
    down, up = rounded(pooled, 10, "half_down"), rounded(pooled, 10, "half_up")
    assert math.exp(down.log_prob(0, 2)) == pytest.approx(adv.Gaussian(3.0).cdf(5, 2), rel=1e-12)
    assert math.exp(down.log_prob(10, 2)) == pytest.approx(between, rel=1e-12)
    assert up.log_prob(0, 2) == -np.inf
    assert up.support(2).tolist()[:2] == [10, 20]


# Least squares


def test_least_squares_minimises_the_weighted_squares() -> None:
    rng = np.random.default_rng(7)
    for _ in range(300):
        d = int(rng.integers(1, 6))
        weights = [Fraction(int(w), 3) for w in rng.integers(1, 7, 2)]
        z, total = [int(v) for v in rng.integers(-6, 9, d + 1)], int(rng.integers(0, 9))
        rule = str(rng.choice(RULES))
        v = postprocessing.least_squares(z, [weights[0]] + [weights[1]] * d, total)[0]
        wanted = min(max(postprocessing.nearest(v, rule), 0), total)
        assert LeastSquares(rule, *weights).adjusted(z[0], sum(z[1:]), total, d) == wanted


LEAST_SQUARES = {
    "published": (1, 1),
    "own twice": (2, 1),
    "siblings three times": (1, 3),
    "fractions": (Fraction(3, 2), Fraction(2, 5)),
}


@pytest.mark.parametrize("rule", RULES)
@over(LEAST_SQUARES, "weights")
@over(NOISES, "noise")
def test_least_squares_agrees_with_enumeration(
    noise: tuple[adv.Mechanism, postprocessing.Pmf], weights: tuple[Any, Any], rule: str
) -> None:
    for own, others, parent, d in [(0, 1, 1, 3), (1, 0, 1, 3), (2, 3, 6, 2), (1, 0, 4, 1), (0, 2, 3, 4)]:
        law = postprocessing.least_squares_law(
            own, others, parent, d, noise[1], rule, (Fraction(weights[0]), Fraction(weights[1]))
        )
        release = np.arange(parent + 1)
        found = LeastSquares(rule, *weights).log_prob(release, parent, own, others, noise[0], d)
        np.testing.assert_allclose(np.exp(found), [law[a] for a in release], rtol=3e-12, atol=2e-14)
        assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-13)


def test_least_squares_broadcasts_over_releases_counts_and_totals() -> None:
    rule, noise = LeastSquares(), DG(0.5)
    release, parent = np.array([0, 2, 3])[:, None, None], np.array([1, 2, 5])[:, None, None]
    own, others = np.arange(2)[None, :, None], np.arange(4.0)[None, None, :]
    grid = rule.log_prob(release, parent, own, others, noise, 3)
    assert grid.shape == (3, 2, 4)
    for i, k, y in np.ndindex(grid.shape):
        one = rule.log_prob(release[i, 0, 0], parent[i, 0, 0], k, y, noise, 3)
        assert one.shape == ()
        assert one == grid[i, k, y]
    assert rule.log_prob(np.zeros(0), 3, 0, 1, noise, 3).shape == (0,)


def test_what_cannot_be_published_has_no_probability() -> None:
    for rule in (LeastSquares(), NonNegative()):
        assert rule.log_prob(np.array([-1, 4]), 3, 0, 1, DG(0.5), 2).tolist() == [-np.inf, -np.inf]
        assert rule.log_prob(0, 0, 5, 1, DG(0.5), 2) == pytest.approx(0.0, abs=1e-13)
        assert rule.log_prob(1, 0, 5, 1, DG(0.5), 2) == -np.inf


@pytest.mark.parametrize(("a", "b", "d", "rho"), [(27, 1, 27, RHO1), (2, 3, 4, 0.7), (5, 2, 3, 3.0), (3, 1, 3, 40.0)])
def test_one_period_of_weighted_noise_gives_the_rest(a: int, b: int, d: int, rho: float) -> None:
    """P(w + t P) = P(w) exp(-rho (t^2 P + 2 t w)), against sums without it, out to e^-1000 and beyond."""
    law = WeightedNoise(DG(rho), DG(rho).total(d), a, b)  # type: ignore[arg-type]
    period = a * a + d * b * b
    np.testing.assert_allclose(law.log_pmf(3 * period), law._sum_law(3 * period), rtol=1e-13, atol=1e-13)
    single = WeightedNoise(DG(rho), DG(rho / d), a, b)
    np.testing.assert_allclose(single.log_pmf(3 * period), single._sum_law(3 * period), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", ["discrete gaussian", "geometric"])
def test_weighted_noise_is_the_sum_of_products(name: str) -> None:
    mechanism, noise = NOISES[name]
    law = WeightedNoise(mechanism, mechanism.total(2), 2, 3)  # type: ignore[arg-type]
    total = postprocessing.added(noise, 2)
    for w, log_p in enumerate(law.log_pmf(12)):
        wanted = math.fsum(p * q for n, p in noise.items() for s, q in total.items() if 2 * n + 3 * s == w)
        assert math.exp(log_p) == pytest.approx(wanted, rel=3e-11)


def test_far_releases_have_small_probabilities_not_none() -> None:
    """All of 400 people published in a unit of at most 1: v = (5 x + 399) / 6 is short of 399.5 by 333.

    That costs rho (1 + 1/d) 333^2 nats, and the ratio of neighbours 2 rho (1 + 1/d) 333.
    """
    log_p = LeastSquares().log_prob(400, 400, np.array([0, 1]), np.array([1, 0]), DG(0.1), 5)
    assert log_p[0] == pytest.approx(-0.12 * 333**2, rel=1e-3)
    assert log_p[1] - log_p[0] == pytest.approx(0.12 * 2 * 333, rel=3e-3)


@pytest.mark.parametrize("rule", [LeastSquares(), LeastSquares("half_up", 2, 1), NonNegative()])
def test_samples_follow_the_likelihood(rule: Postprocessing) -> None:
    noise, parent, own, others, draws = DG(0.4), 4, 1, 2, 20_000
    rng = np.random.default_rng(11)
    noisy = noise.sample(own, rng, draws)
    sample = rule.sample(noisy, np.full(draws, parent), others, noise, 2, rng)
    expected = draws * np.exp(rule.log_prob(np.arange(parent + 1), parent, own, others, noise, 2))
    seen = np.bincount(sample, minlength=parent + 1)
    assert scipy.stats.chisquare(seen, expected).pvalue > 1e-3
    given = rule.sample(noisy, parent, others, noise, 2, rng, sibling_counts=np.array([1, 1]))
    assert given.shape == (draws,)
    assert given.min() >= 0
    assert given.max() <= parent


# The simplex


def test_projection_is_the_nearest_point_of_the_simplex() -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        z, total = [int(v) for v in rng.integers(-5, 8, int(rng.integers(1, 6)))], int(rng.integers(0, 9))
        wanted = postprocessing.project(z, total)
        for rule in RULES if len(z) > 1 else ():
            adjusted = NonNegative(rule).adjusted(z[0], z[1:], total, len(z) - 1)
            assert adjusted == postprocessing.nearest(wanted[0], rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("d", [1, 2])
def test_the_simplex_agrees_with_enumeration(d: int, rule: str) -> None:
    noise = postprocessing.discrete_gaussian(1.2, 6)
    process = NonNegative(rule)
    assert process.exact(d)
    for own, others, parent in [(0, 1, 1), (1, 0, 1), (1, 3, 4), (3, 2, 4)]:
        wanted = postprocessing.simplex_law(own, others, parent, d, noise, rule)
        release = np.arange(parent + 1)
        found = np.exp(process.log_prob(release, parent, own, others, DG(1.2), d))
        np.testing.assert_allclose(found, [wanted[a] for a in release], rtol=1e-12, atol=1e-14)
        assert found.sum() == pytest.approx(1.0, abs=1e-13)
        assert len(process.parts(release, parent, own, others, DG(1.2), d)) == 1


def test_the_simulated_simplex_is_within_its_stated_error() -> None:
    process = NonNegative("half_even", draws=4000, seed=2)
    assert not process.exact(5)
    for own, others, parent in [(0, 2, 3), (1, 1, 3)]:
        noise = postprocessing.discrete_gaussian(2.0, 4)
        wanted = postprocessing.simplex_law(own, others, parent, 5, noise, "half_even")
        release = np.arange(parent + 1)
        found = process.log_prob(release, parent, own, others, DG(2.0), 5)
        parts = np.exp(process.parts(release, parent, own, others, DG(2.0), 5))
        error = parts.std(axis=0, ddof=1) / np.sqrt(len(parts)) / parts.mean(axis=0)
        assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-12)
        assert np.all(error > 0)
        likely = np.array([wanted[a] for a in release]) > 1e-3
        assert np.all(error[likely] < 0.1)
        assert np.all(np.abs(found - np.log([wanted[a] for a in release]))[likely] < 4 * error[likely])


@pytest.mark.parametrize("rule", RULES)
def test_one_sibling_and_counts_of_zero_or_more_are_least_squares_cut_off(rule: str) -> None:
    """With d = 1 the simplex is the segment that clipping keeps."""
    grid = (np.arange(6), 5, np.array([[0], [2]]), np.array([[1], [3]]), DG(0.4), 1)
    np.testing.assert_allclose(NonNegative(rule).log_prob(*grid), LeastSquares(rule).log_prob(*grid), rtol=1e-11)


def test_fewer_than_no_people_are_impossible() -> None:
    found = NonNegative().log_prob(1, 3, 0, np.arange(-2, 3), DG(1.0), 2)
    np.testing.assert_array_equal(np.isfinite(found), [False, False, True, True, True])


def test_a_total_falls_on_siblings_evenly() -> None:
    draws = 8000
    counts = _placed(3, 4, draws, np.random.default_rng(8))
    assert np.all(counts.sum(1) == 4)
    wanted = dict(postprocessing.splits(4, 3))
    seen = [int((counts == np.array(c)).all(1).sum()) for c in wanted]
    likely = [c for c in wanted if wanted[c] * draws >= 10]
    assert sum(seen[list(wanted).index(c)] for c in likely) > 0.98 * draws
    for c in likely:
        expected = wanted[c] * draws
        assert abs(seen[list(wanted).index(c)] - expected) < 4.5 * math.sqrt(expected * (1 - wanted[c]))


def test_a_larger_total_only_adds_people() -> None:
    few, many = (_placed(4, total, 500, np.random.default_rng(1)) for total in (3, 5))
    assert np.all(many - few >= 0)
    assert np.all((many - few).sum(1) == 2)


# What a reader learns


def test_risk_agrees_with_enumeration() -> None:
    noise = postprocessing.discrete_gaussian(0.5, 9)
    for known, count, parent, rule in [(0, 1, 1, "half_even"), (2, 5, 4, "half_up"), (1, 2, 6, "half_down")]:
        laws = [postprocessing.least_squares_law(k, count - k, parent, 3, noise, rule) for k in (known, known + 1)]
        risk = consistency_risk(parent, DG(0.5), 3, count, 0.3, rule, known=known)
        assert risk["likelihood"].dims == ("hypothesis", "release")
        for i, law in enumerate(laws):
            np.testing.assert_allclose(risk["likelihood"][i], list(law.values()), rtol=3e-12)
        assert float(risk["posterior_mean"]) == pytest.approx(postprocessing.posterior_mean(0.3, *laws), rel=1e-12)
        assert float(risk["ratio_mean"]) == pytest.approx(postprocessing.posterior_mean(0.3, *laws) / 0.3, rel=1e-12)
        for a in range(parent + 1):
            odds = 0.3 * laws[1][a] / (0.7 * laws[0][a])
            assert float(risk["posterior"].sel(release=a)) == pytest.approx(odds / (1 + odds), rel=1e-12)


def test_the_raw_and_bounding_readers_agree_with_enumeration() -> None:
    noise = postprocessing.discrete_gaussian(0.5, 9)
    risk = consistency_risk(4, DG(0.5), 3, 5, 0.3, known=2)
    others = postprocessing.added(noise, 3)
    raw = [postprocessing.pushed(noise, k, lambda y: y) for k in (2, 3)]
    pair = [
        {
            1000 * x + s: p * q
            for x, p in own.items()
            for s, q in postprocessing.pushed(others, 5 - k, lambda y: y).items()
        }
        for k, own in zip((2, 3), raw, strict=True)
    ]

    def mean(out: postprocessing.Pmf, inside: postprocessing.Pmf) -> float:
        return math.fsum(0.3 * q * q / (0.3 * q + 0.7 * out.get(a, 0.0)) for a, q in inside.items() if q > 0)

    assert float(risk["raw_posterior_mean"]) == pytest.approx(mean(*raw), abs=1e-9)
    assert float(risk["bound_posterior_mean"]) == pytest.approx(mean(*pair), abs=1e-9)


@pytest.mark.parametrize("truth", ["in", "out"])
def test_processing_never_tells_more_than_the_raw_counts(truth: str) -> None:
    rng = np.random.default_rng(2020)
    for _ in range(40):
        rho, d, parent = float(10 ** rng.uniform(-2, 1)), int(rng.integers(1, 30)), int(rng.integers(0, 30))
        known, prior = int(rng.integers(0, 3)), float(rng.uniform(0.01, 0.99))
        weights = {"own_weight": int(rng.integers(1, 4)), "sibling_weight": int(rng.integers(1, 4))}
        noise = DG(rho) if rng.random() < 0.6 else adv.Geometric(math.sqrt(2 * rho))
        risk = consistency_risk(
            parent,
            noise,
            d,
            known + int(rng.integers(1, 9)),
            prior,
            str(rng.choice(RULES)),
            known=known,
            truth=truth,
            **weights,
        )
        sign = 1 if truth == "in" else -1
        assert sign * float(risk["posterior_mean"] - risk["bound_posterior_mean"]) <= 1e-12
        assert sign * float(risk["posterior_mean"]) >= sign * prior - 1e-12
        np.testing.assert_allclose(risk["likelihood"].sum("release"), 1.0, atol=1e-12)


def test_a_simulated_risk_is_within_its_stated_error() -> None:
    noise = postprocessing.discrete_gaussian(2.0, 4)
    laws = [postprocessing.simplex_law(k, 2 - k, 3, 4, noise, "half_even") for k in (0, 1)]
    wanted = postprocessing.posterior_mean(0.4, *laws)
    for seed in range(4):
        risk = consistency_risk(3, DG(2.0), 4, 2, 0.4, nonnegative=True, draws=2000, rng=seed)
        assert 0 < float(risk["mcse"]) < 0.01
        assert abs(float(risk["posterior_mean"]) - wanted) < 4 * float(risk["mcse"])
        assert risk["posterior_mean"].attrs["direction"] == "estimate"
    again = consistency_risk(3, DG(2.0), 4, 2, 0.4, nonnegative=True, draws=2000, rng=3)
    assert again.identical(risk)


def test_posteriors_average_to_the_prior() -> None:
    for prior in (0.1, 0.7):
        means = [
            float(consistency_risk(7, DG(0.4), 6, 3, prior, truth=truth)["posterior_mean"]) for truth in ("in", "out")
        ]
        assert prior * means[0] + (1 - prior) * means[1] == pytest.approx(prior, abs=1e-13)


def test_a_parent_of_zero_publishes_nothing() -> None:
    risk = consistency_risk(0, DG(0.4), 6, 3, 0.3)
    assert risk["likelihood"].values.tolist() == [[1.0], [1.0]]
    assert float(risk["posterior_mean"]) == pytest.approx(0.3, abs=1e-15)
    assert not bool(risk["exceeds_raw"])


# Bad input


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: clamped(DG(1.0), 3, 1), "lower must be at most upper, got 3 > 1"),
    (lambda: rounded(DG(1.0), 5, "away"), "ties must be one of .*'away'"),
    (lambda: clamped(DG(1.0)).total(3), "count must be at most 1, got 3: clamped.*belief Each"),
    (lambda: LeastSquares().log_prob(1, 1, 0, 1, adv.Laplace(1.0), 2), "must be integer noise", TypeError),
    (lambda: LeastSquares().log_prob(10**9, 10**9, 0, 1, DG(1.0), 2), "too far from the counts"),
    (lambda: NonNegative().log_prob(1, 1, 0, 1, DG(1e-5), 2), "too wide to enumerate 2 siblings"),
    (lambda: consistency_risk(1, DG(1.0), 2, 3, 0.5, known=3), r"count must be at least known \+ 1 = 4"),
    (lambda: consistency_risk(1, DG(1.0), 2, 1, 0.5, nonnegative=True, own_weight=2), "equal weights"),
)


def test_listing_that_would_take_minutes_is_refused() -> None:
    plan = adv.Plan(
        [adv.Level("block", adv.Geometric(0.5), siblings=2), adv.Level("tract", adv.Exact())],
        postprocessing=adv.postprocessing.NonNegative(),
    )
    with pytest.raises(ValueError, match="too many to list"):
        plan.postprocessing.log_prob(np.arange(200)[:, None], 200, 1, np.arange(400), adv.Geometric(0.5), 2)  # type: ignore[union-attr]


def test_masses_of_many_alike_intervals_are_those_of_each_alone() -> None:
    rng = np.random.default_rng(8)
    first = np.append(rng.integers(-30, 31, 2_000), [-np.inf, 5.0, 10**17])
    last = first + rng.integers(-1, 4, first.size)
    last[-2] = np.inf
    for noise in (DG(0.5), adv.Geometric(1.4)):
        alone = [float(log_between(noise, first[[i]], last[[i]], np.ones(1))[0]) for i in range(first.size)]
        np.testing.assert_array_equal(log_between(noise, first, last, np.ones(1)), alone)
        np.testing.assert_array_equal(log_between(noise, first[:-1], last[:-1], np.ones(1)), alone[:-1])


def test_the_loss_of_what_is_rounded_is_that_of_the_published_numbers() -> None:
    """Rounded Laplace noise by hand."""
    noise = adv.postprocessing.rounded(adv.Laplace(1.0), 1)
    release = np.arange(-30, 32)
    p, q = (np.exp(noise.log_prob(release, count)) for count in (1, 0))
    for epsilon in (0.0, 0.5, 0.9):
        expected = np.maximum(p - np.exp(epsilon) * q, 0.0).sum()
        assert noise.privacy_loss().delta(epsilon) == pytest.approx(expected, rel=1e-9)
    assert noise.privacy_loss().delta(0.9) == pytest.approx(0.0289, abs=5e-5)
    assert noise.mechanism.privacy_loss().delta(0.9) == pytest.approx(0.0488, abs=5e-5)


@pytest.mark.parametrize("base", [2, 3, 5])
@pytest.mark.parametrize("inside", [adv.Geometric(0.4), adv.DiscreteGaussian(2.0), adv.Gaussian(3.0)], ids=str)
def test_the_loss_of_rounded_noise_is_that_of_the_worst_remainder(inside: adv.Mechanism, base: int) -> None:
    noise, epsilon = adv.postprocessing.rounded(inside, base), np.linspace(0.0, 2.0, 9)
    release, count = np.arange(-40 * base, 41 * base, base)[:, None], np.arange(2 * base)
    p, q = (np.exp(noise.log_prob(release, count + moved)) for moved in (1, 0))
    worst = np.maximum(p - np.exp(epsilon)[:, None, None] * q, 0.0).sum(1).max(1)
    np.testing.assert_allclose(noise.privacy_loss().delta(epsilon), worst, rtol=1e-7, atol=1e-12)
    assert (noise.privacy_loss().delta(epsilon) <= inside.privacy_loss().delta(epsilon) * (1.0 + 1e-9)).all()


def test_zeros_are_shown_where_only_small_counts_are_suppressed() -> None:
    noise = adv.postprocessing.suppressed(adv.Geometric(1.0), below=8, least=1)
    inside = adv.Geometric(1.0)
    assert noise.log_prob(0, 3) == inside.log_prob(0, 3)
    assert noise.log_prob(9, 3) == pytest.approx(inside.log_prob(9, 3))
    assert noise.log_prob(4, 3) == -np.inf
    assert np.exp(noise.log_prob(7, 3)) == pytest.approx(np.exp(inside.log_prob(np.arange(1, 8), 3)).sum())
    with pytest.raises(ValueError, match="least must be less than below, got 8 and 8"):
        adv.postprocessing.suppressed(adv.Geometric(1.0), below=8, least=8)


# Keys that exist above a threshold


def test_the_delta_of_a_threshold_is_the_chance_that_a_key_of_ones_own_is_published() -> None:
    """Closed forms of geometric and Laplace noise; whether a count at the threshold passes is part of the mechanism."""
    geometric, laplace = adv.Geometric(1.0), adv.Laplace(2.0)
    at_least = np.exp(-5.0) / (1.0 + np.exp(-1.0))  # P(1 + noise >= 6)
    key = adv.postprocessing.selected(geometric, 6)
    assert key.published(1) == pytest.approx(at_least, rel=1e-12)
    assert key.privacy_loss().infinite_p == pytest.approx(at_least, rel=1e-12)
    assert key.privacy_loss().delta(1.0) == pytest.approx(at_least, rel=1e-9)
    assert adv.postprocessing.selected(geometric, 6, strict=True).published(1) == pytest.approx(at_least * np.exp(-1.0))
    assert adv.postprocessing.threshold_delta(laplace, 11, count=3) == pytest.approx(0.5 * np.exp(-4.0), rel=1e-12)
    many = adv.postprocessing.threshold_delta(geometric, 6, keys=4)
    assert many == pytest.approx(1.0 - (1.0 - at_least) ** 4, rel=1e-12)
    assert key.privacy_loss(1, 4).tail(np.inf)[0] == pytest.approx(many, rel=1e-9)


@pytest.mark.parametrize("noise", [adv.Geometric(0.5), adv.Laplace(3.0), adv.DiscreteGaussian(4.0)], ids=str)
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-9])
def test_the_threshold_for_a_delta_is_the_least(noise: adv.Mechanism, delta: float) -> None:
    least = adv.postprocessing.threshold_for(noise, delta, count=2, keys=3)
    assert adv.postprocessing.threshold_delta(noise, least, 2, 3) <= delta
    assert adv.postprocessing.threshold_delta(noise, least - 1, 2, 3) > delta


def test_the_loss_of_a_selected_key_is_above_that_of_every_count() -> None:
    key, epsilon = adv.postprocessing.selected(adv.DiscreteGaussian(2.0), 5), np.linspace(-2.0, 3.0, 11)
    loss, release = key.privacy_loss(), np.arange(4, 90)
    count = np.arange(60)
    p, q = (np.exp(key.log_prob(release[:, None], count + moved)) for moved in (1, 0))
    for side, one, other in ((loss, p, q), (loss.swapped, q, p)):
        worst = np.maximum(one - np.exp(epsilon)[:, None, None] * other, 0.0).sum(1).max(1)
        assert (side.delta(epsilon) >= worst * (1.0 - 1e-9)).all()
        np.testing.assert_allclose(side.delta(epsilon), worst, rtol=2e-2, atol=1e-6)


def test_an_adversary_who_knows_that_the_key_is_the_targets_alone_is_certain_once_it_is_published() -> None:
    key = adv.postprocessing.selected(adv.Geometric(1.0), 6)
    plan, alone = adv.Plan([adv.Level("key", key)]), adv.Adversary(prior=0.01, known=0)
    seen = alone.posterior(plan, plan.observe({"key": np.array([5, 6])}))["posterior"].values
    shown = float(key.published(1))
    absent = 0.01 * (1.0 - shown) / (0.01 * (1.0 - shown) + 0.99)
    np.testing.assert_allclose(seen, [absent, 1.0], rtol=1e-12)
    tree = adv.audit(plan, alone, {"key": 1})
    assert float(tree["risk"]["posterior_mean"]) == pytest.approx(shown + (1.0 - shown) * absent, rel=1e-9)


test_a_key_without_noise_is_no_selection = refusals(
    (lambda: adv.postprocessing.selected(adv.Exact(), 5), "additive noise.*noisy count", TypeError),
    (lambda: adv.postprocessing.threshold_for(adv.Laplace(1.0), 0.0), "delta must be above 0"),
)
