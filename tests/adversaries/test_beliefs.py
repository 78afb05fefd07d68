"""Laws every belief obeys, over the catalogue, against the same law written as a plain function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats

import adversary as adv
from adversary.adversaries.beliefs.belief import as_belief
from tests.catalogue import BELIEFS, PROPER
from tests.tables import refusals

INSIDE = (0, 1, 2, 3)


@pytest.mark.parametrize("name", BELIEFS)
def test_log_prob_is_the_law(name: str) -> None:
    belief, law = BELIEFS[name]
    for inside in INSIDE:
        totals = np.arange(40)
        expected = np.array([law(int(t), inside) for t in totals])
        np.testing.assert_allclose(belief.log_prob(totals, inside), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", BELIEFS)
def test_log_prob_broadcasts_and_keeps_scalars(name: str) -> None:
    belief = BELIEFS[name].belief
    grid = belief.log_prob(np.arange(9)[None, :], np.array(INSIDE)[:, None])
    assert grid.shape == (4, 9)
    assert grid.dtype == np.float64
    for inside in INSIDE:
        np.testing.assert_array_equal(grid[inside], belief.log_prob(np.arange(9), inside))
    assert isinstance(belief.log_prob(4, 2), float)


@pytest.mark.parametrize("name", BELIEFS)
def test_what_a_belief_says_of_itself_is_in_its_law(name: str) -> None:
    belief, totals = BELIEFS[name].belief, np.arange(40)
    given = np.array([belief.log_prob(totals, inside) for inside in INSIDE])
    if belief.independent:
        np.testing.assert_array_equal(given, [belief.log_prob(totals - inside, 0) for inside in INSIDE])
    assert belief.flat == all(np.array_equal(row == 0.0, totals >= k) for k, row in zip(INSIDE, given, strict=True))
    if belief.known_count is not None:
        np.testing.assert_array_equal(np.argmax(given, axis=1), belief.known_count + np.array(INSIDE))
    if belief.known_total is not None:
        assert np.isneginf(np.delete(given, belief.known_total, axis=1)).all()
    assert "tract" in belief.describe("tract", "block")


@pytest.mark.parametrize("name", PROPER)
def test_proper_beliefs_sum_to_one(name: str) -> None:
    belief = BELIEFS[name].belief
    for inside in INSIDE:
        mass = np.exp(belief.log_prob(np.arange(600), inside)).sum()
        excluded = isinstance(belief, adv.Point) and belief.total < inside
        assert mass == pytest.approx(0.0 if excluded else 1.0, abs=1e-12)


@pytest.mark.parametrize("name", BELIEFS)
def test_support_is_the_hull_of_the_mass(name: str) -> None:
    belief = BELIEFS[name].belief
    for inside in INSIDE:
        low, high = belief.support(inside)
        if isinstance(belief, adv.Point) and belief.total < inside:
            assert (low, high) == (belief.total, belief.total)
            continue
        assert np.isfinite(belief.log_prob(low, inside))
        assert belief.log_prob(low - 1, inside) == -math.inf
        if high is not None:
            assert np.isfinite(belief.log_prob(high, inside))
            assert belief.log_prob(high + 1, inside) == -math.inf


@pytest.mark.parametrize("name", BELIEFS)
def test_nothing_is_believed_below_the_count_inside(name: str) -> None:
    belief = BELIEFS[name].belief
    for inside in INSIDE:
        assert np.all(np.isneginf(belief.log_prob(np.arange(-3, inside), inside)))


@pytest.mark.parametrize("name", BELIEFS)
def test_window_holds_the_mass(name: str) -> None:
    belief = BELIEFS[name].belief
    for inside in INSIDE:
        window = belief.window(inside)
        assert (window is None) == (not belief.proper)
        if window is not None:
            outside = np.setdiff1d(np.arange(2000), np.arange(window[0], window[1] + 1))
            assert np.exp(belief.log_prob(outside, inside)).sum() < 3e-18


WIDE = {
    "poisson 2000": scipy.stats.poisson(2000.0),
    "poisson million": scipy.stats.poisson(1e6),
    "poisson 1e-9": scipy.stats.poisson(1e-9),
    "nbinom": scipy.stats.nbinom(2, 1e-3),
    "binom": scipy.stats.binom(100_000, 0.3),
    "geom": scipy.stats.geom(1e-4),
    "randint": scipy.stats.randint(0, 50_000),
    "bernoulli 0": scipy.stats.bernoulli(0.0),
}


@pytest.mark.parametrize("law", WIDE.values(), ids=WIDE.keys())
def test_window_of_a_wide_law_holds_its_mass(law: Any) -> None:
    low, high = adv.Others(law).window(3) or (0, 0)
    assert law.sf(high - 3) <= 1.1e-18
    assert law.cdf(low - 3 - 1) <= 1.1e-18
    assert low <= 3 + law.median() <= high


@pytest.mark.parametrize("law", WIDE.values(), ids=WIDE.keys())
def test_window_of_a_wide_law_is_no_wider_than_it_need_be(law: Any) -> None:
    """Work grows with the window: a hundred standard deviations are enough for any of these."""
    low, high = adv.Others(law).window(3) or (0, 0)
    assert high - low <= 100 * law.std() + 30


@pytest.mark.parametrize("name", BELIEFS)
def test_ties_say_whether_others_depend_on_the_target(name: str) -> None:
    """A belief ties records if the law of total - inside differs between counts inside."""
    belief = BELIEFS[name].belief
    others = np.arange(30)
    laws = [belief.log_prob(inside + others, inside) for inside in (0, 1)]
    assert belief.ties == (not np.array_equal(*laws))


def test_flat_beliefs_differ_by_their_constants() -> None:
    """Improper: the same constant for every count inside; bounded: normalised anew for each."""
    assert adv.Uniform().log_prob(5, 0) == adv.Uniform().log_prob(5, 1) == 0.0
    assert adv.Uniform(10).log_prob(5, 0) == pytest.approx(-math.log(11), rel=1e-15)
    assert adv.Uniform(10).log_prob(5, 1) == pytest.approx(-math.log(10), rel=1e-15)


def test_pmf_and_law_say_the_same() -> None:
    law = scipy.stats.binom(5, 0.3)
    table, frozen = adv.Others(law.pmf(np.arange(6))), adv.Others(law)
    totals = np.arange(12)
    np.testing.assert_allclose(table.log_prob(totals, 3), frozen.log_prob(totals, 3), rtol=1e-12)
    assert table.support(3) == frozen.support(3) == (3, 8)


def test_bare_laws_and_pmfs_mean_others() -> None:
    for bare in (scipy.stats.poisson(2.0), [0.2, 0.8], np.array([0.2, 0.8]), (0.2, 0.8)):
        assert isinstance(as_belief("tract", bare), adv.Others)
    point = adv.Point(3)
    assert as_belief("tract", point) is point


def test_a_pmf_is_copied_and_frozen() -> None:
    pmf = np.array([0.5, 0.5])
    belief = adv.Others(pmf)
    pmf[0] = 0.0
    assert belief.log_prob(0, 0) == pytest.approx(math.log(0.5))
    with pytest.raises(ValueError, match="read-only"):
        belief.law[0] = 1.0


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: adv.Others([0.5, 0.6]), r"pmf must sum to one, got .*1\.1"),
    (lambda: adv.Others([1.5, -0.5]), r"pmf must be.*non-negative.*-0\.5"),
    (lambda: adv.Others(scipy.stats.randint(-2, 3)), "support in 0, 1, 2.*-2"),
    (lambda: adv.Others(scipy.stats.poisson(2.0, loc=0.5)), "support|whole"),
    (lambda: adv.Others(scipy.stats.norm(3.0)), "discrete|pmf|law", (TypeError, ValueError)),
    (lambda: as_belief("tract", "uniform"), "belief about 'tract'.*'uniform'", TypeError),
)


def test_a_law_whose_far_quantiles_scipy_does_not_find_is_a_belief() -> None:
    """Of this law `ppf(1 - 1e-12)` ends in a RuntimeError: its cdf is flat there, to rounding."""
    belief = adv.Others(scipy.stats.logser(0.7850972626939814))
    low, high = belief.bulk()
    assert low == 1
    assert scipy.stats.logser(0.7850972626939814).sf(high) < 1e-17


def test_a_law_whose_far_quantile_scipy_does_not_find_is_a_belief() -> None:
    """zipf(4.52): its distribution function is level in doubles before it reaches 1 - 1e-9."""
    law = scipy.stats.zipf(4.519628674491735)
    with pytest.raises(RuntimeError, match="endless loop"):
        law.ppf(1 - 1e-9)
    assert adv.Others(law).log_prob(5, 3) == pytest.approx(law.logpmf(2))
