"""The test of the odds ratio: a linear program cannot do better, its promise holds, and its p-values are uniform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary.literature.canonical import CanonicalNoise
from adversary.literature.odds_ratio import umpu
from tests.oracles import invariant_tables
from tests.tables import over

MARGINS = (10, 10, 8, 12)
PROMISES: dict[str, adv.Guarantee] = {
    "pure": adv.PureDP(1.0),
    "approximate": adv.ApproximateDP(0.5, 0.05),
    "gaussian": adv.GaussianDP(0.8),
    "pure, groups of 2": adv.PureDP(0.4).group(2),
    "none": adv.NoPrivacy(),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[int, int, int, int]:
    t1, t2 = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    c1 = draw(st.integers(1, t1 + t2 - 1))
    return t1, t2, c1, t1 + t2 - c1


@settings(max_examples=40, deadline=None)
@given(
    tables(),
    st.floats(0.01, 0.6),
    st.floats(0.05, 3.0),
    st.sampled_from([0.0, 0.01, 0.2]),
    st.sampled_from([1.2, 3.0, 20.0]),
)
def test_no_private_test_of_the_same_level_has_more_power(
    margins: tuple[int, int, int, int], level: float, epsilon: float, delta: float, odds: float
) -> None:
    promise = adv.ApproximateDP(epsilon, delta) if delta else adv.PureDP(epsilon)
    test = umpu(margins, promise, level)
    best = invariant_tables.largest_power(margins, odds, level, epsilon, delta)
    assert test.power(odds) == pytest.approx(best, abs=1e-7)
    assert test.nonprivate_power(odds) >= test.power(odds) - 1e-12


@over(PROMISES, "promise")
def test_size_and_unbiasedness(promise: adv.Guarantee) -> None:
    test = umpu(MARGINS, promise, 0.1)
    assert test.power(1.0) == pytest.approx(0.1, abs=1e-12)
    power = test.power(np.geomspace(0.05, 50.0, 41))
    assert np.all(np.diff(power) > 0.0), "below its level under the hypothesis, above it under the alternative"
    assert test.reject_probability(test.support).shape == test.support.shape


@over(PROMISES, "promise")
def test_rejection_is_private(promise: adv.Guarantee) -> None:
    """psi(x) <= 1 - f(1 - psi(x +- 1)), 1 - f(1 - a) the power at level a, both orders (Lemma 34)."""
    psi = umpu(MARGINS, promise, 0.1).reject_probability(np.arange(9))
    for one, other in ((psi[1:], psi[:-1]), (psi[:-1], psi[1:])):
        assert np.all(one <= promise.power(other) + 1e-12)


@over(PROMISES, "promise")
def test_p_values_and_decisions_agree(promise: adv.Guarantee) -> None:
    test = umpu(MARGINS, promise, 0.07)
    assert test.p_value(test.threshold) == pytest.approx(0.07, abs=1e-12)
    released = test.threshold + np.array([-0.2, -1e-9, 1e-9, 0.2])
    np.testing.assert_array_equal(test.p_value(released) <= 0.07, [False, False, True, True])
    assert np.all(np.diff(test.p_value(np.linspace(-3.0, 12.0, 40))) <= 0.0)


@over(PROMISES, "promise")
def test_p_values_are_uniform_at_odds_ratio_one(promise: adv.Guarantee) -> None:
    test, rng = umpu(MARGINS, promise, 0.05), np.random.default_rng(12)
    x, mass = invariant_tables.fisher(MARGINS, 1.0)
    p = test.p_value(test.release(rng.choice(x, 2000, p=mass), rng))
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def test_any_canonical_noise_gives_the_same_test() -> None:
    """Gaussian noise, and the construction for the same trade-off: one test, at another threshold."""
    one, other = umpu(MARGINS, adv.GaussianDP(0.8), 0.05), umpu(MARGINS, adv.GaussianDP(0.8).worst_pair, 0.05)
    assert isinstance(other.noise, CanonicalNoise)
    x = one.support
    np.testing.assert_allclose(one.reject_probability(x), other.reject_probability(x), rtol=1e-9)
    assert abs(one.threshold - other.threshold) > 1e-6


def test_without_privacy_it_is_the_randomised_test_of_fisher() -> None:
    test = umpu(MARGINS, adv.NoPrivacy(), 0.05)
    x, null = invariant_tables.fisher(MARGINS, 1.0)
    beyond = np.append(np.cumsum(null[::-1])[::-1], 0.0)
    cut = int(np.flatnonzero(beyond <= 0.05)[0])
    psi = (np.array(x) >= cut).astype(float)
    psi[cut - 1] = (0.05 - beyond[cut]) / null[cut - 1]
    np.testing.assert_allclose(test.reject_probability(np.array(x)), psi, atol=1e-12)
    assert umpu(MARGINS, adv.PureDP(40.0), 0.05).power(3.0) == pytest.approx(test.power(3.0), rel=1e-9)


@pytest.mark.parametrize("margins", [MARGINS, (7, 9, 6, 10), (3, 20, 15, 8), (400, 300, 350, 350)])
def test_law_of_the_free_cell(margins: tuple[int, int, int, int]) -> None:
    test = umpu(margins, adv.PureDP(1.0), 0.05)
    for odds in (0.2, 1.0, 4.0):
        law = scipy.stats.nchypergeom_fisher(sum(margins[:2]), margins[0], margins[2], odds)
        mass = np.exp(test.log_mass(odds))
        np.testing.assert_allclose(mass, law.pmf(test.support), rtol=1e-6, atol=1e-12)
        assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert test.log_mass([0.5, 1.0]).shape == (2, test.support.size)


def test_margins_that_fix_the_table_leave_a_coin() -> None:
    with pytest.warns(RuntimeWarning, match="fix the whole table"):
        test = umpu((4, 6, 0, 10), adv.PureDP(1.0), 0.05)
    assert test.power(7.0) == pytest.approx(0.05)
    assert test.nonprivate_power(7.0) == pytest.approx(0.05)
    p = test.p_value(test.release(0, np.random.default_rng(3), 2000))
    assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3


def test_bad_input_is_refused() -> None:
    one = adv.PureDP(1.0)
    cases: list[tuple[Any, Any, float, str]] = [
        ((10, 10, 8, 11), one, 0.05, "margins must agree, got 10 \\+ 10 records in the rows and 8 \\+ 11"),
        ((10, -10, 8, -8), one, 0.05, "margins must be at least 0, got -10"),
        ((10, 10, 8), one, 0.05, "the four totals"),
        ((1.5, 1.5, 1, 2), one, 0.05, "margins must be a whole number"),
        (MARGINS, one, 0.0, "level must be strictly between 0 and 1, got 0.0"),
        (MARGINS, one, 1.0, "level must be strictly between"),
        (MARGINS, one, float("nan"), "level must be strictly between"),
        (MARGINS, adv.PureDP(0.0), 0.05, "allows no release"),
    ]
    for margins, promise, level, match in cases:
        with pytest.raises(ValueError, match=match):
            umpu(margins, promise, level)
    with pytest.raises(TypeError, match="zCDP is not determined by its trade-off"):
        umpu(MARGINS, adv.ZeroConcentratedDP(0.1), 0.05)
    test = umpu(MARGINS, one, 0.05)
    for x in (-1, 9):
        with pytest.raises(ValueError, match=r"x11 must be within \[0, 8\]"):
            test.reject_probability(x)
        with pytest.raises(ValueError, match="x11 must be within"):
            test.release(x, np.random.default_rng(0))
    with pytest.raises(ValueError, match="odds_ratio must be positive"):
        test.power(0.0)
    with pytest.raises(ValueError, match="released must be a number, got nan"):
        test.p_value(float("nan"))
