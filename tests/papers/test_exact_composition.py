"""Exact composition of discrete Gaussians: 24-digit sums of positive terms, and the releases of the 2020 Census.

The power of Kifer et al. (2022), "Bayesian and frequentist semantics for common variations of differential privacy:
applications to the 2020 Census", Tables 2 and 6, was a Monte Carlo estimate there; here it is exact. v is 1 / sigma^2.
"""

from __future__ import annotations

import math
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import adversary as adv
from tests.oracles import composition
from tests.tables import DATA

LEVELS = np.array([0.01, 0.05, 0.10])
census = adv.census


def counts(v: F | float, count: int, shift: int = 1) -> Any:
    """`count` counts with sigma^2 = 1 / v, each moved by `shift`."""
    return count * adv.DiscreteGaussian.from_rho(v / 2).privacy_loss(shift)


def two_cells(*rho_star: F) -> Any:
    return sum(adv.DiscreteGaussian.from_rho(rho, cells=2).privacy_loss(cells=2) for rho in rho_star)


def gaussian_power(rho: float, level: Any) -> Any:
    return ndtr(math.sqrt(2 * rho) + ndtri(level))


def check(loss: Any, expected: dict[float, float], digits: float, width: float) -> None:
    """The profile, within a certified bracket that is narrow and, to the digits given, contains the numbers."""
    epsilon, delta = np.array(list(expected), dtype=float), np.array(list(expected.values()))
    lower, upper = loss.bracket.delta(epsilon)
    np.testing.assert_allclose(loss.delta(epsilon), delta, rtol=max(digits, width))
    assert np.all(lower <= delta * (1 + digits))
    assert np.all(upper >= delta * (1 - digits))
    assert np.all(upper - lower <= width * delta)


# Few coarse scales: lattice revivals matter


@pytest.fixture(scope="module")
def coarse_scales() -> Any:
    return counts(F(7, 20), 12) + counts(F(7, 5), 2) + counts(F(31, 3203), 16) + counts(F(124, 3203), 3)


def test_few_coarse_scales_delta(coarse_scales: Any) -> None:
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
    check(coarse_scales, expected, 1e-15, 1e-11)


def test_few_coarse_scales_epsilon(coarse_scales: Any) -> None:
    found = coarse_scales.epsilon(np.array([1e-5, 1e-10, 1e-15]))
    np.testing.assert_allclose(found, [14.53901617525, 20.27642018177, 24.58393757922], atol=2e-11)


def test_few_coarse_scales_power(coarse_scales: Any) -> None:
    """A closed form for the Gaussian of the same rho, and a threshold from it, both miss by 1e-6 to 1e-5."""
    levels = np.array([0.001, 0.01, 0.05])
    exact = np.array([0.346875738732, 0.644358222353, 0.853519167039])
    lower, upper = coarse_scales.bracket.power(levels)
    np.testing.assert_allclose(coarse_scales.power(levels), exact, atol=2e-12)
    assert np.all((lower <= exact + 1e-12) & (upper >= exact - 1e-12))
    assert np.all(upper - lower < 1e-10)
    gaussian = gaussian_power(3.6354979706525, levels)
    np.testing.assert_allclose(gaussian, [0.346881, 0.644357, 0.853514], atol=6e-7)
    assert np.all(np.abs(gaussian - exact) > 8e-7)


# Shifts, coarse lattices, large rho, no lattice, other losses


def test_shifts() -> None:
    """A shift a is not v -> a^2 v: the step of the lattice is a v."""
    loss = counts(F(1, 2), 3, shift=2) + counts(F(5), 1) + counts(F(3, 10), 2, shift=3)
    expected = {
        0: 0.96289387533609957,
        1: 0.939902306126669753,
        5: 0.717213609734538346,
        10: 0.234704461408002481,
        20: 9.71853159541416265e-4,
    }
    check(loss, expected, 1e-15, 1e-11)


def test_coarse() -> None:
    loss = counts(F(6), 4) + counts(F(7, 2), 3)
    check(loss, {17.25: 0.321401658826002685, 60: 5.77530741902112452e-14}, 1e-15, 1e-11)
    lower, upper = loss.bracket.delta(0)
    assert 1 - upper <= 0.00135094659887815085 + 1e-16
    assert 1 - lower >= 0.00135094659887815085 - 1e-16
    assert upper - lower <= 1e-11


def test_large_rho() -> None:
    loss = counts(F(5, 2), 40)
    check(loss, {50: 0.441180761951700813, 100: 1.21820617800002756e-7}, 1e-15, 1e-11)
    assert 1 - loss.delta(0) == pytest.approx(6.077871797190005e-7, abs=1e-11)
    assert 1 - loss.delta(20) == pytest.approx(0.00209995387088629775, abs=1e-11)


@pytest.mark.slow
def test_no_lattice() -> None:
    loss = counts(1 / math.sqrt(7), 6) + counts(1 / math.pi, 5) + counts(math.sqrt(3) / 20, 9)
    expected = {
        0: 0.718468277161,
        1: 0.562386124275,
        5: 0.0563386101240,
        10: 6.37599673167e-5,
        15: 5.0729071748e-10,
    }
    check(loss, expected, 2e-11, 1e-9)


def test_other_losses() -> None:
    """Randomised response with epsilon 0.3, twenty times, and 0.5, ten times."""
    loss: Any = 20 * adv.RandomizedResponse(0.3).privacy_loss() + 10 * adv.RandomizedResponse(0.5).privacy_loss()
    expected = {
        0.5: 0.620870001162308,
        2: 0.357771044954658,
        4: 0.0960621417231592,
        8: 2.81500380986186e-4,
        10.9: 1.27205989584357e-8,
    }
    check(loss, expected, 5e-14, 1e-11)


# A DHC allocation: 140 counts, 11 scales

PATH_DELTA = (
    0.07556920839944689, 0.01629862255822397, 0.004152352564224222, 0.001132494585314277, 0.0003209879169315394,
    9.328786082896005e-05, 2.759740019099389e-05, 8.273305033437166e-06, 2.506001897959512e-06, 7.653982068998089e-07,
    2.353711340332998e-07, 7.279405091643785e-08, 2.262266463741214e-08, 7.059991256596116e-09, 2.21127323130677e-09,
    6.948119203249209e-10, 2.189378003887465e-10, 6.916252142863026e-11, 2.18980726541228e-11, 6.947536385924364e-12,
    2.208329191175055e-12, 7.031272921859236e-13, 2.242226187599673e-13, 7.160542631742953e-14, 2.289736947133204e-14,
    7.330876267772142e-15, 2.349735274951033e-15, 7.539469852407127e-16, 2.421536429720783e-16, 7.784702289294524e-17,
    2.504775985859658e-17, 8.065828994628952e-18, 2.599331865295154e-18, 8.382782416084286e-19, 2.705273108527358e-19,
    8.7360400640907e-20, 2.822825782921181e-20, 9.126536465830069e-21, 2.952350290283068e-21, 9.555604729536013e-22,
    3.094326399782957e-22, 1.002493866267195e-22,
)  # fmt: skip
"""By one FFT of 4.1 million points in extended precision, at rho + 2 sqrt(rho log(1 / d)), d from 0.5 to 1e-20."""


@pytest.fixture(scope="module")
def path() -> Any:
    return census.dhc(DATA / "census2020_dhc_path_1.csv").loss


def path_epsilon() -> Any:
    return 4.9622 + 2 * np.sqrt(4.9622 * np.log(1 / np.geomspace(0.5, 1e-20, 42)))


def test_path_delta_is_certified_to_eleven_digits(path: Any) -> None:
    assert census.dhc(DATA / "census2020_dhc_path_1.csv").rho == F("4.9622")
    check(path, dict(zip(path_epsilon().tolist(), PATH_DELTA, strict=True)), 4e-15, 1e-11)


@pytest.mark.thorough
@pytest.mark.slow
def test_path_delta_by_one_fft() -> None:
    """Where `PATH_DELTA` is from; the test above has the same numbers."""
    families = composition.path_families(DATA / "census2020_dhc_path_1.csv")
    assert (len(families), sum(family.count for family in families)) == (11, 140)
    np.testing.assert_allclose(composition.fft_delta(families, path_epsilon()), PATH_DELTA, rtol=2e-14)


def test_path_epsilon(path: Any) -> None:
    assert path.epsilon(1e-10) == pytest.approx(24.4564939561, abs=6e-11)


def test_whole_trade_off_of_the_path_is_bracketed(path: Any) -> None:
    lower, upper = path.bracket.power(np.linspace(0.0, 1.0, 1001))
    assert np.all((lower <= upper) & (upper - lower <= 1e-11))
    assert np.all(np.diff(upper) >= 0)
    gaussian = gaussian_power(4.9622, np.linspace(0.001, 0.999, 999))
    np.testing.assert_allclose(upper[1:-1], gaussian, atol=1e-4)


# The 2020 redistricting release: 142 counts, no usable lattice


@pytest.fixture(scope="module")
def release() -> Any:
    return census.pl94().loss


def test_release_power(release: Any) -> None:
    """D1, D2: 71 queries, two cells each. The certified bracket is far narrower than a grid of 2^22 points gives."""
    assert release.power(0.05) == pytest.approx(0.7417064885, abs=3e-10)
    lower, upper = release.bracket.power(LEVELS)
    assert np.all((lower <= upper) & (upper - lower <= 1e-10))
    families = composition.redistricting_families()
    for level, low, high in zip(LEVELS, lower, upper, strict=True):
        exact = composition.gil_pelaez_power(families, level, 9.0)
        assert low - 2e-13 <= exact <= high + 2e-13


def test_release_delta(release: Any) -> None:
    """D10, at 42 epsilons: relative width of the bracket at most 1e-10; against an integral of absolute accuracy."""
    assert release.delta(1.0) == pytest.approx(0.60713759139, abs=2e-11)
    epsilon = 2.63 + 2 * np.sqrt(2.63 * np.log(1 / np.geomspace(0.5, 1e-20, 42)))
    lower, upper = release.bracket.delta(epsilon)
    assert np.all((lower <= upper) & (upper - lower <= 1e-10 * upper))
    families = composition.redistricting_families()
    for epsilon in (0.0, 1.0, 3.0, 6.0):
        exact, (low, high) = composition.gil_pelaez_delta(families, epsilon, 9.0), release.bracket.delta(epsilon)
        assert low - 1e-13 * math.exp(epsilon) <= exact <= high + 1e-13 * math.exp(epsilon)


def test_block_within_block_group() -> None:
    """D3, Table 6: 12 block-level queries; the Gaussian of the same rho is right to 3e-11."""
    loss = census.scenario("A").loss
    found = loss.power(LEVELS)
    np.testing.assert_allclose(found, [0.0318611729, 0.1204734520, 0.2091651982], atol=1e-9)
    np.testing.assert_allclose(found, gaussian_power(float(census.scenario("A").rho), LEVELS), atol=4e-11)


def test_one_query() -> None:
    """D4: the whole budget 1 on one query; the Gaussian of the same rho is off by 0.01 to 0.02."""
    loss = two_cells(F(1))
    np.testing.assert_allclose(loss.power(LEVELS), [0.1706834080, 0.3984142884, 0.5343283798], atol=1e-9)
    np.testing.assert_allclose(gaussian_power(1.0, LEVELS), [0.180849, 0.408797, 0.552770], atol=1e-6)
    above = loss.tail(1.0)[1], loss.tail(0.5)[1]  # rejects losses above 1, and 1 itself by a coin
    assert above[1] - above[0] == pytest.approx(0.1037876086, abs=1e-9)
    assert (0.05 - above[0]) / (above[1] - above[0]) == pytest.approx(0.1399252730, abs=1e-9)


def test_two_queries() -> None:
    """D5."""
    loss = two_cells(F(1), F(3, 10))
    np.testing.assert_allclose(loss.power(LEVELS), [0.2379430168, 0.4865092851, 0.6295998198], atol=1e-9)
    assert loss.advantage == pytest.approx(0.5792391274, abs=1e-9)


def test_state_level() -> None:
    """D6: eleven person queries; here the Gaussian is visibly wrong."""
    state = [
        rho
        for (level, query), rho in census.RHO_STAR.items()
        if level == census.level_name("State") and query != census.query_name("OCCUPANCY STATUS")
    ]
    assert len(state) == 11
    assert two_cells(*state).power(0.05) == pytest.approx(0.3809139138, abs=1e-8)
    assert gaussian_power(float(sum(state)), 0.05) == pytest.approx(0.3806767454, abs=1e-9)


def test_renyi_divergence_is_below_the_line_between_whole_orders() -> None:
    """D7."""
    loss = two_cells(F("2.63"))
    assert loss.renyi(1.5) == pytest.approx(3.9361983270, abs=1e-9)
    assert loss.renyi(2.0) == pytest.approx(5.26, abs=1e-9)


def test_narrow_noise_has_less_variance_than_its_parameter() -> None:
    """D8."""
    noise = adv.DiscreteGaussian.from_rho(F("2.63"), cells=2)
    assert noise.sigma2 == 1 / F("2.63")
    assert noise.variance == pytest.approx(0.3739555634, abs=1e-9)
    assert math.exp(noise.log_prob(0, 0)) == pytest.approx(0.6462646307, abs=1e-9)
