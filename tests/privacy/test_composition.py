"""Certified composition through the public interface: brackets against slow twins, laws of the algebra, refusals.

The slow twins (`tests/oracles/composition.py`) add up whole numbers to 40 digits, or positive doubles to about 1e-13.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction as F
from typing import Any

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

import adversary as adv
from adversary.privacy.losses.analytic import GaussianLoss, LaplaceLoss
from adversary.privacy.losses.composition import ComposedLoss, DiscreteGaussianLoss, compose_losses, repeat_loss
from adversary.privacy.losses.contour import certified_composition, contour_sum
from adversary.privacy.losses.lattice import LatticeLoss
from adversary.privacy.losses.mixed import MixedLoss
from tests.oracles import composition
from tests.oracles.composition import COARSE_SCALES, Family
from tests.tables import refusals

NOTHING = {"composed([])": compose_losses([]), "exact, no change": adv.Exact().privacy_loss(0), "zero times": 0}

MIXTURES: dict[str, list[Family]] = {
    "one": [Family(F(1, 2))],
    "one, shift 3": [Family(F(1, 5), 3)],
    "two alike": [Family(F(1), 1, 2)],
    "forty alike": [Family(F(5, 2), 1, 40)],
    "shifts": [Family(F(1, 2), 2, 3), Family(F(5), 1, 1), Family(F(3, 10), 3, 2)],
    "coarse": [Family(F(6), 1, 4), Family(F(7, 2), 1, 3)],
    "few coarse scales": COARSE_SCALES,
    "many scales": [Family(F(1, 30 + j), 1, 4) for j in range(12)],
}


def loss_of(families: Sequence[Family]) -> Any:
    """Composed with `sum` and `n *`; sigma^2 = 1 / v exactly."""
    return sum(
        family.count * adv.DiscreteGaussian.from_rho(family.v / 2).privacy_loss(family.shift) for family in families
    )


@functools.cache
def example(name: str) -> Any:
    return loss_of(MIXTURES[name])


def over_mixtures(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", names or MIXTURES)


def assert_inside(lower: float, exact: Any, upper: float, where: Any) -> None:
    """lower <= exact <= upper, up to one last digit; a law without a width is one double, right to 1e-12 of itself."""
    room = (1e-12 if lower == upper else 2.0**-52) * float(exact)
    assert mpmath.mpf(lower) - room <= exact <= mpmath.mpf(upper) + room, (where, lower, float(exact), upper)


def points(rng: np.random.Generator, rho: float) -> list[float]:
    """Epsilons below zero, at zero, in the middle and far out."""
    spread = math.sqrt(2 * rho)
    middle = rho + spread * rng.uniform(-2, 2, 2)
    far = rho + spread * rng.uniform(2, 9, 2)
    return [0.0, -rng.uniform(0, 2), -spread * abs(rng.normal()), rho * rng.uniform(), *middle, *far]


def small_families(rng: np.random.Generator, denominators: int = 12) -> list[Family]:
    """One to three families of a few counts, v from 0.02 to 9, whose sums of noises can be listed to 40 digits."""
    while True:
        families = []
        for _ in range(rng.integers(1, 4)):
            denominator = int(rng.integers(1, denominators + 1))
            v = F(max(int(denominator * math.exp(rng.uniform(math.log(0.02), math.log(9.0)))), 1), denominator)
            families.append(Family(v, int(rng.choice([1, 1, 2, 3])), int(rng.integers(1, 5))))
        listed = math.prod(60 * math.sqrt(family.count / family.v) for family in families)
        if composition.total_rho(families) <= 80 and listed < 20_000:
            return families


def large_families(rng: np.random.Generator) -> list[Family]:
    """One to five families of up to twenty counts, v from 0.001 to 9, shifts 1 to 3."""
    while True:
        families = []
        for _ in range(rng.integers(1, 6)):
            v = math.exp(rng.uniform(math.log(1e-3), math.log(9.0)))
            denominator = int(rng.choice([1, 2, 5, 7, 12])) if v > 0.5 else 1000
            scale = F(max(round(v * denominator), 1), denominator)
            families.append(Family(scale, int(rng.choice([1, 1, 1, 2, 3])), int(rng.integers(1, 21))))
        if composition.total_rho(families) <= 80:
            return families


def incommensurable_families(rng: np.random.Generator) -> list[Family]:
    """Two to four families whose v, from 0.001 to 0.1, are drawn as doubles and share no lattice."""
    scales = np.exp(rng.uniform(math.log(1e-3), math.log(0.1), rng.integers(2, 5)))
    return [Family(F(v), int(rng.choice([1, 1, 1, 2, 3])), int(rng.integers(1, 21))) for v in scales.tolist()]


# Certificates


@pytest.mark.parametrize("seed", range(8))
def test_bracket_of_delta_contains_forty_digits(seed: int) -> None:
    """Every fourth time on finer, less convenient lattices."""
    rng = np.random.default_rng(seed)
    for _ in range(20 if seed % 4 else 5):
        families = small_families(rng, 12 if seed % 4 else 200)
        law, epsilon = composition.exact_law(families), points(rng, float(composition.total_rho(families)))
        lower, upper = loss_of(families).bracket.delta(np.array(epsilon))
        for e, low, high in zip(epsilon, lower, upper, strict=True):
            assert_inside(low, law.delta(e), high, (families, e))
            last_digits = 2.0**-48 * abs(e) * float(law.tail(e)[0])  # next to a loss on a coarse lattice they count
            assert high - low <= 1e-11 * float(law.delta(e)) + last_digits, (families, e)


@pytest.mark.parametrize(
    "families",
    [
        [Family(F(8), 3, 2)],
        [Family(F(3), 2, 6)],
        [Family(F(9), 1, 8)],
        [Family(F(5, 2), 1, 40)],
        [Family(F(6), 1, 4), Family(F(7, 2), 1, 3)],
    ],
    ids=str,
)
def test_certificates_of_the_smallest_deltas_leave_room_for_rounding(families: list[Family]) -> None:
    """On coarse lattices nothing is left out, and the certificate is its allowance for rounding and little else."""
    law, rho = composition.exact_law(families), float(composition.total_rho(families))
    epsilon = rho + 2.0 * np.sqrt(rho * math.log(10.0) * np.array([3.0, 8.0, 20.0, 35.0, 60.0, 90.0, 120.0])) + 0.123
    parts = [certified_composition.Family(family.v, family.shift, family.count) for family in families]
    found = certified_composition.compose_by_contour(certified_composition.normal_form(parts))
    assert found is not None
    lower, upper = found.delta(epsilon)
    for e, low, high in zip(epsilon, lower, upper, strict=True):
        exact = law.far_delta(e)
        assert mpmath.mpf(low) <= exact <= mpmath.mpf(high), (e, low, float(exact), high)
        assert high - low <= 1e-9 * float(exact), e
    assert float(exact) < 1e-100


@pytest.mark.parametrize("seed", range(100, 104))
def test_bracket_of_power_contains_forty_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(8):
        families = small_families(rng)
        law, levels = composition.exact_law(families), np.append(10.0 ** rng.uniform(-8, 0, 3), 0.05)
        lower, upper = loss_of(families).bracket.power(levels)
        for level, low, high in zip(levels, lower, upper, strict=True):
            assert_inside(low, law.power(float(level)), high, (families, level))
            assert high - low <= 1e-10 * float(law.power(float(level))), (families, level)


def assert_contains_positive_sums(families: list[Family], epsilon: Any, goal: float) -> bool:
    """The twin's sums are right to 3e-13 or so; False where they are too long to write down."""
    try:
        expected = composition.positive_delta(families, epsilon)
    except ValueError:
        return False
    lower, upper = loss_of(families).bracket.delta(np.array(epsilon))
    assert np.all(lower <= expected * (1 + 3e-13)), families
    assert np.all(upper >= expected * (1 - 3e-13)), families
    assert np.all(upper - lower <= goal * expected), families
    return True


@pytest.mark.parametrize(
    ("families_of", "many", "goal", "seed"),
    [
        *((large_families, 8, 1e-11, seed) for seed in range(200, 204)),
        *((incommensurable_families, 2, 3e-10, seed) for seed in range(300, 303)),  # without a lattice
    ],
)
def test_bracket_of_large_mixtures_contains_positive_sums(families_of: Any, many: int, goal: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    while many > 0:
        families = families_of(rng)
        many -= assert_contains_positive_sums(families, points(rng, float(composition.total_rho(families))), goal)


@pytest.mark.parametrize(
    "scales",
    [
        [(math.sqrt(2), 1, 4), (1 / math.sqrt(3), 1, 4)],
        [(math.pi, 1, 3), (9, 1, 1)],
    ],
)
def test_bracket_of_few_coarse_scales_without_a_lattice_contains_positive_sums(scales: Any) -> None:
    """Their revivals never end: only sums over atoms are narrow."""
    families = [Family(F(v), shift, count) for v, shift, count in scales]
    rho = float(composition.total_rho(families))
    assert assert_contains_positive_sums(families, [-1.0, 0.0, 0.5 * rho, rho, 2 * rho, 4 * rho], 1e-10)


def test_bracket_beside_one_that_tells_nearly_all_contains_positive_sums() -> None:
    """A contour through all three takes millions of nodes, as its period is long, and its bracket was too wide."""
    families = [Family(F(1, 10), 2, 2), Family(F(40), 2, 2), Family(F(4224, 20495), 2, 2)]
    assert assert_contains_positive_sums(families, [100.0, 160.0, 165.0, 180.0], 1e-10)


def test_gaussian_noise_that_tells_hardly_anything_is_mixed_with_the_atoms_of_the_rest() -> None:
    mu, x = math.sqrt(2e-9), np.arange(-60.0, 61.0)
    loss = adv.DiscreteGaussian(math.sqrt(2.0)).privacy_loss(2) + GaussianLoss(mu)
    weight = np.exp(-x * x / 4.0)
    epsilon = np.array([0.0, 1.0, 3.0, 9.0, 20.0])
    each = [weight * GaussianLoss(mu).delta(one - (1.0 - x)) for one in epsilon]
    np.testing.assert_allclose(loss.delta(epsilon), np.sum(each, axis=1) / weight.sum(), rtol=1e-10)
    assert isinstance(loss.law, MixedLoss)


def test_bracket_without_a_lattice_takes_sigma_as_a_float() -> None:
    families = [Family(F(1 / math.sqrt(7)), 1, 6), Family(F(1 / math.pi), 1, 5), Family(F(math.sqrt(3) / 20), 1, 9)]
    loss = sum(family.count * adv.DiscreteGaussian(float(family.v) ** -0.5).privacy_loss() for family in families)
    epsilon = np.array([0.0, 1.0, 5.0, 10.0, 15.0])
    lower, upper = loss.bracket.delta(epsilon)
    expected = composition.positive_delta(families, epsilon)
    assert np.all((lower <= expected * (1 + 1e-12)) & (upper >= expected * (1 - 1e-12)))
    assert np.all(upper - lower <= 1e-9 * expected)


@over_mixtures("shifts", "coarse", "forty alike")
def test_epsilon_and_tails_agree_with_forty_digits(name: str) -> None:
    loss, law = example(name), composition.exact_law(MIXTURES[name])
    for delta in (0.5, 1e-3, 1e-10, 1e-15):
        assert loss.epsilon(delta) == pytest.approx(max(float(law.epsilon(delta)), 0.0), abs=1e-10)
    for threshold in (-3.003, 0.017, 9.013, 31.007):
        assert loss.tail(threshold) == pytest.approx([float(tail) for tail in law.tail(threshold)], rel=1e-9)


@over_mixtures("shifts", "coarse", "forty alike", "two alike")
@pytest.mark.parametrize("prior", [0.01, 0.5, 0.9])
def test_posterior_law_is_that_of_the_loss(name: str, prior: float) -> None:
    """P(posterior <= x) = 1 - P(L > logit x - logit prior), under either truth."""
    posterior, law = example(name).posterior(prior), composition.exact_law(MIXTURES[name])
    for x in (0.003, 0.31, 0.87):
        beyond = law.tail(logit(x) - logit(prior))
        assert posterior.cdf(x, "in") == pytest.approx(float(1 - beyond[0]), abs=1e-9)
        assert posterior.cdf(x, "out") == pytest.approx(float(1 - beyond[1]), abs=1e-9)
    losses = np.array([float(value * law.unit) for value in law.values])
    for truth, masses in (("in", law.p), ("out", law.q)):
        mean = expit(losses + logit(prior)) @ np.array([float(composition.real(mass)) for mass in masses])
        assert posterior.mean(truth) == pytest.approx(mean, abs=1e-9)


# Routes

RELEASES = {
    "one release": ([(0.5, 1, 1)], 0.0),
    "some of one kind": ([(F(1, 2), 1, 40)], 0.0),
    "two kinds without a common lattice": ([(math.sqrt(2.0), 1, 4), (1.0 / math.sqrt(3.0), 1, 4)], 0.0),
    "many of one kind": ([(1e-3, 1, 300)], 0.0),
    "many on one lattice": ([(F(7, 5), 1, 100_000), (F(1, 3), 1, 100_000)], 0.0),
    "a Gaussian beside": ([(4.0, 1, 1)], 9.0),
    "a wide and a narrow kind": ([(1e-6, 1, 2), (4.0, 1, 2)], 0.0),
    "many scales without a lattice": ([(1.0 / (4.1 + 3.33 * j), 1, 2 + j) for j in range(8)], 0.0),
    "noise not worth the name beside wide noise": ([(1.0 / 90_000.0, 1, 2), (400.0, 1, 2)], 0.0),
    "a Gaussian that tells hardly anything beside": ([(0.5, 2, 1)], 2e-9),
    "two lists too long to multiply": ([(2.2, 1, 1), (1.7010841959895233, 1, 1), (F(4224, 20495), 1, 1)], 0.0),
}


def releases_of(name: str) -> DiscreteGaussianLoss:
    families, variance = RELEASES[name]
    return DiscreteGaussianLoss(tuple(certified_composition.Family(*family) for family in families), variance)


@pytest.mark.parametrize(
    ("name", "route", "rough"),
    [
        ("one release", "listed", None),
        ("some of one kind", "listed", None),
        ("two kinds without a common lattice", "listed", None),
        ("many of one kind", "contour", None),
        ("many on one lattice", "contour", None),
        ("a Gaussian beside", "contour", None),
        ("a wide and a narrow kind", "contour", "mixed"),
        ("many scales without a lattice", "smoothed", "smoothed"),
        ("noise not worth the name beside wide noise", "mixed", None),
        ("a Gaussian that tells hardly anything beside", "mixed", None),
        ("two lists too long to multiply", "mixed", None),
    ],
)
def test_the_route_is_chosen_by_cost_and_named(name: str, route: str, rough: str | None) -> None:
    """`rough` is that of the wider law for thousands of numbers, where another answers them."""
    loss = releases_of(name)
    assert loss.route == loss.law.route == route
    assert (None if loss.coarse is loss else loss.coarse.route) == rough
    low, high = loss.bracket.delta(1.0)
    assert low <= loss.delta(1.0) <= high <= low * (1.0 + 1e-9)
    assert loss.delta(1.0) == pytest.approx(loss.coarse.delta(1.0), rel=1e-7)


def test_tails_of_a_mixture_are_probabilities() -> None:
    """Rounding of forty listed releases added up to a little more than 1."""
    listed: Any = DiscreteGaussianLoss.of(0.5, count=40).law
    loss = MixedLoss(listed, GaussianLoss(1.0))
    assert loss.tail(-1e4) == (1.0, 1.0)


def test_the_mean_posterior_counts_rare_releases_that_tell_little() -> None:
    """Two noises of 1 each, 4e-18 of all, hide a target who is out: a contour smoothed for speed left them out."""
    families = [Family(F(1, 10), 2, 2), Family(F(40), 2, 2), Family(F(4224, 20495), 2, 2)]
    losses, weights = np.zeros(1), np.ones(1)
    for v in (40.0, 40.0, 0.1, 0.1, 4224.0 / 20495.0, 4224.0 / 20495.0):
        x = np.arange(-math.floor(9.5 / math.sqrt(v)) - 2, math.floor(9.5 / math.sqrt(v)) + 3)
        weight = np.exp(-v * x * x / 2.0)
        rounded = np.round(np.add.outer(losses, v * (4.0 * x - 4.0) / 2.0).ravel(), 9)
        losses, place = np.unique(rounded, return_inverse=True)
        weights = np.bincount(place, np.outer(weights, weight / weight.sum()).ravel())
    expected = weights @ expit(losses + logit(0.1))
    assert loss_of(families).posterior(0.1).mean("out") == pytest.approx(expected, rel=1e-6)


# Finite mechanisms


def random_pmf(rng: np.random.Generator, size: int, holes: bool) -> list[float]:
    """Whole multiples of 2^-20 that sum to one exactly, some of them zero if asked."""
    shares = rng.dirichlet(np.ones(size)) * (rng.random(size) > 0.2 if holes else 1)
    whole = np.floor(shares / max(shares.sum(), 1e-9) * 2**20)
    whole[rng.integers(size)] += 2**20 - whole.sum()
    return [float(mass) for mass in whole / 2**20]


@pytest.mark.parametrize("seed", range(400, 410))
def test_bracket_of_finite_mechanisms_contains_forty_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts, laws = [], []
    for _ in range(rng.integers(1, 3)):
        size, count = int(rng.integers(2, 5)), int(rng.integers(1, 6))
        p, q = random_pmf(rng, size, seed % 2 == 0), random_pmf(rng, size, seed % 2 == 0)
        parts.append(count * LatticeLoss.from_probs(p, q))
        laws.append(composition.repeated_law(composition.finite_law(p, q), count))
    law, loss = functools.reduce(composition.combined, laws), sum(parts)
    epsilon = np.array([-3.0, -0.4, 0.0, 0.3, 1.1, 2.7, 6.0])
    for e, low, high in zip(epsilon, *loss.bracket.delta(epsilon), strict=True):
        exact = float(law.delta(e))
        assert low <= exact + 2e-15 + 1e-13 * exact
        assert high >= exact - 2e-15 - 1e-13 * exact
        assert high - low <= 1e-11
    for level in (0.0, 0.03, 0.5, 1.0):
        low, high = loss.bracket.power(level)
        assert low - 1e-12 <= float(law.power(level)) <= high + 1e-12


def test_finite_mechanism_and_discrete_gaussians_contain_forty_digits() -> None:
    p, q = [0.5, 0.25, 0.1875, 0.0625], [0.25, 0.5, 0.125, 0.125]
    families = [Family(F(3, 2), 1, 4)]
    law = composition.combined(
        composition.repeated_law(composition.finite_law(p, q), 3), composition.exact_law(families)
    )
    loss: Any = 3 * LatticeLoss.from_probs(p, q) + loss_of(families)
    for e in (-1.0, 0.0, 0.7, 3.0, 9.0):
        low, high = loss.bracket.delta(e)
        exact = float(law.delta(e))
        assert low * (1 - 1e-12) <= exact <= high * (1 + 1e-12)
        assert high - low <= 1e-9 * exact


# The algebra

E = np.concatenate([np.linspace(-6.0, 0.0, 7), np.linspace(0.21, 40.0, 12)])


@over_mixtures("shifts", "coarse", "few coarse scales", "many scales")
def test_composition_is_commutative_and_associative(name: str) -> None:
    parts = [loss_of([family]) for family in MIXTURES[name]]
    backwards = functools.reduce(lambda a, b: a + b, parts[::-1])
    halves = (parts[0] + parts[1]) + sum(parts[2:], compose_losses([]))
    expected = example(name).delta(E)
    for other in (backwards, halves, compose_losses(parts)):
        np.testing.assert_allclose(other.delta(E), expected, rtol=1e-12)


@over_mixtures()
@pytest.mark.parametrize("constant", NOTHING)
def test_composing_with_nothing_changes_nothing(name: str, constant: str) -> None:
    loss = example(name)
    nothing: Any = NOTHING[constant] if constant != "zero times" else 0 * loss
    for other in (loss + nothing, nothing + loss):
        np.testing.assert_allclose(other.delta(E), loss.delta(E), rtol=1e-12)
        assert other.power(0.05) == pytest.approx(loss.power(0.05), rel=1e-12)


@over_mixtures("one", "two alike", "shifts", "coarse")
@pytest.mark.parametrize("times", [1, 2, 3, 7])
def test_multiples_are_sums(name: str, times: int) -> None:
    loss = example(name)
    expected = (times * loss).delta(E)
    np.testing.assert_allclose(sum([loss] * times).delta(E), expected, rtol=1e-12)
    np.testing.assert_allclose(repeat_loss(loss, times).delta(E), expected, rtol=1e-12)


@over_mixtures("one", "shifts", "coarse", "many scales")
def test_swapping_hypotheses_mirrors_the_trade_off(name: str) -> None:
    """Against a loss that is not symmetric: 1 - level of the swapped at 1 - power is the level again."""
    loss = LatticeLoss.from_probs([0.6, 0.3, 0.1], [0.2, 0.3, 0.5]) + example(name)
    swapped: Any = loss.swapped
    assert abs(swapped.power(0.05) - loss.power(0.05)) > 1e-6 or name in ("coarse", "shifts")
    for level in (0.01, 0.1, 0.4):
        power = loss.power(level)
        assert swapped.power(1 - power) == pytest.approx(1 - level, abs=1e-7)
    np.testing.assert_allclose(swapped.swapped.delta(E), loss.delta(E), rtol=1e-12, atol=1e-300)


# Post-processing


@st.composite
def binned_pairs(draw: st.DrawFn) -> tuple[Any, Any, list[int]]:
    """Two pmfs on a few outcomes, and the bin that each outcome falls into."""
    size = draw(st.integers(2, 8))
    weights = st.lists(st.integers(0, 1000), min_size=size, max_size=size).filter(any)
    p, q = np.array(draw(weights), dtype=float), np.array(draw(weights), dtype=float)
    return p / p.sum(), q / q.sum(), draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))


@settings(max_examples=60, deadline=None)
@given(binned_pairs(), st.integers(1, 4))
def test_binning_outcomes_never_raises_delta(pair: tuple[Any, Any, list[int]], times: int) -> None:
    p, q, bins = pair
    coarse_p, coarse_q = (np.bincount(bins, weights=masses) for masses in (p, q))
    fine, coarse = times * LatticeLoss.from_probs(p, q), times * LatticeLoss.from_probs(coarse_p, coarse_q)
    e = np.array([-4.0, -1.0, -0.2, 0.0, 0.1, 0.9, 2.0, 5.0, 20.0])
    for one, other in ((fine, coarse), (fine.swapped, coarse.swapped)):
        assert np.all(other.bracket.delta(e)[0] <= one.bracket.delta(e)[1] * (1 + 1e-12) + 1e-14)


# Bad input


test_bad_input_is_refused_with_rule_and_value = refusals(
    (lambda: LatticeLoss.from_probs([0.5, 0.4], [0.5, 0.5]), r"(add up|sum) to (1|one).*0\.9"),
    (lambda: LatticeLoss.from_probs([0.5, 0.5], [0.7, 0.4]), r"(add up|sum) to (1|one).*1\.1"),
    (lambda: LatticeLoss.from_probs([1.5, -0.5], [0.5, 0.5]), r"p must be .*(-0\.5|1\.5)"),
    (lambda: LatticeLoss.from_probs([0.5, 0.5], [1.0]), r"(length|shape|outcomes)"),
    (lambda: LatticeLoss.from_probs([], []), r"(empty|at least one|to (1|one))"),
)


@over_mixtures("one", "shifts", "coarse")
@pytest.mark.parametrize("delta", [1e-30, 1e-100])
def test_epsilon_of_a_tiny_delta_is_a_root_or_a_refusal(name: str, delta: float) -> None:
    try:
        epsilon = example(name).epsilon(delta)
    except ArithmeticError as error:
        epsilon, message = None, str(error)
    if epsilon is None:
        assert "resol" in message or "certif" in message
    else:
        assert math.log(composition.exact_law(MIXTURES[name]).delta(epsilon)) == pytest.approx(
            math.log(delta), abs=1e-6
        )


def test_no_finite_epsilon_where_some_loss_is_infinite() -> None:
    loss: Any = LatticeLoss.from_probs([0.9, 0.1, 0.0], [0.8, 0.0, 0.2]) + example("two alike")
    assert loss.epsilon(0.05) == math.inf
    assert loss.bracket.delta(500.0) == pytest.approx((0.1, 0.1), rel=1e-12)
    assert loss.power(0.0) == pytest.approx(0.1, rel=1e-12)


def test_epsilon_at_delta_zero_is_the_largest_loss() -> None:
    assert example("coarse").epsilon(0.0) == math.inf
    assert (3 * adv.RandomizedResponse(0.7).privacy_loss()).epsilon(0.0) == pytest.approx(2.1, rel=1e-12)


def test_a_needle_beside_broad_noise_has_its_bound_without_a_warning() -> None:
    loss = adv.Gaussian(1e-10).privacy_loss() + adv.DiscreteGaussian(20.0).privacy_loss()
    alone = adv.Gaussian(1e-10).privacy_loss().loss_bound(0.05)
    assert alone <= loss.loss_bound(0.05) <= alone * (1.0 + 1e-5)
    sharp = adv.Gaussian(1e-3).privacy_loss()
    both = sharp + adv.DiscreteGaussian(20.0).privacy_loss()
    assert sharp.epsilon(1e-6) <= both.epsilon(1e-6) <= sharp.epsilon(1e-6) * (1.0 + 1e-5)
    assert both.tail(0.5) == pytest.approx((1.0, 0.0), abs=1e-12)


def test_laplace_noise_far_too_small_for_a_grid_is_certain_to_tell() -> None:
    for scale in (1e-3, 1e-10):
        loss = adv.Laplace(scale).privacy_loss() + adv.Gaussian(2.0).privacy_loss()
        low, high = loss.bracket.delta([0.0, 1.0, 100.0])
        assert (low <= high).all()
        np.testing.assert_allclose(low, 1.0, rtol=1e-9)
        assert loss.power(0.05) == pytest.approx(1.0, abs=1e-12)


def test_tails_that_need_more_revivals_than_the_profile_are_found() -> None:
    wide, narrow = DiscreteGaussianLoss.of(1e-6, count=2), DiscreteGaussianLoss.of(4.0, count=2)
    t = np.concatenate([-np.geomspace(70, 1e-6, 60), np.geomspace(1e-6, 70, 60)])
    assert isinstance(narrow.law, LatticeLoss)
    for one, other in zip(wide.beside(narrow).tail(t), MixedLoss(narrow.law, wide).tail(t), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11)


@pytest.mark.slow_cases("1000", "200")
@pytest.mark.parametrize("count", [40, 120, 200, 1000])
def test_tails_far_below_rho_do_not_cancel(count: int) -> None:
    """They were sums of terms as large as exp(3 rho / 4): no digit was left from rho = 40 on."""
    loss = DiscreteGaussianLoss.of(0.5, count=count)
    contour = certified_composition.compose_by_contour(loss.kinds)
    t = loss.rho * np.linspace(-1.2, 1.5, 40)
    assert loss.route == "listed"
    assert contour is not None
    for one, other in zip(contour.tails(t), loss.tail(t), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mu", [0.1, 3.0, 8.0, 10.0, 20.0])
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_tails_beside_a_gaussian_are_those_of_the_mixture(sigma: float, mu: float) -> None:
    loss = adv.DiscreteGaussian(sigma).privacy_loss() + GaussianLoss(mu)
    x = np.arange(-200.0, 201.0)
    weight = np.exp(-x * x / (2.0 * sigma**2))
    t = loss.rho * np.linspace(-1.2, 1.6, 30)
    shifted = t - (1.0 - 2.0 * x[:, None]) / (2.0 * sigma**2)
    expected = weight @ GaussianLoss(mu).tail(shifted)[0] / weight.sum()
    np.testing.assert_allclose(loss.tail(t)[0], expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(loss.tail(-t)[1], 1.0 - expected, rtol=0, atol=1e-11)


@pytest.mark.slow
def test_levels_of_tails_that_fall_in_steps_are_sharp() -> None:
    """Newton's steps went past the best threshold: bounds were valid, and 1e-9 of what they could be."""
    loss = loss_of([Family(F(1, 10), 2, 2), Family(F(40), 2, 2), Family(F(4224, 20495), 2, 2)])
    e = np.linspace(155.0, 175.0, 2001)
    for power in (0.1, 0.5):
        best = np.max(np.exp(-e) * (power - loss.delta(e)))
        assert 0.99 * best <= loss.level(power) <= 1.01 * best
    assert loss.auc == pytest.approx(1.0, abs=1e-12)  # slopes of 1e-36 with errors of 1e-26 made it NaN


@pytest.mark.slow
def test_a_bound_on_the_loss_of_three_scales_adds_up_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit with these took minutes: for each atom of one, thousands of sums over 70,000 nodes of the others."""
    nodes, waves = list[int](), contour_sum.waves

    def counted(grid: Any, turn: Any, parts: Any) -> Any:
        nodes.append(grid.n.size * turn.size)
        return waves(grid, turn, parts)

    monkeypatch.setattr(contour_sum, "waves", counted)
    loss = sum(adv.DiscreteGaussian(sigma).privacy_loss() for sigma in (3.5, 300.0, 0.7998876452989727))
    bound, auc = loss.loss_bound(0.05), loss.auc
    together = (loss + adv.DiscreteGaussian(0.05).privacy_loss()).loss_bound(0.05)
    composed = (loss + adv.Laplace(10.0).privacy_loss()).loss_bound(0.05)
    assert 0 < sum(nodes) < 5e8
    share = 0.05 / (1.0 + math.exp(-bound))
    e = bound + np.linspace(-1.5, 0.5, 21)
    assert np.max(np.exp(-e) * (share - loss.delta(e))) == pytest.approx(share * math.exp(-bound), rel=2e-3)
    assert auc == pytest.approx(0.81483, abs=1e-5)
    assert together > 200.0
    assert bound < composed < bound + 0.1


def test_noise_not_worth_the_name_is_listed_beside_copies_that_are_too_wide_to_list() -> None:
    """Two of each took a contour of 100,000 nodes or more, as few enough atoms were left to list in the end."""
    wide, sharp = 2 * adv.DiscreteGaussian(300.0).privacy_loss(), 2 * adv.DiscreteGaussian(0.05).privacy_loss()
    loss = wide + sharp
    assert isinstance(loss.law, MixedLoss)
    assert loss.law.lattice.losses.size < 20
    assert loss.tail(np.array([0.0, 390.0]))[0] == pytest.approx(np.ones(2))
    assert loss.delta(0.0) == pytest.approx(1.0)


def test_two_lists_too_long_to_multiply_are_mixed_atom_by_atom_of_the_shorter() -> None:
    """A bound on the loss asked all 2,496 atoms of one for 172 of the other, thousands of times."""
    two = DiscreteGaussianLoss.of(2.2).beside(DiscreteGaussianLoss.of(1.7010841959895233))
    wide = DiscreteGaussianLoss.of(F(4224, 20495))
    loss = two.beside(wide)
    assert isinstance(loss.law, MixedLoss)
    assert isinstance(loss.law.other, LatticeLoss)
    assert loss.law.lattice.losses.size < loss.law.other.losses.size / 10
    e = np.linspace(-20.0, 20.0, 41)
    np.testing.assert_allclose(loss.delta(e), MixedLoss(two.law, wide).delta(e), rtol=1e-12)


def test_losses_that_are_all_infinite_stretch_no_grid() -> None:
    told = LatticeLoss.from_probs([1.0, 0.0], [0.0, 1.0])
    whole = compose_losses([told, adv.Laplace(10.0).privacy_loss(), adv.DiscreteGaussian(2.0).privacy_loss()])
    assert isinstance(whole, ComposedLoss)
    assert max(abs(end) for end in whole.ends[0]) < 1e-6
    assert whole.delta(1.0) == pytest.approx(1.0)


def test_equal_parts_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand clamped releases beside another law took half a minute to be explained."""
    asked, moment = list[float](), LaplaceLoss.log_moment

    def counted(loss: LaplaceLoss, order: float) -> float:
        asked.append(order)
        return moment(loss, order)

    one, other = LaplaceLoss(4.0), GaussianLoss(0.3)
    expected = 1000 * one.log_moment(0.5) + other.log_moment(0.5)
    monkeypatch.setattr(LaplaceLoss, "log_moment", counted)
    assert compose_losses([*1000 * [one], other]).log_moment(0.5) == pytest.approx(expected)
    assert asked == [0.5]
