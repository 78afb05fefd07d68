"""The composition oracles against plain definitions, one another and published numbers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest

from tests.oracles import composition, paths
from tests.oracles.composition import Family

SHIFTED = [Family(F(1, 2), 2, 3), Family(F(5), 1, 1), Family(F(3, 10), 3, 2)]
COARSE = [Family(F(6), 1, 4), Family(F(7, 2), 1, 3)]
LARGE = [Family(F(5, 2), 1, 40)]
INCOMMENSURABLE = [Family(F(1 / math.sqrt(7)), 1, 6), Family(F(1 / math.pi), 1, 5), Family(F(math.sqrt(3) / 20), 1, 9)]
SMALL = [[Family(F(3, 2))], [Family(F(1, 2), 2, 2)], [Family(F(1)), Family(F(2, 3), 3)], [Family(F(7, 5), 1, 3)]]


def outcomes(families: list[Family]) -> tuple[list[float], list[float]]:
    """Probabilities of every list of noises that matters, under P and under Q."""
    laws = []
    for family in families:
        table = {k: float(paths.discrete_gaussian_pmf(k, float(family.v) / 2)) for k in range(-14, 15)}
        window = range(-10, 11 + family.shift)
        laws += [[(table.get(x, 0.0), table.get(x - family.shift, 0.0)) for x in window]] * family.count
    pairs = list(itertools.product(*laws))
    return tuple([math.prod(cell[side] for cell in pair) for pair in pairs] for side in (0, 1))  # type: ignore[return-value]


# Whole numbers


@pytest.mark.parametrize("v", [F(1, 50), F(3, 2), F(9)])
def test_whole_masses_are_the_discrete_gaussian(v: F) -> None:
    masses = composition.noise_masses(v)
    centre = len(masses) // 2
    assert abs(int(masses.sum()) - composition.ONE) < len(masses)
    for k in (-3, 0, 7):
        with mpmath.workdps(composition.DIGITS + 20):
            expected = mpmath.exp(-composition.number(v) * k * k / 2) / mpmath.jtheta(
                3, 0, mpmath.exp(-composition.number(v) / 2)
            )
            assert abs(composition.real(int(masses[centre + k])) - expected) < mpmath.mpf(2) ** -(composition.BITS - 1)


@pytest.mark.parametrize("families", SMALL)
def test_whole_numbers_add_up_every_outcome(families: list[Family]) -> None:
    law, (p, q) = composition.exact_law(families), outcomes(families)
    for epsilon in (-2.0, 0.0, 0.3, 1.7):
        assert float(law.delta(epsilon)) == pytest.approx(paths.privacy_profile(p, q, epsilon), rel=1e-11)
    loss = np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(q, 1e-300))
    for threshold in (-1.013, 0.017, 2.019):
        beyond = loss > threshold
        expected = np.array(p)[beyond].sum(), np.array(q)[beyond].sum()
        assert [float(tail) for tail in law.tail(threshold)] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("families", [*SMALL, SHIFTED, COARSE])
def test_delta_of_whole_numbers_is_its_definition(families: list[Family]) -> None:
    """sum of (P - e^epsilon Q)_+ needs no loss and no order; neither does its mirror image."""
    law = composition.exact_law(families)
    for epsilon in (-1.0, 0.0, 1.25, 9.0):
        with mpmath.workdps(composition.DIGITS):
            y = int(mpmath.exp(epsilon) * composition.ONE)
            excess = int(np.maximum(law.p * composition.ONE - law.q * y, 0).sum()) >> composition.BITS
            assert law.delta(epsilon) == pytest.approx(composition.real(excess), rel=1e-40)
            mirrored = 1 - mpmath.exp(-composition.number(epsilon)) * (1 - law.delta(epsilon))
            assert law.delta(-epsilon) == pytest.approx(mirrored, rel=1e-40)


@pytest.mark.parametrize("families", [*SMALL, SHIFTED, COARSE])
def test_power_is_the_lower_envelope_of_the_profile(families: list[Family]) -> None:
    """power(level) = min over e of delta(e) + e^e level, reached at a loss."""
    law = composition.exact_law(families)
    for level in (F(1, 1000), F(1, 20), F(1, 2)):
        with mpmath.workdps(composition.DIGITS):
            lines = [
                law.delta(value * law.unit)
                + mpmath.exp(composition.number(value * law.unit)) * composition.number(level)
                for value in law.ordered
                if abs(value * law.unit) < 80
            ]
            assert law.power(level) == pytest.approx(min(lines), rel=1e-40)


@pytest.mark.parametrize("families", [SHIFTED, COARSE])
@pytest.mark.parametrize("delta", [0.7, 0.01, 1e-9])
def test_epsilon_undoes_delta(families: list[Family], delta: float) -> None:
    law = composition.exact_law(families)
    epsilon = law.epsilon(delta)
    with mpmath.workdps(composition.DIGITS):
        k = law.first_above(F(str(mpmath.nstr(epsilon, 60))))
        p, q = composition.real(law.above[0][k]), composition.real(law.above[1][k])
        assert p - mpmath.exp(epsilon) * q == pytest.approx(composition.number(delta), rel=1e-40)


def test_levels_zero_and_one_have_power_zero_and_one() -> None:
    law = composition.exact_law(COARSE)
    assert float(law.power(0)) < 1e-90
    assert float(1 - law.power(1)) < 1e-90


# Finite mechanisms


def test_finite_mechanisms_against_all_outcomes_with_infinite_losses() -> None:
    pairs = [([0.5, 0.25, 0.25, 0.0], [0.25, 0.5, 0.0, 0.25]), ([0.75, 0.25], [0.25, 0.75]), ([0.5, 0.5], [0.5, 0.5])]
    law = composition.finite_law(*pairs[0])
    for pair in pairs[1:]:
        law = composition.combined(law, composition.finite_law(*pair))
    p, q = ([math.prod(masses) for masses in itertools.product(*(pair[side] for pair in pairs))] for side in (0, 1))
    for epsilon in (-3.0, -0.2, 0.0, 0.9, 1.5, 3.0):
        assert float(law.delta(epsilon)) == pytest.approx(paths.privacy_profile(p, q, epsilon), abs=1e-15)
    assert float(law.delta(50.0)) == 0.25
    assert float(law.power(0)) == 0.25
    assert float(law.power(1)) == 1.0


def test_copies_of_randomized_response_are_binomial() -> None:
    law = composition.repeated_law(composition.randomized_response_law(0.5), 7)
    keep = 1 / (1 + math.exp(-0.5))
    p = [math.comb(7, j) * keep**j * (1 - keep) ** (7 - j) for j in range(8)]
    assert len(law.values) == 8
    for epsilon in (0.0, 0.4, 3.2):
        assert float(law.delta(epsilon)) == pytest.approx(paths.privacy_profile(p, p[::-1], epsilon), rel=1e-11)


# Positive doubles


def random_families(rng: np.random.Generator) -> list[Family]:
    scales = rng.choice([F(1, 7), F(3, 10), F(1, 2), F(7, 5), F(5, 2), F(6), F(9)], rng.integers(1, 4), replace=False)
    return [Family(v, int(rng.integers(1, 4)), int(rng.integers(1, 4))) for v in scales]


@pytest.mark.parametrize("seed", range(30))
def test_positive_doubles_keep_twelve_digits_of_any_delta(seed: int) -> None:
    families = random_families(np.random.default_rng(seed))
    law, rho = composition.exact_law(families), float(composition.total_rho(families))
    epsilon = [-1.0, 0.0, 0.3 * rho, rho + math.sqrt(rho), rho + 8 * math.sqrt(rho), rho + 12 * math.sqrt(rho)]
    expected = [float(law.delta(e)) for e in epsilon]
    np.testing.assert_allclose(composition.positive_delta(families, epsilon), expected, rtol=2e-13)


def test_positive_doubles_refuse_what_they_cannot_list() -> None:
    families = [Family(F(math.sqrt(prime)) / 100, 1, 5) for prime in (2, 3, 5, 7)]
    with pytest.raises(ValueError, match="too many atoms"):
        composition.positive_delta(families, 1.0)


# Fourier


@pytest.mark.parametrize("v", [0.05, 1.0, 2.9, 3.1, 9.0])
def test_characteristic_function_is_a_cosine_sum(v: float) -> None:
    angle = np.linspace(-7.0, 7.0, 29)
    k = np.arange(-80, 81)
    weight = np.exp(-v * k * k / 2)
    expected = np.cos(np.outer(angle, k)) @ weight / weight.sum()
    np.testing.assert_allclose(composition.characteristic(v, angle), expected, atol=1e-14)


def test_fft_reaches_the_far_tail() -> None:
    families = [Family(F(3, 20), 1, 12), Family(F(1, 8), 1, 9), Family(F(1, 50), 1, 20)]
    epsilon = [-1.0, 0.0, 1.0, 4.0, 9.0, 14.0, 20.0]
    np.testing.assert_allclose(
        composition.fft_delta(families, epsilon), composition.positive_delta(families, epsilon), rtol=1e-12
    )


def test_inverted_characteristic_function_agrees_where_no_atom_is_sizeable() -> None:
    """To about the square of the lattice step, here 1/1850."""
    families = [Family(F(1, 50), 1, 60), Family(F(1, 37), 1, 40)]
    for epsilon in (0.0, 1.0, 4.0):
        expected = composition.positive_delta(families, epsilon)[0]
        assert composition.gil_pelaez_delta(families, epsilon, 12.0) == pytest.approx(expected, abs=1e-8)


# Published numbers


def test_published_deltas_of_few_coarse_scales() -> None:
    expected = {
        0: 0.822422393059073015640730,
        1: 0.719476803995087227051741,
        2: 0.592619321347998788164882,
        3: 0.453937641838611613444775,
        6: 0.119181999061733946267177,
        10: 0.00443419165099963851659994,
        15: 4.64923855286250098139e-6,
        20: 1.92375407727206593182e-10,
        25: 2.88313942376985258493e-16,
        30: 1.50043293941803489012e-23,
    }
    assert float(composition.total_rho(composition.COARSE_SCALES)) == pytest.approx(3.6354979706525, rel=1e-13)
    assert composition.common_unit([family.v for family in composition.COARSE_SCALES]) == F(1, 64060)
    np.testing.assert_allclose(
        composition.positive_delta(composition.COARSE_SCALES, list(expected)), list(expected.values()), rtol=3e-14
    )


def test_published_epsilons_and_powers_of_few_coarse_scales() -> None:
    found = [composition.positive_epsilon(composition.COARSE_SCALES, delta) for delta in (1e-5, 1e-10, 1e-15)]
    assert found == pytest.approx([14.53901617525, 20.27642018177, 24.58393757922], abs=6e-12)
    powers = [composition.positive_power(composition.COARSE_SCALES, level) for level in (0.001, 0.01, 0.05)]
    assert powers == pytest.approx([0.346875738732, 0.644358222353, 0.853519167039], abs=6e-13)


def test_published_deltas_of_shifts() -> None:
    law = composition.exact_law(SHIFTED)
    assert composition.total_rho(SHIFTED) == F(41, 5)
    for epsilon, expected in {
        0: 0.96289387533609957,
        1: 0.939902306126669753,
        5: 0.717213609734538346,
        10: 0.234704461408002481,
        20: 9.71853159541416265e-4,
    }.items():
        assert float(law.delta(epsilon)) == pytest.approx(expected, rel=1e-15)


def test_published_deltas_of_coarse_and_of_large() -> None:
    coarse, large = composition.exact_law(COARSE), composition.exact_law(LARGE)
    assert float(1 - coarse.delta(0)) == pytest.approx(0.00135094659887815085, rel=1e-15)
    assert float(coarse.delta(17.25)) == pytest.approx(0.321401658826002685, rel=1e-15)
    assert float(coarse.delta(60)) == pytest.approx(5.77530741902112452e-14, rel=1e-15)
    assert float(1 - large.delta(0)) == pytest.approx(6.077871797190005e-7, rel=1e-15)
    assert float(1 - large.delta(20)) == pytest.approx(0.00209995387088629775, rel=1e-15)
    assert float(large.delta(50)) == pytest.approx(0.441180761951700813, rel=1e-15)
    assert float(large.delta(100)) == pytest.approx(1.21820617800002756e-7, rel=1e-15)


def test_published_deltas_without_a_lattice() -> None:
    found = composition.positive_delta(INCOMMENSURABLE, [0, 1, 5, 10, 15])
    expected = [0.718468277161, 0.562386124275, 0.0563386101240, 6.37599673167e-5, 5.0729071748e-10]
    np.testing.assert_allclose(found, expected, rtol=2e-11)


def test_published_deltas_of_randomized_response() -> None:
    law = composition.combined(
        composition.repeated_law(composition.randomized_response_law(0.3), 20),
        composition.repeated_law(composition.randomized_response_law(0.5), 10),
    )
    for epsilon, expected in {
        0.5: 0.620870001162308,
        2: 0.357771044954658,
        4: 0.0960621417231592,
        8: 2.81500380986186e-4,
        10.9: 1.27205989584357e-8,
    }.items():
        assert float(law.delta(epsilon)) == pytest.approx(expected, rel=2e-14)


def test_published_powers_of_the_redistricting_release() -> None:
    families = composition.redistricting_families()
    assert (len(families), sum(family.count for family in families)) == (38, 142)
    assert composition.total_rho(families) == F(263, 100)
    assert composition.gil_pelaez_power(families, 0.05, 9.0) == pytest.approx(0.7417064885, abs=2e-10)
    assert composition.gil_pelaez_delta(families, 1.0, 9.0) == pytest.approx(0.60713759139, abs=2e-11)


def test_published_powers_of_one_and_two_queries() -> None:
    """Two cells each; the tie probability is part of the power."""
    levels = (0.01, 0.05, 0.10)
    one = composition.exact_law([Family(F(1), 1, 2)])
    assert [float(one.power(level)) for level in levels] == pytest.approx([0.170683408, 0.3984142884, 0.5343283798])
    two = composition.exact_law([Family(F(1), 1, 2), Family(F(3, 10), 1, 2)])
    found = [float(two.power(level)) for level in levels]
    assert found == pytest.approx([0.2379430168, 0.4865092851, 0.6295998198], abs=1e-10)
    assert float(two.delta(0)) == pytest.approx(0.5792391274, abs=1e-10)
