"""Laws every noise law obeys, over the catalogue, against plain sums in 40 digits."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import adversary as adv
from adversary import budget
from adversary.adversaries.postprocessing.coarsening import Coarsened
from adversary.literature.canonical import CanonicalNoise, Tulap
from adversary.literature.frameworks import mutual_information
from adversary.privacy.losses.dominating import lattice_above, lattice_below
from adversary.privacy.losses.lattice import convolve_lattices
from adversary.privacy.mechanisms import ContinuousNoise, IntegerNoise, LocalReport, PerturbedCount, kinds
from adversary.privacy.mechanisms.continuous import LaplaceSum
from tests.catalogue import DG, MECHANISMS, RHO1
from tests.oracles import paths
from tests.tables import over, refusals

TINY = Fraction(1, 10**400)
"""Positive, and 0 as a double."""

INTEGER = {name: m for name, m in MECHANISMS.items() if isinstance(m, IntegerNoise)}
CONTINUOUS = {name: m for name, m in MECHANISMS.items() if isinstance(m, ContinuousNoise)}
ADDITIVE = {**INTEGER, **CONTINUOUS}
FINITE = {name: m for name, m in MECHANISMS.items() if not m.is_continuous}
RANGED = {name: m for name, m in MECHANISMS.items() if isinstance(m, adv.RangedNoise)}


def tail_points(noise: Any) -> list[int]:
    """A few offsets: the centre, the shoulders, and far beyond the support."""
    reach = noise.tail_radius()
    return sorted({0, 1, 2, reach // 4, reach // 2, reach, 2 * reach})


def integral(noise: Any, end: float, power: int = 0) -> float:
    """Of a power times the density from 0, split where it jumps."""
    points = [point for point in noise.breaks(end) if 0.0 < point < end]

    def function(x: float) -> float:
        return x**power * math.exp(noise.log_prob(x, 0))

    return float(scipy.integrate.quad(function, 0.0, end, limit=400, points=points or None)[0])


# Every mechanism


@over(MECHANISMS, "noise")
def test_what_a_mechanism_says_of_itself_is_true_of_its_law(noise: Any) -> None:
    assert noise.describe()
    assert (noise.noise is noise) == (noise.steps == ())
    single, count = noise.summands
    assert single.total(count) == noise
    value, release = np.zeros(40), np.arange(40.0) * (1 if noise.variance < 1e4 else 100)
    if noise.is_continuous:
        with pytest.raises(TypeError, match="no list of releases"):
            noise.support(0)
    else:
        assert not noise.is_exact or noise.support(1).size == 1
        assert min(noise.support(one)[0] for one in (0, 1)) >= noise.smallest_release
    if noise.parabola:
        rho, peak = noise.parabola
        np.testing.assert_allclose(noise.log_likelihood(release, value), peak - rho * release**2, rtol=1e-12)
    if noise.laplace_rate is not None:
        log = noise.log_likelihood(release, value)
        np.testing.assert_allclose(log, log[0] - noise.laplace_rate * release, rtol=1e-12)


@over({name: m for name, m in ADDITIVE.items() if "tulap" not in name}, "noise")
def test_the_tail_falls_at_its_rate(noise: Any) -> None:
    far = np.array([1.0, 1.0, 2.0, 2.0]) * 1e5 * noise.tail_radius() + np.array([0.0, 300.0, 0.0, 300.0])  # whole steps
    near, beyond = -np.diff(noise.log_likelihood(far, np.zeros(4)))[::2] / 300.0
    assert noise.tail_rate == (np.inf if beyond > 1.9 * near else pytest.approx(beyond, rel=1e-3))


@over({name: m for name, m in MECHANISMS.items() if name != "laplace, sum of 3"}, "noise")  # whose loss is not derived
def test_the_nominal_guarantee_is_true(noise: adv.Mechanism) -> None:
    assert noise.nominal_guarantee.is_satisfied_by(noise.privacy_loss(1, 1))


def test_every_kind_of_a_scenario_file_is_in_the_catalogue_and_made_from_each_of_its_parameters() -> None:
    assert set(kinds().values()) <= {type(noise) for noise in MECHANISMS.values()}
    for kind, law in kinds().items():
        assert law.kind == kind
        if law.tables:
            continue
        for parameter in set(law.parameters) - {"stay"}:  # a chance
            options = {key: 3 for key, kind in law.options.items() if kind == "whole"}
            made = law.from_parameter(parameter, 2, 1, 2, **options)
            assert type(made) is law
            loss = made.report_loss(None, 2) if made.is_local else made.privacy_loss()
            number = loss.loss_bound(0.0) if parameter == "epsilon" else getattr(made, parameter)
            number = number() if callable(number) else number
            assert number * (2 if parameter == "rho" else 1) == pytest.approx(2.0), parameter


@over(FINITE, "noise")
def test_mass_sums_to_one(noise: adv.Mechanism) -> None:
    support = noise.support(0)
    mass = np.exp(noise.log_prob(support, 0))
    assert math.fsum(mass.tolist()) == pytest.approx(1.0, abs=2e-13)
    values, weights = noise.releases(0)
    np.testing.assert_array_equal(values, support)
    np.testing.assert_allclose(weights, mass, rtol=1e-14)


@over(CONTINUOUS, "noise")
def test_density_integrates_to_one(noise: Any) -> None:
    scale = math.sqrt(noise.variance)
    total = 2 * integral(noise, min(40 * scale, noise.tail_radius(1e4)))
    assert total == pytest.approx(1.0, abs=1e-9)
    below = 0.5 + integral(noise, 1.3 * scale)
    assert noise.cdf(1.3 * scale, 0) == pytest.approx(below, abs=1e-9)


def _outwards(noise: Any) -> Any:
    """Log density, or log pmf, at places a step apart from 0 to far out."""
    step = 1.0 if isinstance(noise, IntegerNoise) else math.sqrt(noise.variance) / 100.0
    last = min(2000, int(noise.tail_radius(60.0) / step) + 2)
    return np.asarray(noise.log_noise(step * np.arange(last)), dtype=float)


@over(ADDITIVE, "noise")
def test_additive_noise_is_symmetric_and_falls_away_from_0(noise: Any) -> None:
    offset = np.array([1.0, 2.0, 7.0, 40.0]) if isinstance(noise, IntegerNoise) else np.array([0.01, 0.5, 1.7, 30.0])
    np.testing.assert_array_equal(noise.log_noise(offset), noise.log_noise(-offset))
    log_p = _outwards(noise)
    assert (np.diff(log_p[np.isfinite(log_p)]) <= 1e-12).all()
    assert not np.isfinite(log_p[np.isneginf(log_p).argmax() :]).any() or np.isfinite(log_p).all()


@over(ADDITIVE, "noise")
def test_noise_is_log_concave_where_it_says_so_and_nowhere_else(noise: Any) -> None:
    log_p = _outwards(noise)
    bend = np.diff(np.concatenate([log_p[1::-1][:1], log_p]), 2)  # the one about 0 included: the law is symmetric
    rounding = 1e-13 * np.maximum(1.0, np.abs(log_p[1:]))
    assert (
        bool((bend[np.isfinite(bend)] <= np.resize(rounding, bend.size)[np.isfinite(bend)]).all()) == noise.log_concave
    )


@over(CONTINUOUS, "noise")
def test_a_density_jumps_at_its_breaks_only(noise: Any) -> None:
    step = math.sqrt(noise.variance) / 997.0
    place = step * np.arange(1, 4000)
    log_p = np.asarray(noise.log_noise(place))
    with np.errstate(invalid="ignore"):
        jumps = np.flatnonzero(~(np.abs(np.diff(log_p)) <= 0.05) & np.isfinite(log_p[:-1]))
    breaks = noise.breaks(float(place[-1]))
    for i in jumps[np.isfinite(log_p[jumps + 1])]:
        assert ((breaks >= place[i]) & (breaks <= place[i + 1])).any()


@over(FINITE, "noise")
def test_cdf_and_sf_are_sums_of_the_pmf(noise: adv.Mechanism) -> None:
    value = 1
    support = noise.support(value)
    chosen = np.unique(np.linspace(0, support.size - 1, 41).astype(int))
    mass = np.exp(noise.log_prob(support, value))
    np.testing.assert_allclose(noise.cdf(support[chosen], value), np.cumsum(mass)[chosen], atol=3e-13)
    beyond = np.append(np.cumsum(mass[::-1])[::-1], 0.0)[1:]
    np.testing.assert_allclose(noise.sf(support[chosen], value), beyond[chosen], atol=3e-13)


@over(MECHANISMS, "noise")
def test_cdf_and_sf_are_complements(noise: adv.Mechanism) -> None:
    answers = [0, 1] if isinstance(noise, LocalReport) else [-50, -3, -1, 0, 1, 2, 7, 400]
    for release in answers:
        assert noise.cdf(release, 1) + noise.sf(release, 1) == pytest.approx(1.0, abs=1e-15)


@over(ADDITIVE, "noise")
def test_noise_is_symmetric_and_shifts_with_the_value(noise: Any) -> None:
    offset = np.array([0, 1, 2, 5, 30])
    np.testing.assert_array_equal(noise.log_prob(offset, 0), noise.log_prob(-offset, 0))
    np.testing.assert_array_equal(noise.log_prob(offset + 7, 7), noise.log_prob(offset, 0))
    continuous = isinstance(noise, ContinuousNoise)
    mirrored = noise.cdf(-offset if continuous else -offset - 1, 0)
    np.testing.assert_allclose(noise.sf(offset, 0), mirrored, rtol=1e-14)


@over(ADDITIVE, "noise")
def test_far_releases_are_finite_numbers_unless_the_noise_ends(noise: Any) -> None:
    bounded = noise.log_prob(int(noise.tail_radius(1e4)) + 1, 0) == -np.inf
    for release in (-(10**6), 10**6):
        assert noise.log_prob(release, 0) == -np.inf if bounded else np.isfinite(noise.log_prob(release, 0))
        assert 0.0 <= noise.sf(release, 0) <= 1.0
        assert 0.0 <= noise.cdf(release, 0) <= 1.0


@over({k: m for k, m in ADDITIVE.items() if k != "laplace, sum of 3"}, "noise")  # of which no loss is derived
def test_no_release_however_far_out_has_a_loss_beyond_the_maximum(noise: Any) -> None:
    """What `bounded` of a lattice says, as its last atom is then the maximum."""
    loss, far = noise.privacy_loss(1, 1), math.ceil(noise.tail_radius(3000.0)) + 2
    release = np.unique(np.rint(np.concatenate([np.arange(-9, 10), np.linspace(-far, far, 4001)])))
    p, q = (np.asarray(noise.log_prob(release, value), dtype=float) for value in (1, 0))
    possible = np.isfinite(p) | np.isfinite(q)
    ratio = p[possible] - q[possible]
    assert ratio.max() <= loss.maximum * (1.0 + 1e-9) + 1e-12
    assert -ratio.min() <= loss.swapped.maximum * (1.0 + 1e-9) + 1e-12


@over({k: m for k, m in FINITE.items() if not isinstance(m, Coarsened)}, "noise")  # theirs depends on the value
def test_variance_is_the_second_moment(noise: adv.Mechanism) -> None:
    if isinstance(noise, LocalReport):
        values = range(noise.categories)
        square = [np.exp(noise.log_prob(noise.support(v), v)) @ (noise.support(v) - v) ** 2.0 for v in values]
        assert noise.variance == pytest.approx(float(np.mean(square)), rel=1e-12)
        return
    if isinstance(noise, PerturbedCount):
        values = range(len(noise.transitions[1]))
        square = [np.exp(noise.log_prob(noise.support(v), v)) @ (noise.support(v) - v) ** 2.0 for v in values]
        assert noise.variance == pytest.approx(max(square), rel=1e-12)
        return
    k = noise.support(0).astype(float)
    assert noise.variance == pytest.approx(float(k * k @ np.exp(noise.log_prob(k, 0))), rel=1e-10)


@over(CONTINUOUS, "noise")
def test_variance_is_the_second_moment_of_the_density(noise: Any) -> None:
    scale = math.sqrt(noise.variance)
    moment = 2 * integral(noise, 60 * scale, power=2)
    assert noise.variance == pytest.approx(moment, rel=1e-8)


@over(FINITE, "noise")
def test_samples_follow_the_pmf(noise: adv.Mechanism) -> None:
    """Chi-square over cells of expected count at least 20, at a fixed seed."""
    value, draws = 1, 100_000
    sample = noise.sample(value, np.random.default_rng(2020), draws)
    support = noise.support(value)
    expected = draws * np.exp(noise.log_prob(support, value))
    group = _cells(expected)
    wanted = np.bincount(group, expected)
    seen = np.bincount(group[np.searchsorted(support, sample)], minlength=wanted.size)
    if wanted.size == 1:
        assert np.mean(sample == support[np.argmax(expected)]) > 0.999
        return
    assert scipy.stats.chisquare(seen, wanted * draws / wanted.sum()).pvalue > 1e-3


def _cells(expected: Any) -> Any:
    """Neighbours put together until a cell expects at least 20; what is left joins the last cell."""
    labels, label, held = [], 0, 0.0
    for one in expected:
        labels.append(label)
        held += one
        if held >= 20:
            label, held = label + 1, 0.0
    return np.minimum(labels, max(label - 1, 0))


@over(CONTINUOUS, "noise")
def test_samples_follow_the_density(noise: Any) -> None:
    sample = noise.sample(3, np.random.default_rng(2020), 20_000)
    assert scipy.stats.kstest(sample, lambda x: noise.cdf(x, 3)).pvalue > 1e-3


def _moments(noise: Any, value: int) -> tuple[float, float]:
    """Total mass of a release within a range, and mean square of it minus the value, its ends apart."""
    at = np.array([0.0, noise.largest]) if noise.ends == "truncated" else np.zeros(0)
    ends = np.exp(noise.log_prob(at, value))

    def density(y: float, power: int) -> float:
        return (y - value) ** power * math.exp(noise.log_prob(y, value))

    inside = [
        scipy.integrate.quad(density, 0.0, noise.largest, (power,), points=[value], limit=200)[0] for power in (0, 2)
    ]
    return float(ends.sum() + inside[0]), float(ends @ (at - value) ** 2 + inside[1])


@over(RANGED, "noise")
def test_noise_within_a_range_has_the_law_that_its_ends_say(noise: Any) -> None:
    found = [_moments(noise, value) for value in range(noise.largest + 1)]
    np.testing.assert_allclose([one for one, _ in found], 1.0, rtol=1e-8)
    assert noise.variance == pytest.approx(max(square for _, square in found), rel=1e-7)
    inside, end, y = noise.mechanism, noise.largest, np.array([0.3, 1.0, 2.7, 6.0, 7.9])
    for value in (0, 1, 5):
        drawn = np.exp(inside.log_prob(y, value))
        fits = inside.cdf(end, value) - inside.cdf(0, value)
        images = sum(np.exp(inside.log_prob(2.0 * end * k + s * y, value)) for k in range(-9, 10) for s in (1, -1))
        wanted = {"redrawn": drawn / fits, "truncated": drawn, "reflected": images}[noise.ends]
        np.testing.assert_allclose(np.exp(noise.log_prob(y, value)), wanted, rtol=1e-10)
        beyond = [scipy.integrate.quad(lambda x: math.exp(noise.log_prob(x, value)), at, end)[0] for at in y]  # noqa: B023
        atom = inside.sf(end, value) if noise.ends == "truncated" else 0.0
        np.testing.assert_allclose(noise.sf(y, value), np.array(beyond) + atom, rtol=1e-7)
    sample = noise.sample(3, np.random.default_rng(2020), 5_000)
    assert ((sample >= 0.0) & (sample <= end)).all()
    assert max(abs(np.mean(sample <= x) - noise.cdf(x, 3)) for x in np.linspace(0.0, end, 33)) < 0.026
    assert np.isneginf(noise.log_prob([-0.1, end + 0.1], 0)).all()
    assert noise.log_peak >= np.max(noise.log_likelihood(np.linspace(0.001, end - 0.001, 400), 1.0))


@over(RANGED, "noise")
@pytest.mark.parametrize("shift", [1, 3])
def test_the_loss_within_a_range_is_that_of_the_worst_value(noise: Any, shift: int) -> None:
    """By cells: never below the largest of their profiles, and nowhere above it by what cells hide; cells of whole
    ends, and a smaller change never tells more."""
    cuts = np.linspace(0.0, noise.largest, 2001)[1:-1]
    first, last = np.append(-np.inf, cuts), np.append(cuts, np.inf)
    log_p = np.array([noise.log_between(first, last, float(value)) for value in range(noise.largest + 1)])
    loss = noise.privacy_loss(shift, 1)
    e = np.linspace(-0.95, 0.95, 11) * loss.maximum
    pairs = [np.exp(log_p[[v + shift, v]]) for v in range(noise.largest + 1 - shift)]
    wanted = np.max([[np.maximum(p - np.exp(x) * q, 0.0).sum() for x in e] for p, q in pairs], axis=0)
    found = loss.delta(e)
    assert (found >= wanted * (1.0 - 1e-11)).all()
    np.testing.assert_allclose(found, wanted, atol=5e-5)
    p, q = loss.tail(e)
    np.testing.assert_allclose(p - np.exp(e) * q, found, atol=1e-13)
    assert loss.swapped is loss
    assert (loss.above.delta(e) >= found * (1.0 - 1e-10) - 1e-14).all()
    assert (loss.below.delta(e) <= found * (1.0 + 1e-10) + 1e-14).all()
    smaller = noise.privacy_loss(max(1, shift - 1), 1).delta(e)
    assert (noise.contribution_loss(shift).delta(e) >= smaller - 1e-15).all()
    value = noise.largest // 2
    one = noise.pair_loss(value, value + shift)
    assert (one.delta(e) <= found + 1e-14).all()
    assert one.expect(np.ones_like) == pytest.approx((1.0, 1.0), rel=1e-13)
    assert one.swapped.expect(lambda z: z)[0] == pytest.approx(one.swapped.kl_divergence)
    for side in (one, one.swapped):
        assert side.log_moment(1.0) == pytest.approx(math.log(side.expect(np.exp)[0]), rel=1e-12)
        p, q = side.tail(e)
        np.testing.assert_allclose(side.delta(e), np.maximum(p - np.exp(e) * q, 0.0), atol=1e-13)


@pytest.mark.slow_cases("gaussian on a range, reflected", "wide gaussian on a range, reflected")
@over(RANGED, "noise")
def test_losses_within_a_range_add_up_between_certified_ends(noise: Any) -> None:
    """Two releases, by the laws of one above and below."""
    loss = noise.privacy_loss(2, 1)
    e = np.linspace(0.1, 0.9, 5) * loss.maximum
    low, high = (2 * loss).bracket.delta(e)
    nodes = np.linspace(-1.0, 1.0, 201) * loss.maximum
    laws = lattice_above(loss, nodes), lattice_below(loss, 0.5 * (nodes[1:] + nodes[:-1]))
    above, below = (convolve_lattices(law, law).delta(e) for law in laws)
    assert (low <= above * (1.0 + 1e-12)).all()
    assert (high >= below * (1.0 - 1e-12)).all()
    np.testing.assert_allclose(low, high, rtol=1e-4, atol=1e-6)


def test_a_range_of_any_two_answers_is_that_of_its_ends() -> None:
    noise = adv.RangedNoise(adv.Laplace(2.0), 4, "reflected", local=True)
    e = np.linspace(0.0, 2.0, 9)
    np.testing.assert_allclose(noise.report_loss().delta(e), noise.pair_loss(4, 0).delta(e), rtol=1e-12)
    np.testing.assert_allclose(noise.report_loss(1).delta(e), noise.privacy_loss(1, 1).delta(e), rtol=1e-12)
    with pytest.raises(TypeError, match="is not local"):
        adv.RangedNoise(adv.Laplace(2.0), 4).report_loss()


@over(MECHANISMS, "noise")
def test_sample_shapes(noise: adv.Mechanism) -> None:
    rng = np.random.default_rng(1)
    assert np.ndim(noise.sample(1, rng)) == 0
    assert np.shape(noise.sample(1, rng, 4)) == (4,)
    assert np.shape(noise.sample(np.array([0, 1]), rng)) == (2,)
    assert np.shape(noise.sample(np.array([0, 1]), rng, (5, 2))) == (5, 2)


@over(INTEGER, "noise")
def test_samples_of_a_vector_are_centred_on_each_value(noise: Any) -> None:
    values = np.array([0, 1_000_000_000])
    sample = noise.sample(values, np.random.default_rng(3), (2000, 2))
    spread = 6 * math.sqrt(noise.variance / 2000) + 1e-9
    assert abs(np.mean(sample[:, 0])) < spread
    assert abs(np.mean(sample[:, 1]) - 1e9) < spread


@over(MECHANISMS, "noise")
def test_log_ratio_is_the_difference_of_log_probabilities(noise: adv.Mechanism) -> None:
    answers = np.array([0, 1]) if isinstance(noise, LocalReport) else np.array([-4, 0, 1, 2, 9])
    if isinstance(noise, adv.Exact):
        np.testing.assert_array_equal(noise.log_ratio(answers, 1, 0), [np.nan, -np.inf, np.inf, np.nan, np.nan])
        return
    answers = noise.support(0)[:5] if isinstance(noise, Coarsened) else answers
    answers = answers[(noise.log_prob(answers, 1) > -np.inf) | (noise.log_prob(answers, 0) > -np.inf)]
    difference = noise.log_prob(answers, 1) - noise.log_prob(answers, 0)
    np.testing.assert_allclose(noise.log_ratio(answers, 1, 0), difference, rtol=1e-12, atol=1e-13)


@over(FINITE, "noise")
def test_support_leaves_out_at_most_its_stated_mass(noise: adv.Mechanism) -> None:
    support = noise.support(0)
    if isinstance(noise, IntegerNoise):
        assert noise.sf(support[-1], 0) < 1e-18
        assert noise.cdf(support[0] - 1, 0) < 1e-18
    step = support[1] - support[0] if isinstance(noise, Coarsened) and support.size > 1 else 1  # rounding has its base
    stands_for = getattr(noise, "below", np.nan) - 1.0  # "suppressed", for all numbers up to it
    assert np.all((np.diff(support) == step) | (support[1:] == stands_for))


# Tails


def _pmf(noise: Any) -> Any:
    """The noise's pmf in 40 digits; a sum's from a table wide enough for its tail points."""
    if isinstance(noise, adv.DiscreteGaussian):
        return lambda k: paths.discrete_gaussian_pmf(k, noise.rho(), 25)
    if isinstance(noise, adv.Geometric):
        return lambda k: paths.geometric_pmf(k, noise.epsilon)
    raise TypeError(noise)


@pytest.mark.slow_cases("discrete gaussian, very wide", "geometric, weak")
@pytest.mark.parametrize("name", [n for n, m in INTEGER.items() if isinstance(m, adv.DiscreteGaussian | adv.Geometric)])
def test_tails_have_relative_accuracy(name: str) -> None:
    noise: Any = INTEGER[name]
    pmf, points = _pmf(noise), tail_points(noise)
    if noise.variance > 1e6:
        points = points[-1:]
    for k in points:
        with mpmath.workdps(30):
            tail = mpmath.log(paths.upper_tail(pmf, k, 20))
            mass = mpmath.log(pmf(k))
        assert noise.log_prob(k, 0) == pytest.approx(float(mass), rel=1e-13, abs=1e-13)
        log_tail = float(noise.log_survival(np.array([k + 1]))[0])
        assert log_tail == pytest.approx(float(tail), rel=1e-13, abs=3e-13)
        if tail > -700:
            assert math.log(noise.sf(k, 0)) == pytest.approx(float(tail), rel=1e-12, abs=1e-12)
            assert math.log(noise.cdf(-k - 1, 0)) == pytest.approx(float(tail), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("rho", [1e-8, 3e-5, 6.25e-5, 1e-3, 0.1, 1.0, 3.2, 40.0, 1e3])
def test_discrete_gaussian_tail_beyond_one_standard_deviation(rho: float) -> None:
    """The tail just where the direct sum and the Euler and Maclaurin form meet, against a wide integral correction.

    P(Z > k) by Euler and Maclaurin in 40 digits with six corrections, or term by term where terms are few.
    """
    noise = DG(rho)
    for z in (0.0, 0.3, 1.0, 2.0, 5.0):
        k = math.ceil(z / math.sqrt(2 * rho))
        with mpmath.workdps(40):
            r = mpmath.mpf(rho)
            if rho < 1e-3:
                tail = mpmath.sumem(lambda j, r=r: mpmath.exp(-r * j * j), [k + 1, mpmath.inf], tol=1e-25)
            else:
                tail = mpmath.fsum(mpmath.exp(-r * j * j) for j in range(k + 1, k + 2 + int(12 / math.sqrt(rho))))
            log_tail = mpmath.log(tail) - mpmath.log(_theta(rho))
        assert float(noise.log_survival(np.array([k + 1]))[0]) == pytest.approx(float(log_tail), rel=1e-13, abs=1e-13)


def _theta(rho: float) -> Any:
    r = mpmath.mpf(rho)
    if rho < 1:
        waves = [2 * mpmath.exp(-(mpmath.pi**2) * k * k / r) for k in range(1, 6)]
        return mpmath.sqrt(mpmath.pi / r) * (1 + mpmath.fsum(waves))
    return 1 + 2 * mpmath.fsum(mpmath.exp(-r * k * k) for k in range(1, 14))


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.05, 0.25, 3.1, 3.2, 50.0, 1e3])
def test_discrete_gaussian_normaliser_on_both_sides_of_poisson_summation(rho: float) -> None:
    log_theta = float(mpmath.log(_theta(rho)))
    assert DG(rho).log_prob(0, 0) == pytest.approx(-log_theta, rel=1e-14, abs=1e-15)


# Sums


@pytest.mark.parametrize("count", [2, 3, 5, 28])
@pytest.mark.parametrize("rho", [0.05, RHO1, 0.3, 1.0, 2.0, 5.0, 30.0, 300.0, 1000.0])
def test_sum_of_discrete_gaussians_is_the_convolution(rho: float, count: int) -> None:
    reach = max(4, math.ceil(math.sqrt(150 / rho)))
    exact = paths.sum_table(paths.discrete_gaussian_table(rho, reach), count)
    total = DG(rho).total(count)
    k = np.arange(-count * reach // 3, count * reach // 3 + 1)
    wanted = exact[k + count * reach]
    np.testing.assert_allclose(total.log_prob(k, 0), wanted, rtol=1e-12, atol=1e-12)
    assert total.variance == pytest.approx(count * DG(rho).variance, rel=1e-12)
    chosen = k[(k >= 0) & (k <= count * reach // 4)][:: max(1, k.size // 40)]
    tails = [np.logaddexp.reduce(exact[j + 1 + count * reach :]) for j in chosen]
    deep = np.asarray(tails) > -700
    if not deep.any():
        assert total.sf(0, 0) == 0.0
        return
    np.testing.assert_allclose(np.log(total.sf(chosen[deep], 0)), np.asarray(tails)[deep], rtol=1e-11, atol=1e-11)


@pytest.mark.slow_cases("0.3-28")
@pytest.mark.parametrize("count", [2, 5, 28])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0])
def test_sum_of_geometrics_is_the_convolution(epsilon: float, count: int) -> None:
    reach = math.ceil(120 / epsilon) if epsilon > 0.5 else 240
    exact = paths.sum_table(paths.geometric_table(epsilon, reach), count)
    total = adv.Geometric(epsilon).total(count)
    k = np.arange(-reach // 2, reach // 2 + 1)
    np.testing.assert_allclose(total.log_prob(k, 0), exact[k + count * reach], rtol=1e-11, atol=1e-11)
    tail = np.logaddexp.reduce(exact[count * reach + 8 :])
    assert math.log(total.sf(7, 0)) == pytest.approx(tail, rel=1e-11)


def test_laplace_sum_is_the_convolution() -> None:
    noise, total = adv.Laplace(0.8), adv.Laplace(0.8).total(2)
    for x in (0.0, 0.7, 3.0):
        density = scipy.integrate.quad(
            lambda t, x=x: math.exp(noise.log_prob(t, 0) + noise.log_prob(x - t, 0)),
            -40,
            40,
            points=[0.0, x],
            limit=400,
        )[0]
        assert math.exp(total.log_prob(x, 0)) == pytest.approx(density, rel=1e-8)


def test_totals_of_totals_and_of_nothing() -> None:
    for noise in (DG(0.2), adv.Geometric(0.7), adv.Gaussian(1.5), adv.Laplace(0.8)):
        assert isinstance(noise.total(0), adv.Exact)
        assert noise.total(1) == noise
        k = np.arange(-6, 7)
        np.testing.assert_allclose(noise.total(2).total(3).log_prob(k, 0), noise.total(6).log_prob(k, 0), rtol=1e-13)
    assert isinstance(adv.Exact().total(5), adv.Exact)
    assert isinstance(adv.RandomizedResponse(1.0).total(0), adv.Exact)
    with pytest.raises(ValueError, match="2 releases"):
        adv.RandomizedResponse(1.0).total(2)


# Parameters


def test_from_rho_keeps_a_fraction() -> None:
    noise = DG(Fraction(64, 25) * Fraction(165, 4099) * Fraction(3945, 4097))
    assert noise.sigma2 == Fraction(16793603, 2 * 1666368)
    assert DG(Fraction(1, 7), sensitivity=3, cells=2).sigma2 == Fraction(63)
    assert adv.DiscreteGaussian(Fraction(3, 2)).sigma2 == Fraction(9, 4)
    assert noise.total(27).total(1).single.sigma2 == noise.sigma2
    assert isinstance(adv.DiscreteGaussian(2).sigma2, Fraction)


@pytest.mark.parametrize(("sensitivity", "cells"), [(1, 1), (1, 2), (3, 1), (2, 2)])
@pytest.mark.parametrize("rho", [1e-8, 0.1, 1e3])
def test_the_whole_change_costs_rho(rho: float, sensitivity: int, cells: int) -> None:
    """sigma^2 = cells sensitivity^2 / (2 rho); the Renyi divergence of whole order is then order times rho."""
    noise = DG(rho, sensitivity, cells)
    assert float(noise.sigma2 or 0) == pytest.approx(cells * sensitivity**2 / (2 * rho), rel=1e-14)
    if rho <= 0.1 and (rho > 1e-4 or cells == 1):
        assert noise.privacy_loss(sensitivity, cells).renyi(2.0) == pytest.approx(2 * rho, rel=1e-6)
    assert adv.Gaussian.from_rho(rho, sensitivity, cells).sigma ** 2 == pytest.approx(
        cells * sensitivity**2 / (2 * rho), rel=1e-14
    )


CALIBRATED: dict[str, Callable[[int, int], adv.Mechanism]] = {
    "discrete gaussian": lambda sensitivity, cells: DG(0.3, sensitivity, cells),
    "gaussian": lambda sensitivity, cells: adv.Gaussian.from_rho(0.3, sensitivity, cells),
    "geometric": lambda sensitivity, cells: adv.Geometric.from_epsilon(1.0, sensitivity, cells),
    "laplace": lambda sensitivity, cells: adv.Laplace.from_epsilon(1.0, sensitivity, cells),
}


def _cost(loss: Any) -> float:
    """rho of Gaussian losses, epsilon of bounded ones."""
    return float(loss.maximum if math.isfinite(loss.maximum) else loss.renyi(2.0) / 2.0)


@pytest.mark.parametrize(("sensitivity", "cells"), [(1, 1), (1, 2), (3, 1), (2, 2)])
@pytest.mark.parametrize("make", CALIBRATED.values(), ids=CALIBRATED.keys())
def test_noise_is_asked_about_what_it_was_calibrated_for(make: Any, sensitivity: int, cells: int) -> None:
    noise = make(sensitivity, cells)
    spent = 0.3 if noise.privacy_loss().maximum == math.inf else 1.0
    assert (noise.sensitivity, noise.cells) == noise.calibration == (sensitivity, cells)
    assert _cost(noise.privacy_loss()) == pytest.approx(spent, rel=1e-12)
    assert _cost(noise.privacy_loss(sensitivity, cells)) == pytest.approx(spent, rel=1e-12)
    one = _cost(noise.privacy_loss(1, 1))
    assert _cost(noise.privacy_loss(sensitivity=1)) == pytest.approx(cells * one, rel=1e-12)
    assert _cost(noise.privacy_loss(cells=1)) == pytest.approx(_cost(noise.privacy_loss(sensitivity, 1)), rel=1e-14)


@pytest.mark.parametrize("make", CALIBRATED.values(), ids=CALIBRATED.keys())
def test_calibration_stays_with_noise_that_is_added_up_wrapped_or_copied(make: Any) -> None:
    noise = make(2, 2)
    inside = adv.postprocessing.rounded(adv.postprocessing.clamped(noise), 5)
    pickled = pickle.loads(pickle.dumps(noise))
    total = noise.total(3)
    for one in (
        noise.total(1),
        total,
        total.total(2),
        noise.scaled(2.0),
        total.scaled(2.0),
        inside,
        inside.scaled(2.0),
        pickled,
    ):
        assert one.calibration == (2, 2)
    assert _cost(inside.privacy_loss()) == _cost(noise.privacy_loss())
    assert pickled == noise == make(2, 2) != make(1, 1)
    assert hash(pickled) == hash(noise)
    assert repr(noise).endswith(", sensitivity=2, cells=2)")
    assert "cells" not in repr(make(1, 1))


@pytest.mark.parametrize("make", CALIBRATED.values(), ids=CALIBRATED.keys())
@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
def test_calibration_changes_nothing_a_plan_or_a_reader_says(make: Any, neighbours: str) -> None:
    calibrated = make(2, 2)
    plain = replace(calibrated, sensitivity=1, cells=1)
    unit = adv.PrivacyUnit(contribution=1, neighbours=neighbours)
    one, other = (adv.Plan([adv.Level("block", noise)], privacy_unit=unit) for noise in (calibrated, plain))
    reader, e = adv.Adversary(0.3, known=1), np.linspace(-1.0, 2.0, 7)
    for loss in (adv.Plan.privacy_loss, adv.Plan.unit_loss, reader.privacy_loss):
        np.testing.assert_array_equal(loss(one).delta(e), loss(other).delta(e))
    found, wanted = (adv.audit(plan, reader, {"block": 2, "in": 1}, rng=0)["risk"] for plan in (one, other))
    assert found.to_dataset().equals(wanted.to_dataset())
    assert calibrated.nominal_guarantee == plain.nominal_guarantee
    assert budget.attained_risk(calibrated, 0.3, 0.7) == budget.attained_risk(plain, 0.3, 0.7)


@pytest.mark.parametrize("noise", [adv.RandomizedResponse(1.0), adv.Exact(), MECHANISMS["tulap"]])
def test_noise_without_a_calibration_is_asked_about_one_count_moved_by_one(noise: adv.Mechanism) -> None:
    assert noise.calibration == (1, 1)
    assert noise.privacy_loss().delta(0.5) == noise.privacy_loss(1, 1).delta(0.5)
    assert noise.privacy_loss(1, 0).is_nothing


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 29.0, 31.0, 100.0, 690.0, 7e3, 1e5])
def test_averages_over_laplace_noise_hold_however_little_there_is(epsilon: float) -> None:
    loss = adv.Laplace.from_epsilon(epsilon).privacy_loss()
    assert loss.kl_divergence == pytest.approx(epsilon + math.expm1(-epsilon), rel=1e-9)
    np.testing.assert_allclose(loss.expect(np.ones_like), (1.0, 1.0), rtol=1e-14)
    if epsilon >= 100.0:
        assert loss.posterior(0.5).mean("in") == pytest.approx(1.0, rel=1e-14)
        assert mutual_information(loss, 0.5) == pytest.approx(math.log(2.0), rel=1e-14)


def test_randomized_response_of_many_categories_costs_what_its_epsilon_says() -> None:
    """No square of categories is made anywhere: ten billion answers would not fit."""
    noise = adv.RandomizedResponse(14.0, 10**5)
    assert noise.privacy_loss().epsilon(0.0) == 14.0
    assert noise.variance == pytest.approx(10.0**15 / 6.0 / (10.0**5 - 1.0 + math.exp(14.0)), rel=1e-9)
    plan = adv.Plan([adv.Level("report", noise)], neighbours="bounded")
    risk = adv.audit(plan, adv.Adversary(0.5), {"report": 1}, guarantee=adv.PureDP(14.0))["risk"]
    lie = 1.0 / (10.0**5 - 1.0 + math.exp(14.0))
    sure = 1.0 / (1.0 + math.exp(-14.0))
    truth = math.exp(14.0) * lie
    assert float(risk.posterior_mean) == pytest.approx(truth * sure + lie * (1.0 - sure) + 0.5 * (1.0 - truth - lie))


def test_several_reports_of_one_unit_share_its_epsilon() -> None:
    each = adv.RandomizedResponse.from_parameter("epsilon", 3.0, 1, 4, categories=9)
    assert each == adv.RandomizedResponse(0.75, 9)
    unit = adv.PrivacyUnit("report", cells=4, neighbours="bounded")
    plan = adv.Plan([adv.Level("answer", each)], privacy_unit=unit)
    assert plan.unit_loss().epsilon(0.0) == pytest.approx(3.0)
    assert plan.total_rho == pytest.approx(4.0 * each.rho())


@pytest.mark.parametrize("categories", [2, 7])
@pytest.mark.parametrize("epsilon", [1e-10, 36.0, 800.0, 1e5])
def test_randomized_response_tells_the_truth_however_often(epsilon: float, categories: int) -> None:
    noise, rng = adv.RandomizedResponse(epsilon, categories), np.random.default_rng(0)
    lies = (categories - 1) * mpmath.exp(-mpmath.mpf(epsilon))
    assert noise.log_prob(0, 0) == pytest.approx(float(-mpmath.log1p(lies)), rel=1e-14, abs=0.0)
    assert noise.log_prob(1, 0) == pytest.approx(float(-mpmath.log1p(lies) - epsilon), rel=1e-14)
    assert noise.privacy_loss().maximum == pytest.approx(epsilon, rel=1e-5)
    if epsilon >= 36.0:
        assert noise.sample([0, 1, 0], rng).tolist() == [0, 1, 0]


EXTREME: dict[str, adv.Mechanism] = {
    **{f"geometric {e:g}": adv.Geometric(e) for e in (1e-10, 1e-3, 30.0, 800.0, 1e5)},
    **{f"laplace {e:g}": adv.Laplace.from_epsilon(e) for e in (1e-10, 1e-3, 30.0, 800.0, 1e5)},
    **{f"staircase {e:g}": adv.Staircase(e) for e in (1e-10, 1e-3, 30.0, 800.0, 1e5)},
    **{
        f"staircase {e:g}, three wide": adv.Staircase(e, g, sensitivity=3)
        for e in (1e-3, 800.0)
        for g in (0.0, 0.5, 1.0)
    },
    **{f"randomized response {e:g}": adv.RandomizedResponse(e, 3) for e in (1e-10, 30.0, 800.0, 1e5)},
    **{f"tulap {e:g}": Tulap(e) for e in (1e-10, 1e-3, 30.0, 800.0, 1e5)},
    **{f"tulap {e:g}, {d:g}": Tulap(e, d) for e in (1e-3, 800.0, 1e5) for d in (1e-300, 1e-6)},
    **{f"geometric {e:g}, sum": adv.Geometric(e).total(3) for e in (1e-2, 30.0, 800.0, 1e5)},
    **{f"discrete gaussian {rho:g}": DG(rho) for rho in (1e-6, 30.0, 1e3)},
    **{f"discrete gaussian {rho:g}, sum": DG(rho).total(3) for rho in (1e-4, 30.0, 1e3)},
    **{f"gaussian {rho:g}": adv.Gaussian.from_rho(rho) for rho in (1e-8, 1e3)},
    "clamped": adv.postprocessing.clamped(adv.Geometric(1e5)),
    "rounded": adv.postprocessing.rounded(adv.Laplace.from_epsilon(1e-3), 5),
}
"""From noise that hides all to noise that hides nothing."""


@over(EXTREME, "noise")
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_extreme_noise_answers_with_numbers_of_the_shape_asked_for(noise: Any, shape: tuple[int, ...]) -> None:
    far = 0 if isinstance(noise, adv.RandomizedResponse) else 10**9
    release = np.resize([0, far, 0], shape)
    for value in (0, 1):
        for answer in (noise.log_prob(release, value), noise.cdf(release, value), noise.sf(release, value)):
            assert np.shape(answer) == shape
            assert not np.isnan(answer).any()
        total = np.asarray(noise.cdf(release, value)) + noise.sf(release, value)
        np.testing.assert_allclose(total, np.ones(shape), rtol=1e-12)
    drawn = noise.sample(np.zeros(shape, dtype=int), np.random.default_rng(0))
    assert np.shape(drawn) == shape
    assert np.isfinite(drawn).all()


@over({name: noise for name, noise in EXTREME.items() if "1e-10" not in name}, "noise")
def test_extreme_noise_has_a_variance_and_a_loss(noise: Any) -> None:
    assert 0.0 <= noise.variance < math.inf
    assert noise.rho() >= 0.0  # infinite for want of a theorem under approximate DP
    loss = noise.privacy_loss()
    ends = np.array([0.0, 1e-300, 0.5, 1.0 - 1e-16, 1.0])
    answers = [loss.delta([-1.0, 0.0, 1.0, 1e5]), *loss.tail([-1.0, 0.0, 1e5]), loss.power(ends), loss.level(ends)]
    answers += [loss.posterior(ends).mean("in"), loss.posterior(ends).mean("out"), loss.advantage, loss.auc]
    for answer in answers:
        assert ((np.asarray(answer) >= 0.0) & (np.asarray(answer) <= 1.0 + 1e-12)).all()
    assert loss.kl_divergence >= 0.0


@pytest.mark.parametrize("sensitivity", [1, 3, 100])
@pytest.mark.parametrize("sigma", [1e-8, 1e-3, 0.01, 0.3])
def test_noise_too_narrow_to_hide_anything_has_a_loss_all_the_same(sigma: float, sensitivity: int) -> None:
    """One release and three: a loss of rho on average, and no mass lost under either hypothesis."""
    for copies in (1, 3):
        loss = adv.DiscreteGaussian(sigma).privacy_loss(sensitivity, copies)
        rho = copies * sensitivity**2 / (2 * sigma**2)
        np.testing.assert_allclose(loss.expect(np.ones_like), (1.0, 1.0), rtol=1e-12)
        np.testing.assert_allclose(loss.expect(lambda z: z), (rho, -rho), rtol=1e-9)
        if rho > 1000.0:
            assert loss.delta(0.1 * rho) == 1.0
            assert loss.posterior(0.5).mean("in") == 1.0
            assert np.isfinite(loss.pbdp_epsilon([0.1, 1e-300])).all()


# Noise of statistical offices


OFFICES = {name: noise for name, noise in MECHANISMS.items() if isinstance(noise, PerturbedCount)}


@over(OFFICES, "noise")
@pytest.mark.parametrize("shift", [1, 2, 7])
def test_the_loss_of_office_noise_is_that_of_the_worst_count(noise: PerturbedCount, shift: int) -> None:
    """No delta of any count is above it, and at every epsilon some count attains it; infinite masses included."""
    loss, epsilon = noise.privacy_loss(shift), np.linspace(-3.0, 3.0, 121)
    release, counts = np.arange(-5, 40), np.arange(min(20, noise.largest_count - shift + 1)).astype(int)
    if math.isfinite(noise.largest_count):
        counts = np.arange(int(noise.largest_count) - shift + 1)
    more, less = (np.exp(noise.log_prob(release[:, None], counts + moved)) for moved in (shift, 0))
    for one, p, q in ((loss, more, less), (loss.swapped, less, more)):
        deltas = np.maximum(p[:, None] - np.exp(epsilon)[:, None] * q[:, None], 0.0).sum(0)
        np.testing.assert_allclose(one.delta(epsilon), deltas.max(axis=1), atol=1e-13)
        assert one.delta(700.0) == pytest.approx((p * (q == 0.0)).sum(0).max(), abs=1e-13)
    assert noise.privacy_loss(shift, 2).delta(1.0) == pytest.approx((loss + loss).delta(1.0), rel=1e-12)
    low, high = loss.bracket.of_delta(epsilon)
    assert (low <= loss.delta(epsilon)).all()
    assert (loss.delta(epsilon) <= high).all()


def test_random_rounding_keeps_the_mean_and_moves_by_less_than_its_base() -> None:
    for base in (2, 3, 5, 10):
        noise = adv.RandomRounding(base)
        for value in range(3 * base):
            release, mass = noise.releases(value)
            assert release @ mass == pytest.approx(value, abs=1e-12)
            assert (np.abs(release - value) < base).all()
            assert (release % base == 0).all()


@pytest.mark.parametrize("inside", [adv.Laplace(1.5), adv.Gaussian(2.0)], ids=["laplace", "gaussian"])
def test_continuous_noise_below_a_threshold_is_one_release(inside: adv.Mechanism) -> None:
    noise = adv.postprocessing.suppressed(inside, 4)
    release = np.array([2.5, 3.0, 3.5, 4.0, 6.25])
    wanted = [-np.inf, math.log(inside.cdf(4.0, 5)), -np.inf, inside.log_prob(4.0, 5), inside.log_prob(6.25, 5)]
    np.testing.assert_allclose(noise.log_prob(release, 5), wanted, rtol=1e-12)
    drawn = noise.sample(5, np.random.default_rng(1), 20_000)
    assert np.mean(drawn == 3.0) == pytest.approx(inside.cdf(4.0, 5), abs=0.01)
    assert not ((drawn < 4.0) & (drawn != 3.0)).any()


# Bad input: the message holds the name, the rule and the value


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: DG(0.0), r"rho must be positive.*got 0\.0"),
    (lambda: DG(1e-308), r"rho must be between 5e-301 and 5e\+299, for a sigma from 1e-150 to 1e150, got 1e-308"),
    (lambda: adv.Gaussian.from_rho(1e308, 1, 2), r"rho must be between 1e-300 and 1e\+300, .* got 1e\+308"),
    (lambda: DG("0.1"), "rho must be a number.*'0.1'", TypeError),  # type: ignore[arg-type]
    (lambda: DG(0.1, [1, 2]), r"sensitivity must be one number, got \[1, 2\]", TypeError),  # type: ignore[arg-type]
    (lambda: DG(0.1, 1.5).privacy_loss(), r"sensitivity must be a whole number.*1\.5"),
    (lambda: adv.DiscreteGaussian(2.0, 5.0), "sigma2 must be sigma squared.*5"),
    (lambda: DG(0.1).log_prob(1.5, 0), r"release must be a whole number.*1\.5"),
    (lambda: DG(0.1).sf(math.inf, 0), "release must be a whole number.*inf"),
    (lambda: adv.Geometric(1e-10).total(3).sf(3, 0), "spread a release over at most 10,000,000 values"),
    (lambda: adv.Gaussian(1.0).support(0), "Gaussian noise is continuous", TypeError),
    (lambda: DG(TINY), r"rho must be positive and finite, got 0\.0"),
    (lambda: adv.Gaussian(10**400), "sigma must be positive and finite, got inf"),
    (lambda: adv.Gaussian(1e-200), "sigma must be between 1e-150 and 1e150.*got 1e-200"),
    (lambda: adv.RandomizedResponse(1.0).log_prob(2, 0), "release must be below categories = 2, got 2"),
    (lambda: adv.RandomRounding(1), "base must be at least 2, got 1"),
    (lambda: adv.RandomRounding(3).log_prob(3, -1), "value must be at least 0, got -1"),
    (lambda: adv.RandomRounding(3).total(2), "count must be at most 1, got 2"),
    (lambda: adv.PerturbationTable([[0.5, 0.4]]), "add up to 1 in every row, got 0.9 in"),
    (lambda: adv.PerturbationTable([[1.0], [0.5, 0.5]]), r"rows of one length, got \[1, 2\]"),
    (lambda: adv.PerturbationTable.from_columns([0, 2], [0, 2], [1, 1]), r"gaps, missing \[1\]"),
    (lambda: adv.RangedNoise(adv.Laplace(1.0), 0), "largest must be at least 1, got 0"),
    (lambda: adv.RangedNoise(adv.Laplace(1.0), 4000), "largest must be at most 3,000, got 4,000"),
    (lambda: adv.RangedNoise(adv.Laplace(1.0), 4, "wrapped"), "ends must be one of redrawn, .*'wrapped'"),
    (lambda: adv.RangedNoise(adv.Geometric(1.0), 4), "Laplace or Gaussian noise.*on_range", TypeError),
    (lambda: adv.RangedNoise(adv.Laplace(1.0), 4, local=1), "local must be True or False, got 1", TypeError),  # type: ignore[arg-type]
    (lambda: adv.RangedNoise(adv.Laplace(1.0), 4).log_prob(2.0, 5), "value must be at most 4, .*got 5"),
    (lambda: adv.RangedNoise(adv.Laplace(1.0), 4).log_prob(np.inf, 1), "release must be finite, got inf"),
    (lambda: adv.RangedNoise(adv.Laplace(1.0), 4).privacy_loss(5), "sensitivity must be at most 4, .*got 5"),
    (lambda: adv.RangedNoise(adv.Laplace(1.0), 4).total(2), "count must be at most 1, got 2"),
    (lambda: adv.Exact().log_prob(0.5, 0), r"release must be a whole number.*0\.5"),
)


# Budgets


ENDS: dict[str, adv.Mechanism] = {
    f"{make.__name__}({size:g})": make(size)
    for make in (adv.Gaussian, adv.Laplace, adv.DiscreteGaussian, adv.Geometric, adv.RandomizedResponse, adv.Staircase)
    for size in (1e-150, 1e150)
}


@over(ENDS, "noise")
def test_noise_at_the_ends_of_what_may_be_made_has_a_budget_and_probabilities(noise: adv.Mechanism) -> None:
    assert 0.0 < noise.rho() < math.inf
    assert noise.variance >= 0.0
    assert not np.isnan(noise.log_prob([0, 1], 0)).any()


SCALED = {
    **MECHANISMS,
    "geometric, sum of 2 weak": adv.Geometric(1e-10).total(2),
    "laplace, wide": adv.Laplace(1e10),
    "gaussian, needle": adv.Gaussian(1e-5),
    "canonical, pure": CanonicalNoise(adv.PureDP(0.7)),
    "canonical, gaussian": CanonicalNoise(adv.GaussianDP(0.7)),
    "tulap, approximate": Tulap(0.5, 1e-3),
}


@over(SCALED, "noise")
@pytest.mark.parametrize("factor", [1e-6, 0.25, 1.0, 3.0, 100.0])
def test_scaling_multiplies_the_budget_and_keeps_the_kind(noise: adv.Mechanism, factor: float) -> None:
    found = noise.scaled(factor)
    assert type(found) is type(noise)
    single = noise.summands[0]
    if single.parabola:
        assert found.rho() == pytest.approx(factor * noise.rho(), rel=1e-12) or not noise.parabola or not found.parabola
    if factor == 1.0:
        assert found.rho() == pytest.approx(noise.rho(), rel=1e-12)
        assert found.variance == pytest.approx(noise.variance, rel=1e-12)
    elif not (noise.noise.is_exact or isinstance(noise.noise, PerturbedCount)):  # which have no budget
        assert found != noise


@over({name: m for name, m in SCALED.items() if type(m) in (adv.Gaussian, adv.Laplace, LaplaceSum)}, "noise")
def test_scaling_divides_the_variance_of_a_stretched_law(noise: adv.Mechanism) -> None:
    for factor in (0.25, 1.0, 100.0):
        assert noise.scaled(factor).variance == pytest.approx(noise.variance / factor, rel=1e-12)


@pytest.mark.parametrize("count", [1, 2, 7, 60])
@pytest.mark.parametrize("nats", [1.0, 40.0, 700.0])
def test_the_reach_of_a_sum_of_laplaces_is_just_beyond_where_its_density_has_fallen(count: int, nats: float) -> None:
    noise = LaplaceSum(adv.Laplace(3.0), count)
    at = float(noise.log_noise(np.array(noise.tail_radius(nats)))) - float(noise.log_noise(np.zeros(())))
    assert -nats * (1.0 + 1e-3) <= at <= -nats * (1.0 - 1e-12)


def test_a_budget_is_scaled_by_a_positive_number_only() -> None:
    for noise in (*SCALED.values(), adv.Exact()):
        for factor in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match="factor must be positive and finite"):
                noise.scaled(factor)


def test_noise_without_a_budget_to_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="no budget to scale"):
        CanonicalNoise(adv.PureDP(1.0).group(2)).scaled(2.0)


ORDERS = 1.0 + np.geomspace(1e-4, 1e4, 60)


@over(MECHANISMS, "noise")
@pytest.mark.parametrize("change", [1, 2, 7])
def test_rho_of_a_change_is_the_largest_divergence_over_its_order(noise: adv.Mechanism, change: int) -> None:
    """Bun and Steinke 2016, Definition 1.1: never too small, and the least where the mechanism is not wrapped."""
    rho = noise.rho(change)
    assert noise.rho(0) == 0.0
    try:
        loss = noise.privacy_loss(change, 1)
    except NotImplementedError:
        assert rho == noise.summands[0].rho(change)
        return
    if not np.isfinite(rho):
        assert not np.isfinite(loss.maximum)
        return
    largest = max(side.renyi(float(order)) / order for side in loss.directions for order in ORDERS)
    assert largest <= rho * (1.0 + 1e-8)  # of a list joined from above, to the last digits of its masses
    if isinstance(noise, adv.Gaussian | adv.DiscreteGaussian | adv.Laplace | adv.Geometric | adv.RandomizedResponse):
        assert rho <= largest * 1.001
    elif isinstance(noise, adv.Staircase):
        assert rho <= largest * 1.005
    if change == 1:
        assert noise.rho() == rho


@pytest.mark.parametrize(
    ("noise", "change", "expected"),
    [
        (adv.Laplace(1.0), 1, 0.367879),
        (adv.Laplace(1.0), 10, 9.0000454),
        (adv.Laplace(0.1), 1, 9.0000454),
        (adv.Laplace(1e6), 1, 5e-13),
        (adv.Geometric(1.0), 1, 0.462117),
        (adv.Geometric(10.0), 1, 9.999092),
        (adv.RandomizedResponse(1.0), 1, 0.462117),
        (adv.RandomizedResponse(10.0), 1, 9.999092),
        (adv.Gaussian(2.0), 3, 9 / 8),
        (adv.DiscreteGaussian(2.0), 3, 9 / 8),
    ],
    ids=str,
)
def test_rho_by_its_formula(noise: adv.Mechanism, change: int, expected: float) -> None:
    assert noise.rho(change) == pytest.approx(expected, rel=2e-6)
